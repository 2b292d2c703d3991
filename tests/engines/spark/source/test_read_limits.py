"""Small first micro-batches: a source lets in little at first, and twice as much each time."""

import json
import threading

import pytest

from shedlight.engines.spark.source.read_limits import (
    FIRST_BYTES,
    MAX_BYTES,
    can_double,
    double_limits,
)
from shedlight.engines.spark.source.reader import read_source
from shedlight.graph import Source
from shedlight.language.ast.data_type import DataType

pytestmark = pytest.mark.spark

FILES, FILE_BYTES = 16, 100_000


def _read_in_batches(spark, folder, options, *, starts_small=True):
    """Read files of a known size; give how many are in each micro-batch, and what it said."""
    (folder / "in").mkdir()
    for number in range(FILES):
        row = {"n": number, "pad": "x" * FILE_BYTES}
        (folder / "in" / f"{number}.json").write_text(json.dumps(row))
    schema = {"n": DataType.BIGINT, "pad": DataType.STRING}
    path = str(folder / "in")
    source = Source(
        name="s", format="json", path=path, time="n", id=("n",), schema=schema, options=options
    )
    frame = read_source(spark, source, streaming=True, starts_small=starts_small)
    counts, said, started = [], [], threading.Event()

    def take(batch, _):
        counts.append(batch.count())
        started.wait(60)
        said.append(double_limits(spark, query))

    writer = frame.select("n").writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(folder / "state")).start()
    started.set()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return counts, said


def test_each_micro_batch_may_read_twice_as_much_as_the_one_before(spark, tmp_path):
    """By bytes; and none is lost on the way."""
    assert can_double(spark)
    counts, said = _read_in_batches(spark, tmp_path, {})
    assert counts == [2, 5, FILES - 7]
    assert all(said)


@pytest.mark.parametrize(
    "options", [{"maxFilesPerTrigger": "8"}, {"maxBytesPerTrigger": "9e5"}]
)
def test_what_the_source_says_stays(spark, tmp_path, options):
    """Whoever limits what is read has a reason."""
    options = {name: str(int(float(value))) for name, value in options.items()}
    counts, said = _read_in_batches(spark, tmp_path, options)
    assert counts == [8, 8]
    assert not any(said)


def test_what_does_not_start_small_is_not_doubled(spark, tmp_path):
    """A finite run has no first minute to get through."""
    counts, said = _read_in_batches(spark, tmp_path, {}, starts_small=False)
    assert (counts, said) == ([FILES], [False])
    assert MAX_BYTES == FIRST_BYTES * 256
