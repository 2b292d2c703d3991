"""Who reads the outbox of a node, and where Spark logs how far they are."""

from dataclasses import replace
from pathlib import Path

from shedlight.engines.spark.run.outbox_readers import (
    log_numbers,
    outbox_readers,
    source_names,
)
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.placement import node_order, operator_chains
from shedlight.graph import SideOutput
from tests.engines.applications import paper_application

PATHS = CheckpointPaths(Path("state"))


def _chains(application):
    return {node: operator_chains(application, node, 2) for node in node_order(application)}


def test_a_source_has_two_logs_and_an_outbox_one():
    """Its events and its watermarks are in files of their own."""
    chains = _chains(paper_application())
    assert source_names(chains["edge-1"]) == ["s1"]
    assert log_numbers(chains["edge-1"], {}) == [0, 1]
    assert source_names(chains["core"]) == []
    assert log_numbers(chains["core"], {}) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_an_outbox_is_read_by_nodes_and_sinks():
    """Each where Spark keeps the checkpoint of its query."""
    application = paper_application()
    readers = outbox_readers(application, _chains(application), PATHS, {})
    queries = {node: [str(one.query) for one in found] for node, found in readers.items()}
    assert queries["edge-1"] == ["state/core/query"] * 2
    assert queries["core"] == [f"state/deliveries/{name}" for name in application.sinks]
    numbers = [number for of in ("edge-1", "edge-2") for number in readers[of]]
    assert sorted(one.log for one in numbers) == [0, 1, 2, 3]


def test_late_events_are_read_from_the_outbox_of_each_operator():
    """A side output of a source reads where they were late."""
    application = paper_application()
    late = SideOutput(format="parquet", path="late")
    sources = {n: replace(one, late=late) for n, one in application.sources.items()}
    application = replace(application, sources=sources)
    readers = outbox_readers(application, _chains(application), PATHS, {})
    assert str(readers["edge-1"][-1].query) == "state/deliveries/s1.late"
