"""Files in pieces: the same events, and the same matches, as read at once."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from shedlight.cli.main import app
from shedlight.engines import event_pieces
from shedlight.engines.event_files import read_events
from shedlight.engines.event_pieces import PiecesDifferError, open_pieces

PATTERN = "SELECT a.x, b.x AS y WHERE SEQ(a.type = 0, b.type = 1, NOT(c.type = 2)) WITHIN 20 us"


def _table(size=400, seed=1):
    rng = np.random.default_rng(seed)
    times = np.arange(size) * 3 + rng.integers(0, 9, size)
    return pa.table({"time": times, "type": rng.integers(0, 4, size), "x": rng.random(size)})


def _write(table, path):
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    elif path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))


@pytest.fixture
def small_pieces(monkeypatch):
    """Make pieces of some dozens of events."""
    monkeypatch.setattr(event_pieces, "EVENTS_PER_PIECE", 64)
    monkeypatch.setattr(event_pieces, "BYTES_PER_PIECE", 2_000)


def _opened(path):
    pieces = open_pieces(path)
    assert pieces is not None
    return pieces


FORMATS = [".parquet", ".csv", ".jsonl"]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("ending", FORMATS)
def test_pieces_are_the_file(tmp_path, ending):
    """Several of them, with the columns that the whole has."""
    path = tmp_path / f"events{ending}"
    _write(_table(), path)
    pieces = _opened(path)
    tables = list(pieces.tables)
    assert len(tables) > 3
    assert pa.concat_tables(tables).equals(read_events(path))
    assert pieces.schema.equals(read_events(path).schema)


def test_small_files_and_folders_are_read_at_once(tmp_path):
    """There is nothing to gain."""
    _write(_table(), tmp_path / "events.parquet")
    assert open_pieces(tmp_path) is None
    assert open_pieces(tmp_path / "events.parquet") is None


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("ending", FORMATS)
def test_the_pieces_of_a_folder_are_those_of_its_files(tmp_path, ending):
    """One after the other by their names; small ones are a piece each."""
    table = _table()
    for number, (first, size) in enumerate([(0, 200), (200, 10), (210, 190)]):
        _write(table.slice(first, size), tmp_path / f"{number}{ending}")
    tables = list(_opened(tmp_path).tables)
    assert len(tables) > 3
    assert pa.concat_tables(tables).equals(read_events(tmp_path))


@pytest.mark.usefixtures("small_pieces")
def test_a_folder_whose_files_differ_is_read_at_once(tmp_path):
    """It has the columns of all of them, null where a file has none."""
    _write(_table(), tmp_path / "1.csv")
    more = _table(seed=2)
    _write(more.append_column("y", more["x"]), tmp_path / "2.csv")
    with pytest.raises(PiecesDifferError):
        list(_opened(tmp_path).tables)
    assert _matches(tmp_path, "--lateness", "1 s")


APP = """
name: app
sources:
  left:
    format: {format}
    path: left{ending}
    time: time
    id: n
    malformed: {{format: json, path: bad}}
  right: {{format: {format}, path: right, time: time, id: n, columns: {{twice: 2 * x}}}}
nodes: {{main: {{}}, last: {{}}}}
operators:
  pairs:
    node: main
    input: [left, right]
    patterns:
      P: SELECT a.x, b.x AS y WHERE SEQ(a.type = 0, b.type = 1 AND b.twice > 1) WITHIN 20 us
      Q: SELECT a.x, a.x AS y WHERE SEQ(a.type = 2, NOT(b.type = 3)) WITHIN 9 us
  both:
    node: last
    input: [pairs.P, pairs.Q]
    patterns:
      R: SELECT p.y WHERE SEQ(p.source = 'P', q.source = 'Q') WITHIN 50 us
sinks: {{out: {{input: both.R, format: json, path: out}}}}
"""


@pytest.mark.parametrize("ending", FORMATS)
def test_an_application_finds_the_same_in_pieces(tmp_path, request, ending):
    """Two sources, a file and a folder; malformed records and events from the future too."""
    table = _table().append_column("n", pa.array([None, *range(1, 400)]))
    times = table["time"].to_pylist()
    times[77] = 5 * 10**15
    left = table.set_column(0, "time", pa.array(times))
    (tmp_path / "right").mkdir()
    _write(left, tmp_path / f"left{ending}")
    right = _table(seed=2).append_column("n", pa.array(range(400)))
    _write(right.slice(0, 300), tmp_path / "right" / f"1{ending}")
    _write(right.slice(300), tmp_path / "right" / f"2{ending}")
    names = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json"}
    text = APP.format(ending=ending, format=names[ending])
    (tmp_path / "app.yaml").write_text(text)
    whole = CliRunner().invoke(app, ["match", str(tmp_path / "app.yaml"), "--json"])
    request.getfixturevalue("small_pieces")
    pieces = CliRunner().invoke(app, ["match", str(tmp_path / "app.yaml"), "--json"])
    assert whole.exit_code == pieces.exit_code == 0, whole.output
    assert '"pattern": "R"' in whole.stdout
    assert pieces.stdout == whole.stdout
    assert "1 malformed record left out" in pieces.stderr
    assert "1 event is left out" in pieces.stderr


def _matches(path, *options):
    arguments = ["match", "--pattern", PATTERN, "--input", str(path), "--json", *options]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return [line for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("options", [(), ("--lateness", "6 us"), ("--timed-out",)])
def test_matches_in_pieces_are_those_of_the_whole(tmp_path, request, ending, options):
    """Late events too: the file is not in order."""
    path = tmp_path / f"events{ending}"
    _write(_table(), path)
    whole = _matches(path, *options)
    request.getfixturevalue("small_pieces")
    assert whole
    assert _matches(path, *options) == whole


@pytest.mark.usefixtures("small_pieces")
def test_a_file_whose_later_values_are_of_another_data_type_is_read_at_once(tmp_path):
    """Whole numbers first and decimal ones at the end: the column is one of decimal numbers."""
    path = tmp_path / "events.csv"
    rows = [f"{i},{i % 3},{i}" for i in range(1_000)] + ["1000,0,0.5", "1001,1,1.5"]
    path.write_text("\n".join(["time,type,x", *rows]) + "\n")
    with pytest.raises(PiecesDifferError):
        list(_opened(path).tables)
    assert json.loads(_matches(path)[-1])["y"] == 1.5
