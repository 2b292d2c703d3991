"""A run with fixed shares that is restarted with others goes on with these."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream
from shedlight.graph.application import build_application
from shedlight.language import DataType, parse_pattern
from shedlight.shedding.shares import PatternShares

pytestmark = pytest.mark.spark

FOUND = Stream("X", "w")
TEXT = (
    "SELECT a.n AS n WHERE SEQ(a.type = 0, NOT(b.type = 1), c.type = 2) WITHIN 1 s "
    "PARTITION BY key"
)
COLUMNS = ("time", "n", "type", "key")


def application(folder):
    """Have a pattern that watches something, with its files in a folder."""
    source = Source(name="s", format="parquet", path=str(folder / "in"), time="time", id=("n",))
    schema = dict.fromkeys(COLUMNS, DataType.BIGINT)
    spec = OperatorSpec(
        name="w",
        node="edge",
        inputs=(Stream("s"),),
        patterns={"X": parse_pattern(TEXT).pattern},
    )
    sink = Sink(name="k", input=FOUND, format="parquet", path=str(folder / "out"))
    return build_application(
        "restarted",
        [replace(source, schema=schema)],
        [Node(name="edge", bound=1.0)],
        [spec],
        [sink],
    )


def events(part, keys=8):
    """Make a pair of each key in a second, and what goes beyond it."""
    start = part * 10_000_000
    times = [start + 1000 * key + at for at in (0, 500_000) for key in range(keys)]
    types = np.repeat([0, 2], keys)
    numbers = np.arange(len(times)) + 100 * part
    return pa.table(
        dict(zip(COLUMNS, (times, numbers, types, [*range(keys)] * 2), strict=True)),
        pa.schema({name: pa.int64() for name in COLUMNS}),
    )


@pytest.mark.soak  # the steps have it without Spark
def test_a_run_is_whole_again_after_a_restart_with_other_shares(spark, tmp_path):
    """What was shed before it holds until events are later than all that were shed."""
    (tmp_path / "in").mkdir()
    drawn = application(tmp_path)
    rounds, found = [(0.0, [0]), (1.0, [1, 2, 3])], set[int]()
    for share, parts in rounds:
        shares = {FOUND: PatternShares({}, by_key=True, default_share=share)}
        options = Options(shares=shares, delivery_interval=1.0, idle_timeout=3600.0)
        with Live(drawn, spark, checkpoint=str(tmp_path / "state"), options=options) as live:
            for part in parts:
                pq.write_table(events(part), tmp_path / "new.parquet")
                (tmp_path / "new.parquet").rename(tmp_path / "in" / f"{part}.parquet")
                live.process_all()
                live.wait(0.5)  # its thread looks at what was reported
            if share:
                live.end("s")
                live.process_all()
            found = {row.n // 100 for row in live.deployment.events(FOUND).collect()}
    assert 3 in found
    assert 0 not in found
