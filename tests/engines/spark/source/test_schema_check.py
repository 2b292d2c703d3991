"""Files of a source that lack a column are found when they appear."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.source import schema_check
from shedlight.engines.spark.source.schema_check import FileColumns
from shedlight.errors import InputError
from tests.graph.applications import loaded

SCHEMA = "schema: {key: bigint, ts: bigint, type: bigint, host: {zone: string}}"


@pytest.fixture
def looked_at(tmp_path, monkeypatch):
    """Look at a folder, as often as asked."""
    monkeypatch.setattr(schema_check, "CHECK_INTERVAL_S", 0.0)
    (tmp_path / "s1").mkdir()
    application = loaded(("path: data/s1", f"path: {tmp_path}/s1\n    {SCHEMA}"))
    return tmp_path / "s1", FileColumns(application)


def _write(folder, name, *names):
    pq.write_table(pa.table({one: [1] for one in names}), folder / name)


def test_a_file_that_lacks_a_column_is_named(looked_at):
    """Case makes no difference; what is hidden or no Parquet is left to Spark."""
    folder, files = looked_at
    _write(folder, "1.parquet", "key", "TS", "type", "host", "more")
    _write(folder, ".2.parquet", "key")
    (folder / "3.parquet").write_text("nonsense")
    files.check()
    files.check()
    _write(folder, "4.parquet", "key", "ts", "host")

    with pytest.raises(InputError) as error:
        files.check()

    assert str(error.value) == (
        f"source s1: the file {folder}/4.parquet lacks the column 'type'; put a file that has "
        "it, null if need be, under another name in its place"
    )


def test_files_that_were_there_are_looked_at_too(looked_at):
    """Before anything runs."""
    folder, files = looked_at
    _write(folder, "1.parquet", "key", "ts")

    with pytest.raises(InputError, match="lacks the column 'type'"):
        files.check()
