"""The unshed sample on Spark: what sinks get and what it says are as in the simulator."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.spark.control import sample_tracker
from shedlight.engines.spark.run.streaming import Live, Options, RunListener
from shedlight.graph import Application
from shedlight.language import DataType
from shedlight.shedding.estimate import SinkEstimate
from shedlight.shedding.shares import PatternShares
from tests.sampled_runs import BOTH, OTHER, PAIR, keyed_application, keyed_events

pytestmark = pytest.mark.spark

SHARE, FILES = 0.2, 2
STREAMS = (PAIR, OTHER, BOTH)
SHARES = {
    PAIR: PatternShares({"type=0": 0.7}, default_share=0.7),
    OTHER: PatternShares({}, by_key=True, default_share=0.5),
}


def application(folder: Path) -> Application:
    """Give the keyed application with its files in a folder."""
    keyed = keyed_application(window=20.0)
    columns = dict.fromkeys(("time", "n", "type", "key"), DataType.BIGINT)
    source = replace(keyed.sources["s"], path=str(folder / "in"), schema=columns)
    sinks = {n: replace(s, path=str(folder / "out" / n)) for n, s in keyed.sinks.items()}
    (folder / "in").mkdir(parents=True)
    return replace(keyed, sources={"s": source}, sinks=sinks, unshed_sample=SHARE)


def files(folder: Path, events: pa.Table) -> Iterator[Path]:
    """Write events as a few files, one by one."""
    size = len(events) // FILES
    for number in range(FILES):
        pq.write_table(events.slice(number * size, size), folder / "new.parquet")
        yield (folder / "new.parquet").rename(folder / "in" / f"{number}.parquet")


@pytest.mark.soak
def test_the_sample_on_spark_is_that_of_the_simulator(spark, tmp_path, monkeypatch):
    """The same results at all sinks, event by event, and the same recall.

    One pattern is shed by event, one by key, and one reads the first at a node of its own.
    """
    monkeypatch.setattr(sample_tracker, "INTERVAL", 0.0)
    monkeypatch.setattr(sample_tracker, "MIN_KEYS_LOOKED_AT", 100)
    events = keyed_events(np.random.default_rng(5), 24_000, 6_000, 60.0)
    keyed, said = application(tmp_path), dict[str, SinkEstimate]()
    listener = RunListener(on_micro_batch=lambda batch: said.update(batch.unshed_sample))
    options = Options(shares=SHARES, delivery_interval=1.0, idle_timeout=3600.0)
    state = str(tmp_path / "state")
    with Live(keyed, spark, checkpoint=state, options=options, listener=listener) as running:
        for _ in files(tmp_path, events):
            running.process_all()
        running.end("s")
        running.process_all()
        running.wait(1.0)  # its thread looks at what was reported
        frames = {each.name: running.deployment.events(each) for each in STREAMS}
        got = {
            name: sorted(row.id for row in frame.select("id").collect())
            for name, frame in frames.items()
        }
        assert not any("#" in name for frame in frames.values() for name in frame.columns)
    service = Service(seconds=dict.fromkeys(STREAMS, 1e-6))
    done = simulate(
        keyed, {"s": events}, service, interval=20.0, shares=SHARES, unshed_sample=SHARE
    )

    assert said.keys() == done.estimates.keys()
    for name, theirs in done.estimates.items():
        ours = said[name]
        assert got[name] == sorted(done.sinks[name]["id"].to_pylist())
        assert (ours.keys, ours.unknown, theirs.unknown) == (theirs.keys, "", "")
        assert ours.recall is not None
        assert theirs.recall is not None
        assert ours.recall.value == theirs.recall.value < 1
        assert ours.recall.low == pytest.approx(theirs.recall.low, abs=0.02)
        assert ours.rate is not None
        assert theirs.rate is not None
        assert ours.rate.value == pytest.approx(theirs.rate.value, rel=0.02)
        assert ours.heavy_hitters == theirs.heavy_hitters == 0
