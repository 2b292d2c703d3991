"""While nodes catch up the loop is held, and no longer."""

import itertools

import pytest

from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.run.catch_up import CatchUp
from shedlight.engines.spark.source.arrival import ArrivalStats
from tests.engines.spark.control.plant import START, Plant

STORED, NEW, NOTHING = START, START + 1, None


def _report(node, *newest):
    """Report a micro-batch that read sources whose newest events arrived at some time."""
    times = [None if at is None else round(at * 1e6) for at in newest]
    arrived = {
        (f"w-{node}", f"s{number}"): ArrivalStats(int(at is not None), None, at, {})
        for number, at in enumerate(times)
    }
    return MicroBatchReport(
        node=node,
        number=0,
        start=START,
        seconds=1.0,
        arrived=arrived,
        kept_arrivals={},
        shards=(),
    )


@pytest.mark.parametrize("newest", list(itertools.product([STORED, NEW, NOTHING], repeat=2)))
def test_the_loop_is_held_until_no_node_reads_what_was_stored(tmp_path, newest):
    """A node whose sources are empty waits for nothing, nor does a source."""
    plant = Plant(tmp_path, {"m": float, "n": float}, bounds={"m": 3.0, "n": 3.0})
    catching_up = CatchUp(plant.loop, ["m", "n"])
    catching_up.start()
    catching_up.on_micro_batch(_report("m", NEW, NOTHING), START, START + 2)
    assert plant.loop.is_held
    catching_up.on_micro_batch(_report("n", *newest), START, START + 3)
    assert plant.loop.is_held == (STORED in newest)


def test_without_sources_there_is_nothing_to_catch_up_with(tmp_path):
    """Bounds count at once."""
    plant = Plant(tmp_path, {"n": float}, bounds={"n": 3.0})
    CatchUp(plant.loop, []).start()
    assert not plant.loop.is_held
