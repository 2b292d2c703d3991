"""`shedlight control`: what it says of bad input."""

from typer.testing import CliRunner

from shedlight.cli.main import app
from shedlight.errors import InputError
from tests.graph.applications import SMALL


def test_an_address_is_no_folder_of_the_controller(tmp_path, monkeypatch):
    """Nor is one made that has its name."""
    file = tmp_path / "app.yaml"
    file.write_text(SMALL)
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(
        app, ["control", str(file), "--checkpoint", "hdfs://host:1/state"]
    )

    assert isinstance(done.exception, InputError)
    assert "--checkpoint hdfs://host:1/state is in no local folder" in str(done.exception)
    assert list(tmp_path.iterdir()) == [file]
