"""What docs/running.md shows works as it stands there."""

import re
from pathlib import Path

import pytest

from shedlight.engines.spark.run.streaming import Live
from shedlight.graph import load_application
from tests.cli.test_run import APPLICATION

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[4] / "docs" / "running.md").read_text("utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_program_runs(spark, tmp_path, monkeypatch):
    """For some seconds less."""
    (tmp_path / "data").mkdir()
    there = APPLICATION.replace("path: ", f"path: {tmp_path}/")  # Spark was started elsewhere
    (tmp_path / "app.yaml").write_text(there)
    monkeypatch.chdir(tmp_path)
    (program,) = _blocks("python")
    names = {"spark": spark}

    shorter = program.replace("wait(600)", "wait(3)")
    assert shorter != program
    exec(shorter, names)  # noqa: S102  # it is our own

    assert isinstance(names["running"], Live)
    assert (tmp_path / "state" / "app" / "application").exists()


def test_the_side_outputs_are_understood():
    """In place of the source of an application."""
    (sources,) = (block for block in _blocks("yaml") if "late:" in block)
    rest = APPLICATION[APPLICATION.index("nodes:") :].replace("input: s\n", "input: payments\n")

    loaded = load_application(f"name: small\n{sources}{rest}")

    assert set(loaded.application.sources["payments"].side_outputs) == {"late", "malformed"}
