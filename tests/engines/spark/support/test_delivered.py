"""What a sink of files has got, read without Spark."""

import json

import pyarrow as pa
import pytest

from shedlight.engines.event_files import write_events
from shedlight.engines.spark.support.delivered import delivered_ids
from shedlight.errors import InputError
from shedlight.graph import Sink, Stream

ROWS = pa.table({"source": ["P"] * 3, "id": ["12", "034", "a,b"], "events": [[1], [2], None]})


def sink(folder, file_format="parquet", **options):
    """Have a sink in a folder."""
    options = {name: str(value).lower() for name, value in options.items()}
    where = {"format": file_format, "path": str(folder), "options": options}
    return Sink(name="k", input=Stream("P", "w"), **where)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_ids_are_text_in_any_format(tmp_path, ending):
    """Also where a reader would take them for numbers."""
    write_events(ROWS, tmp_path / f"1.{ending}")
    name = ending.removesuffix("l")
    target = sink(tmp_path, name, **({"header": True} if name == "csv" else {}))
    assert delivered_ids(target).to_pylist() == ["12", "034", "a,b"]
    assert delivered_ids(sink(tmp_path, "kafka"), tmp_path / f"1.{ending}").to_pylist() == [
        "12",
        "034",
        "a,b",
    ]


def log(folder, *files):
    """Write the log of a sink of Spark."""
    (folder / "_spark_metadata").mkdir()
    lines = [
        json.dumps({"path": f"file://{folder}/{name}", "modificationTime": 1000})
        for name in files
    ]
    (folder / "_spark_metadata" / "0").write_text("\n".join(["v1", *lines]))


def test_only_files_that_its_log_names_count(tmp_path):
    """What was written by an attempt that failed was never delivered."""
    for name in ("good.parquet", "failed.parquet"):
        write_events(ROWS, tmp_path / name)
    log(tmp_path, "good.parquet")
    assert len(delivered_ids(sink(tmp_path))) == 3


def test_a_file_that_is_gone_is_told(tmp_path):
    """What was in it would come twice."""
    write_events(ROWS, tmp_path / "good.parquet")
    log(tmp_path, "good.parquet", "gone.parquet")
    with pytest.raises(InputError, match=r"sink k lacks .*gone\.parquet, which its log names"):
        delivered_ids(sink(tmp_path))


@pytest.mark.parametrize(
    "target",
    [
        sink("s3://x", "parquet"),
        sink("x", "csv"),
        sink("x", "csv", header=True, sep="|"),
        sink("x", "orc"),
        Sink(name="k", input=Stream("P", "w"), format="kafka"),
    ],
    ids=["elsewhere", "no header", "unusual", "format", "no files"],
)
def test_what_cannot_be_read_is_asked_for(target):
    """With what to do."""
    with pytest.raises(InputError, match=r"give --delivered k=FILE; or leave it out"):
        delivered_ids(target)


def test_a_sink_that_was_never_written_has_nothing(tmp_path):
    """Nor has a file that is empty; one that is damaged is an error."""
    assert len(delivered_ids(sink(tmp_path / "none"))) == 0
    (tmp_path / "1.json").touch()
    assert len(delivered_ids(sink(tmp_path, "json"))) == 0
    (tmp_path / "2.json").write_text('{"id": "1"')
    with pytest.raises(InputError, match=r"2\.json: the column 'id' cannot be read"):
        delivered_ids(sink(tmp_path, "json"))


def test_a_sink_that_is_gone_has_not_got_nothing(tmp_path):
    """By the checkpoint of its delivery it was there: all of it would be recovered."""
    with pytest.raises(
        InputError, match=r"none is gone, and sink .* was written there"
    ) as error:
        delivered_ids(sink(tmp_path / "none"), has_some=True)
    assert "put it back, or give --delivered" in str(error.value)
    assert len(delivered_ids(sink(tmp_path), has_some=True)) == 0
