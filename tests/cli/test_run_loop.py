"""A run that is watched goes on with the application that its file has."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from shedlight.cli import run_loop
from shedlight.cli.run_loop import run_until_over
from shedlight.cli.watch import FileWatch
from shedlight.errors import StateError
from shedlight.graph import load_application
from tests.cli.test_watch import TEXT

BEFORE = load_application(TEXT).application
NOW = replace(BEFORE, name="now")


class Running:
    """A run that goes on until it has been looked at so often, and may die when it stops."""

    def __init__(self, looks, death=None):
        self._looks, self._death = looks, death

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._death is not None:
            raise self._death

    def wait(self, seconds):  # noqa: ARG002
        """Say whether it still runs."""
        self._looks -= 1
        return self._looks >= 0

    def check_change(self, application):
        """Have nothing against it."""


@pytest.fixture
def watch(tmp_path, monkeypatch):
    """Watch a file that has changed."""
    monkeypatch.setattr(run_loop, "shown", lambda _: nullcontext())
    file = tmp_path / "app.yaml"
    file.write_text(TEXT)
    watched = FileWatch(file, lambda: NOW)
    file.write_text(TEXT + "# changed\n")
    return watched


def run(watch, start):
    """Run with a view that shows nothing."""
    view = SimpleNamespace(seconds=0.0, begin=lambda: None, begin_changed=lambda _: None)
    run_until_over(BEFORE, start, view, None, watch)  # type: ignore[arg-type]


def test_if_spark_dies_at_the_change_it_starts_again_with_the_new_application(watch):
    """Before the new one runs, and while it begins: the checkpoint may be of it by then."""
    with pytest.raises(OSError, match="gone"):
        run(watch, lambda _: Running(9, OSError("the JVM is gone")))
    assert watch.application is NOW

    def start(application):
        if application is NOW:
            raise OSError("the JVM is gone")
        return Running(9)

    watch.application = None
    watch.file.write_text(TEXT + "# changed again\n")
    with pytest.raises(OSError, match="gone"):
        run(watch, start)
    assert watch.application is NOW


def test_what_the_run_cannot_go_on_with_changes_nothing(watch, capsys):
    """It goes on as it was, also if Spark has to start again."""
    asked = []

    def start(application):
        asked.append(application)
        if application is NOW:
            raise StateError("a column is missing; put it there")
        return Running(9 if len(asked) == 1 else 0)

    run(watch, start)
    assert asked == [BEFORE, NOW, BEFORE]
    assert watch.application is BEFORE
    assert "the run goes on as it was: a column is missing" in capsys.readouterr().err


def test_a_file_that_says_the_same_does_not_stop_the_run(watch, capsys):
    """Such as one that is put back after a mistake, or has another comment."""
    same = FileWatch(watch.file, lambda: load_application(TEXT).application)
    watch.file.write_text(TEXT + "# one comment more\n")
    asked = []

    def start(application):
        asked.append(application)
        return Running(9)

    run(same, start)
    assert asked == [BEFORE]
    assert same.application is None
    assert "has changed" not in capsys.readouterr().err
