"""The file of a run is read again when it changes."""

from pathlib import Path

from shedlight.cli.watch import FileWatch
from shedlight.errors import StateError
from shedlight.graph import Application, load_application

TEXT = """
name: watched
sources: {s: {format: parquet, path: in, time: time, id: [id]}}
nodes: {n: {}}
operators: {w: {node: n, input: [s], patterns: {P: SELECT a.id AS one WHERE a.type = 0}}}
sinks: {k: {input: w.P, format: parquet, path: out}}
"""


def accept(application: Application) -> None:
    """Have nothing against it."""


def watch(folder: Path) -> FileWatch:
    """Watch a file that is there."""
    file = folder / "app.yaml"
    file.write_text(TEXT)
    return FileWatch(file, lambda: load_application(file).application)


def test_a_file_that_stays_is_not_read_again(tmp_path):
    """Nor one that is written again as it was."""
    watched = watch(tmp_path)
    assert watched.changed(accept) is None
    watched.file.write_text(TEXT)
    assert [watched.changed(accept) for _ in range(3)] == [None] * 3


def test_a_file_that_changes_is_read_once_it_is_whole(tmp_path):
    """When it is the same for two looks; and only once."""
    watched = watch(tmp_path)
    watched.file.write_text(TEXT.replace("type = 0", "type ="))
    assert watched.changed(accept) is None
    watched.file.write_text(TEXT.replace("type = 0", "type = 1"))
    assert watched.changed(accept) is None
    changed = watched.changed(accept)
    assert changed is not None
    assert "type = 1" in str(changed.operators["w"].patterns["P"])
    assert watched.changed(accept) is None


def test_what_is_wrong_is_said_and_changes_nothing(tmp_path, capsys):
    """In the file itself, or because the run cannot go on with it."""

    def reject(application: Application) -> None:
        raise StateError(f"{application.name} is refused; leave it as it was")

    watched = watch(tmp_path)
    watched.file.write_text(TEXT.replace("w.P", "w.Q"))
    assert [watched.changed(accept) for _ in range(3)] == [None] * 3
    said = capsys.readouterr().err
    assert "app.yaml has changed, and the run goes on as it was: " in said
    assert said.count("goes on as it was") == 1
    watched.file.unlink()
    assert watched.changed(accept) is None
    watched.file.write_text(TEXT.replace("type = 0", "type = 2"))
    assert [watched.changed(reject) for _ in range(3)] == [None] * 3
    assert "watched is refused; leave it as it was" in capsys.readouterr().err
