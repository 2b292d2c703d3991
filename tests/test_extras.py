"""What works without the extras, and what is said where one is missing."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from shedlight.cli.new import new
from shedlight.errors import EXTRAS, missing_extra
from tests.console import ROOT

SNAPSHOT = """{"rates": {"events": {}}, "processing_time": {}}"""
WITHOUT = f"""
import sys

class Missing:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {list(EXTRAS)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def _python(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def shedlight(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command where no extra is installed."""
    return _python("from shedlight.cli.main import main; main()", folder, *arguments)


def test_the_core_needs_no_extra(tmp_path):
    """An application from its start to a plan."""
    (tmp_path / "snapshot.json").write_text(SNAPSHOT)
    for arguments in (
        ("new", "shop"),
        ("check", "shop/app.yaml"),
        ("match", "shop/app.yaml", "--limit", "1"),
        ("simulate", "shop/app.yaml", "--load", "2"),
        ("plan", "shop/app.yaml", "--snapshot", "snapshot.json"),
    ):
        done = shedlight(tmp_path, *arguments)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "package", "extra"),
    [
        (("run", "app.yaml", "--once"), "pyspark", "spark"),
        (("serve", "log.jsonl"), "uvicorn", "page"),
        (("simulate", "app.yaml", "--output", "rows"), "matplotlib", "plots"),
    ],
)
def test_a_command_says_which_extra_it_needs(tmp_path, arguments, package, extra):
    """In one sentence."""
    new(tmp_path)
    (tmp_path / "log.jsonl").write_text("")

    done = shedlight(tmp_path, *arguments)

    assert done.stderr.endswith(
        f"shedlight: {package} is not installed; install it with shedlight: "
        f"pip install 'shedlight[{extra}]'\n"
    )
    assert done.returncode == 1


def test_a_name_says_which_extra_it_needs(tmp_path):
    """As a ShedlightError that is an ImportError, too."""
    done = _python("from shedlight import find", tmp_path)
    assert "pip install 'shedlight[spark]'" in done.stderr.splitlines()[-1]


def test_what_no_extra_brings_is_an_error_as_it_is():
    """It is nothing that an extra could put right."""
    assert missing_extra(ModuleNotFoundError(name="nowhere")) is None


@pytest.fixture
def wheel(tmp_path):
    """Build the wheel."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = tmp_path.glob("*.whl")
    return found


def test_the_wheel_has_what_belongs_to_it(wheel):
    """The page, the examples and the extras; no tests, no experiments."""
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        text = file.read(metadata).decode()
    for extra in set(EXTRAS.values()):
        assert f"Provides-Extra: {extra}\n" in text
    assert any(name.startswith("shedlight/page/static/") for name in names)
    assert any(name.startswith("shedlight/templates/fraud/") for name in names)
    assert {name.split("/")[0] for name in names} == {"shedlight", metadata.split("/")[0]}


@pytest.mark.soak
@pytest.mark.parametrize("extras", ["", "[spark]", "[page]"])
def test_the_wheel_works_in_an_empty_environment(wheel, tmp_path, extras):
    """What each set of extras is for."""
    place = tmp_path / "environment"
    venv.create(place, with_pip=True)

    def run(*command: str) -> str:
        environment = {**os.environ, "PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
        for name in ("VIRTUAL_ENV", "PYTHONPATH", "PYSPARK_PYTHON"):
            environment.pop(name, None)
        program = str(place / "bin" / command[0])
        return subprocess.run(
            [program, *command[1:]],
            cwd=tmp_path,
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    run("pip", "install", "--quiet", f"{wheel}{extras}")
    run("shedlight", "new", "shop")
    assert "SuddenOrder" in run("shedlight", "match", "shop/app.yaml", "--limit", "2")
    if extras == "[spark]":
        assert "found 396" in run("shedlight", "run", "shop/app.yaml", "--once")
        (tmp_path / "front_page.py").write_text(_first_python_block())
        assert "|alice| 900.0|" in run("python", "front_page.py")
    if extras == "[page]":
        run("python", "-c", "import shedlight.page.server")


def _first_python_block() -> str:
    text = (ROOT / "README.md").read_text("utf-8")
    return text.split("```python\n", 1)[1].split("```", 1)[0]
