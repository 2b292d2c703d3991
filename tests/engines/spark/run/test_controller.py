"""The control loop of a run on Spark: idle nodes, and a controller that fails."""

import logging

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shedlight.control.controller import Decision
from shedlight.engines.spark.run.streaming import Live, Options, RunListener
from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream
from shedlight.graph.application import build_application
from shedlight.language import DataType, parse_pattern
from tests.engines.spark.control.test_failures import broken_settings

pytestmark = pytest.mark.spark

COLUMNS = ("time", "n", "type")
TEXT = "SELECT a.n AS n WHERE SEQ(a.type = 0, c.type = 1) WITHIN 1 s"


def _application(folder, nodes):
    """Have nodes with bounds, each with a source of files and a pattern."""
    for node in nodes:
        (folder / node).mkdir()
    return build_application(
        "nodes",
        [
            Source(
                name=f"s-{node}",
                format="parquet",
                path=str(folder / node),
                time="time",
                id=("n",),
                schema=dict.fromkeys(COLUMNS, DataType.BIGINT),
            )
            for node in nodes
        ],
        [Node(name=node, bound=60.0) for node in nodes],
        [
            OperatorSpec(
                name=f"w-{node}",
                node=node,
                inputs=(Stream(f"s-{node}"),),
                patterns={"X": parse_pattern(TEXT).pattern},
            )
            for node in nodes
        ],
        [
            Sink(
                name=f"k-{node}",
                input=Stream("X", f"w-{node}"),
                format="parquet",
                path=str(folder / f"out-{node}"),
            )
            for node in nodes
        ],
    )


def _feed(folder, node, part):
    times = part * 10_000_000 + np.arange(200) * 1000
    table = pa.table(
        dict(
            zip(COLUMNS, (times, part * 1000 + np.arange(200), np.arange(200) % 2), strict=True)
        ),
        pa.schema({name: pa.int64() for name in COLUMNS}),
    )
    pq.write_table(table, folder / "new.parquet")
    (folder / "new.parquet").rename(folder / node / f"{part}.parquet")


@pytest.mark.soak
def test_decisions_are_made_while_a_node_is_idle(spark, tmp_path):
    """Within five micro-batches of the one that has events."""
    decisions: list[Decision] = []
    drawn = _application(tmp_path, ["busy", "idle"])
    listener = RunListener(on_decision=decisions.append)
    options = Options(delivery_interval=0.5)
    state = str(tmp_path / "state")
    with Live(drawn, spark, checkpoint=state, options=options, listener=listener) as live:
        for part in range(5):
            _feed(tmp_path, "busy", part)
            live.process_all()
            live.wait(2.5)
            if decisions:
                break
    assert decisions
    assert decisions[-1].loads.keys() == {"busy"}


@pytest.mark.soak
def test_a_run_goes_on_with_a_controller_that_raises_every_time(spark, tmp_path, caplog):
    """It says so once and keeps its plan."""
    drawn = _application(tmp_path, ["busy"])
    options = Options(settings=broken_settings(), delivery_interval=1.0)
    state = str(tmp_path / "state")
    with (
        caplog.at_level(logging.WARNING, "shedlight"),
        Live(drawn, spark, checkpoint=state, options=options) as live,
    ):
        for part in range(3):
            _feed(tmp_path, "busy", part)
            live.process_all()
            assert live.wait(2.5)
        found = live.deployment.events(Stream("X", "w-busy")).count()
        plan = live.deployment.nodes["busy"].plans.active
    assert found >= 200
    assert plan is not None
    assert plan.plan == 1
    assert [m for m in caplog.messages if m.startswith("the controller failed: TypeError")]
    assert len(caplog.messages) == 1
