"""What is on record of shedding: since when, and how far sources were read."""

import numpy as np
import pytest

from shedlight.engines.spark.support.batch_record import SEGMENT
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.plan_store import ActivePlan, KeepTable, PlanStore
from shedlight.engines.spark.support.shed_record import first_shed, read_until
from shedlight.errors import StateError
from shedlight.graph import Stream
from shedlight.shedding.shares import PatternShares
from tests.engines.applications import paper_application

ALL, HALF = PatternShares({"type=0": 1.0}), PatternShares({"type=0": 0.5, "type=1": 1.0})
NODE = "edge-2"


@pytest.fixture
def paths(tmp_path):
    """A checkpoint, empty so far."""
    return CheckpointPaths(tmp_path)


@pytest.fixture
def plans(paths):
    """The plans of a node: the first keeps everything, the second does not."""
    store = PlanStore(paths.plan(NODE))
    none = KeepTable(*(np.zeros((1, 1)),) * 3)
    for kept in (ALL, HALF):
        store.publish({Stream("Q21", "w2"): kept}, {"w2": none})
    return store


def record(store, *used, start=0):
    """Put micro-batches on record, each with a plan, a pressure and latest times."""
    for batch, (plan, pressure, latest) in enumerate(used, start):
        store.activate(ActivePlan(plan, pressure, latest=latest, awaited=False))
        store.plan_for_batch(batch)


def test_a_plan_or_pressure_is_the_first_to_shed(paths, plans):
    """A plan that keeps everything sheds as soon as there is pressure."""
    record(plans, (1, 1.0, {}), (1, 1.0, {}))
    assert first_shed(paths, [NODE, "core"]) == []
    record(plans, (1, 0.9, {}), (2, 1.0, {}), start=2)
    (found,) = first_shed(paths, [NODE, "core"])
    assert (found.node, found.batch, found.is_first) == (NODE, 2, True)
    assert found.time > 0


def test_it_says_if_the_beginning_is_not_on_record(paths, plans):
    """Then what was shed before is not known."""
    record(plans, (2, 1.0, {}), start=SEGMENT)
    (found,) = first_shed(paths, [NODE])
    assert (found.batch, found.is_first) == (SEGMENT, False)


def test_a_plan_that_is_gone_is_told(paths, plans):
    """And not taken for one that sheds nothing."""
    record(plans, (2, 1.0, {}))
    (paths.plan(NODE) / "plans" / "2.json").unlink()
    with pytest.raises(StateError, match=r"2\.json is missing; put it back"):
        first_shed(paths, [NODE])


def test_sources_are_read_as_far_as_the_slowest(paths, plans):
    """Of all nodes; not known while nothing is on record of one of them."""
    application = paper_application()
    nodes = list(application.nodes)
    record(plans, (1, 1.0, {"s2": 7}), (1, 1.0, {"s2": 9}))
    assert read_until(paths, application, nodes) is None
    other = PlanStore(paths.plan("edge-1"))
    other.publish({}, {})
    record(other, (1, 1.0, {"s1": 5}))
    assert read_until(paths, application, nodes) == 5
