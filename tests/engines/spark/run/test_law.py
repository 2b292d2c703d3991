"""Nothing is invented on Spark: random applications under plans that change, checked."""

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from shedlight.engines.spark.outbox.outbox import read_outbox
from shedlight.engines.spark.run.deployment import Deployment
from shedlight.engines.spark.run.finite import outbox_writer, with_query_conf
from shedlight.engines.spark.run.outbox_readers import source_names
from shedlight.engines.spark.source.watermark_files import end_of
from shedlight.engines.spark.support.plan_store import ActivePlan
from shedlight.graph import Stream
from shedlight.graph.closures import find_closures
from shedlight.matching.output.timed_out import timed_out_name
from shedlight.shedding.shares import PatternShares, is_shed_by_key
from tests.drawn_graphs import DrawnPlans, draw_application, draw_events
from tests.law import Run
from tests.step_nodes import StepWorld, kept_rows, slices

pytestmark = pytest.mark.spark

SOAK_RUNS, PART = 40, 10


def run_on(spark: SparkSession, folder: Path, seed: int, rounds: int = 4) -> Run:
    """Run a random application in rounds, each with a plan of its own."""
    rng = random.Random(seed)
    drawn, events = draw_application(rng, in_order=True), draw_events(rng)
    (folder / "in").mkdir(parents=True)
    source = replace(drawn.sources["s"], path=str(folder / "in"))
    application = replace(drawn, sources={"s": source})
    closures = find_closures(application)
    shares = {
        stream: PatternShares({}, is_shed_by_key(application, closures, stream))
        for stream in application.streams
        if stream.operator
    }
    deployment = Deployment(application, spark, folder / "checkpoint", shares, 2)
    policy, latest = DrawnPlans(application, rng), 0
    for number, each in enumerate(slices(rng, events, rounds)):
        pq.write_table(each, folder / "in" / f"{number}.parquet")
        plan = policy.decide(None)
        for name, node in deployment.nodes.items():
            active = node.plans.active
            assert active is not None
            changed = node.publish({**shares, **plan})
            node.plans.activate(replace(active, plan=changed))
            batch = _run(deployment, spark, name)
            latest = max([latest, *each["time"].to_pylist()])
            if batch is not None and latest:
                node.plans.activate(ActivePlan(changed, 1.0, batch, {"s": latest}))
    for name in deployment.nodes:
        if source_names(deployment.chains[name]):
            deployment.watermark_files(name).write([end_of("s")])
        _run(deployment, spark, name)
    return _finished(deployment, spark, events)


def _run(deployment: Deployment, spark: SparkSession, name: str) -> int | None:
    """Run a node over all that there is; give its last micro-batch."""
    with with_query_conf(spark, deployment.nodes[name]):
        query = outbox_writer(deployment, name).trigger(availableNow=True).start()
        query.awaitTermination()
    return max((progress.batchId for progress in query.recentProgress), default=None)


def _finished(deployment: Deployment, spark: SparkSession, events: pa.Table) -> Run:
    application, record, outputs = deployment.application, [], {}
    for node in deployment.nodes:
        outbox = read_outbox(spark, str(deployment.paths.outbox(node)), streaming=False)
        for row in outbox.where("steps IS NOT NULL").collect():
            record += kept_rows(row.operator, row.origin, row.steps)
    for stream in application.streams:
        if stream.operator:
            outputs[stream] = deployment.events(stream).toArrow()
    for stream in application.timed_out:
        late = Stream(timed_out_name(stream.name), stream.operator)
        outputs[late] = deployment.events(late).toArrow()
    world = StepWorld(application, {})
    return Run(application, {"s": events}, record, outputs, shard_of=world.shard_of)


def test_nothing_is_invented_on_spark(spark, tmp_path):
    """Three levels with absences, keys and counts."""
    checked = run_on(spark, tmp_path, 13).check()
    assert sum(checked.values()) > 20


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_RUNS // PART))
def test_nothing_is_invented_in_many_runs_on_spark(spark, tmp_path, part):
    """As above, for many applications."""
    for seed in range(100 + part * PART, 100 + (part + 1) * PART):
        run_on(spark, tmp_path / str(seed), seed, rounds=6).check()
