"""Traces with flaws: what is wrong is named, the rest is read."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from experiments.borg.files import Flaw
from experiments.borg.read import MAX_NAMED, FilePart, Reading, cluster_files, read_source
from shedlight.errors import InputError
from tests.experiments.traces import events_of, flaws_of, instance, write_clusters, write_lines

ALL = (FilePart("*"),)
NEVER = 2**63 - 1

WRONG = [
    (instance(0, 5), Flaw.BEFORE),
    (instance(NEVER, 5), Flaw.AFTER),
    (instance(-3, 5), Flaw.BAD_TIME),
    (instance("1e3", 5), Flaw.BAD_TIME),
    (instance("", 5), Flaw.NO_TIME),
    ({"machine_id": "5"}, Flaw.NO_TIME),
    (instance(1, 0), Flaw.NO_MACHINE),
    (instance(1, -1), Flaw.NO_MACHINE),
    ({"time": "1"}, Flaw.NO_MACHINE),
    (instance(1, "m5"), Flaw.BAD_MACHINE),
    (instance(1, -7), Flaw.BAD_MACHINE),
]


def test_malformed_rows_are_named_and_left_out(tmp_path):
    """By file, row and flaw; the others are read."""
    write_lines(tmp_path / "a.json", instance(9, 5), *(row for row, _ in WRONG))

    trace = read_source(tmp_path, ALL)

    assert events_of(trace) == [(9, 1, 5)]
    assert flaws_of(trace) == [
        ("a.json", number, flaw) for number, (_, flaw) in enumerate(WRONG, 2)
    ]
    assert str(trace.malformed[0]) == (
        "a.json: row 2 has time 0: it was so before the trace began"
    )


def test_lines_that_are_no_json_are_named(tmp_path):
    """And values that are numbers here and text there are read."""
    number = {"time": 8, "machine_id": 5}
    write_lines(tmp_path / "a.json", instance(9, 5), '{"time": "1', "", "[1]", number)

    trace = read_source(tmp_path, ALL)

    assert events_of(trace) == [(8, 1, 5), (9, 1, 5)]
    assert flaws_of(trace) == [("a.json", row, Flaw.UNREADABLE) for row in (2, 3)]


def test_rows_of_csv_with_other_fields_are_named(tmp_path):
    """Numbers of rows go on behind them; bytes that are no text are no numbers."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"time,machine_id\n3,5\n4\n\n5,\xff\n6,5,7\nx,5\n7,6\n")

    trace = read_source(tmp_path, ALL)

    assert events_of(trace) == [(3, 1, 5), (7, 2, 6)]
    assert flaws_of(trace) == [
        ("a.csv", 2, Flaw.UNREADABLE),
        ("a.csv", 3, Flaw.BAD_MACHINE),
        ("a.csv", 4, Flaw.UNREADABLE),
        ("a.csv", 5, Flaw.BAD_TIME),
    ]


def test_numbers_of_parquet_are_checked_too(tmp_path):
    """Floats that are whole, and unsigned ones that fit."""
    columns = {
        "time": pa.array([5, 2**63 - 1, 2**63, None], pa.uint64()),
        "machine_id": [5.0, 6.0, 7.0, 8.5],
    }
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "a.parquet")

    trace = read_source(tmp_path, ALL)

    assert events_of(trace) == [(5, 1, 5)]
    assert [flaw for _, _, flaw in flaws_of(trace)] == [Flaw.AFTER, Flaw.BAD_TIME, Flaw.NO_TIME]


def test_all_malformed_rows_are_counted_and_the_first_are_named(tmp_path):
    """The traces have very many rows without a machine."""
    most = MAX_NAMED
    times = np.arange(1, most + 12)
    table = pa.table({"time": times, "machine_id": np.zeros(len(times), np.int64)})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")

    trace = read_source(tmp_path, ALL)

    assert trace.flaws == {Flaw.NO_MACHINE: most + 11}
    assert [one.row for one in trace.malformed] == list(range(1, most + 1))
    assert len(trace.events) == 0


def test_a_malformed_row_is_an_error_if_asked_for(tmp_path):
    """With its place and what to do."""
    write_lines(tmp_path / "a.json", instance(1, 5), instance(0, 5), instance(2, 0))

    with pytest.raises(InputError, match=r"a.json: row 2 has time 0.*; 2 rows .*strict=False"):
        read_source(tmp_path, ALL, Reading(strict=True))


def test_missing_folders_files_and_columns_are_named(tmp_path):
    """And what there is instead."""
    write_lines(tmp_path / "a.csv", "time,machine", "1,2")
    write_clusters(tmp_path, [1])

    with pytest.raises(InputError, match="nowhere: there is no such folder"):
        read_source(tmp_path / "nowhere", ALL)
    with pytest.raises(InputError, match=r"no file is called 'cluster_2.\*'; known: a.csv, cl"):
        read_source(tmp_path, cluster_files([2]))
    with pytest.raises(
        InputError, match=r"a.csv: .* no column of the machine.*'machine_id' or"
    ):
        read_source(tmp_path, (FilePart("a.csv"),))
    with pytest.raises(
        InputError, match=r"cluster_1.parquet: there is no column of the cluster"
    ):
        read_source(tmp_path, (FilePart("cluster_1.parquet", clusters=(1,)),))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "a.csv: the file is empty"),
        ("a.csv", b"1,2,3\n", "a.csv: its first line is no line of names, and 3 fields"),
        ("a.parquet", b"no", "a.parquet: cannot be read as parquet"),
        ("a.json.gz", b"no", "a.json.gz: cannot be read as json"),
        ("a.json", b"no\n", "a.json: there is no column of the time"),
        ("a.txt", b"no\n", "cannot tell the format"),
    ],
)
def test_files_that_are_no_traces_are_refused(tmp_path, name, content, message):
    """With the name of the file."""
    (tmp_path / name).write_bytes(content)

    with pytest.raises(InputError, match=message):
        read_source(tmp_path, ALL)
