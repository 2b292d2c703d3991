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
