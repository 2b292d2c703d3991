"""A random application on Spark in rounds, each with a plan of its own; it may be killed."""

import random
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from shedlight.engines.spark.control.micro_batch import read_report
from shedlight.engines.spark.control.strata_tracker import KeyTracker
from shedlight.engines.spark.outbox.outbox import read_outbox
from shedlight.engines.spark.run.deployment import Deployment
from shedlight.engines.spark.run.outbox_readers import source_names
from shedlight.engines.spark.run.outbox_writer import outbox_writer, with_query_conf
from shedlight.engines.spark.session.session import close_session, open_session
from shedlight.engines.spark.source.watermark_files import end_of
from shedlight.engines.spark.support.plan_store import ActivePlan
from shedlight.graph import Application, Stream
from shedlight.graph.closures import find_closures
from shedlight.matching.output.timed_out import timed_out_name
from shedlight.shedding.found_keys import Found
from shedlight.shedding.shares import PatternShares, Shares, is_shed_by_key
from tests.drawn_graphs import DrawnPlans, draw_application, draw_events, draw_stratum
from tests.law import Kept, Run
from tests.step_nodes import StepWorld, kept_rows, slices

SHARDS = 2


class LawRun:
    """A run that goes on where it was, in a folder; all of it depends on the seed alone.

    With strata, what is known of keys depends on when it was killed, too.
    """

    def __init__(
        self, spark: SparkSession, folder: Path, seed: int, rounds: int, *, strata: bool = False
    ) -> None:
        rng = random.Random(seed)
        drawn, self.events = draw_application(rng, in_order=True), draw_events(rng)
        source = replace(drawn.sources["s"], path=str(folder / "in"))
        sample = (0.0, 0.3, 0.7)[seed % 3]
        self.application = replace(drawn, sources={"s": source}, unshed_sample=sample)
        self.slices = list(slices(rng, self.events, rounds))
        self._rng = random.Random(seed)
        policy = DrawnPlans(self.application, rng)
        self.plans = [policy.decide(None) for _ in self.slices]
        (folder / "in").mkdir(parents=True, exist_ok=True)
        self.folder, self._spark = folder, spark
        self._first = _sheddable(self.application)
        self._deployment = Deployment(
            self.application, spark, folder / "checkpoint", self._first, SHARDS, strata=strata
        )
        self._tracker = KeyTracker(self._deployment.application, self._deployment.nodes)

    def go_on(self) -> None:
        """Run all rounds that are not done, and end the source."""
        latest = 0
        for number, (events, plan) in enumerate(zip(self.slices, self.plans, strict=True)):
            latest = max([latest, *events["time"].to_pylist()])
            done = self.folder / f"done {number}"
            if not done.exists():
                hidden = self.folder / "new.parquet"
                pq.write_table(events, hidden)
                hidden.rename(self.folder / "in" / f"{number}.parquet")
                for name in self._deployment.nodes:
                    self._round(name, plan, latest)
                done.touch()
        self._end()

    def _end(self) -> None:
        ended = self.folder / "ended"
        if not ended.exists():
            for name in self._deployment.nodes:
                if source_names(self._deployment.chains[name]):
                    self._deployment.watermark_files(name).write([end_of("s")])
            ended.touch()
        for name in self._deployment.nodes:
            self._run(name)

    def _round(self, name: str, plan: Shares, latest: int) -> None:
        """Run a node with a plan, and have its driver know what it read."""
        plans = self._deployment.nodes[name].plans
        active = plans.active or ActivePlan(1)
        shares = {**self._first, **self._in_strata(plan, plans.found(active))}
        number = self._deployment.nodes[name].publish(shares)
        plans.activate(replace(active, plan=number))
        progresses = self._run(name)
        commits = self._deployment.paths.query(name) / "commits"
        batch = max((int(path.name) for path in commits.glob("[0-9]*")), default=-1)
        active = replace(plans.active or active, plan=number)
        if latest:
            active = replace(active, after=batch, latest={"s": latest})
        for report in (read_report(name, progress) for progress in progresses):
            if report is not None:
                counted = self._tracker.add(report)
                self._tracker.renew()
                active = self._tracker.update_plan(name, active, counted)
        plans.activate(active)

    def _in_strata(self, plan: Shares, found: Found) -> Shares:
        """Draw what is kept of strata that are known."""
        return {
            stream: replace(
                shares,
                strata={
                    name: draw_stratum(shares, self._rng)
                    for name in found[str(stream.operator)].table.names
                },
            )
            if str(stream.operator) in found
            else shares
            for stream, shares in plan.items()
        }

    def _run(self, name: str) -> list[StreamingQueryProgress]:
        with with_query_conf(self._spark, self._deployment.nodes[name]):
            query = outbox_writer(self._deployment, name).trigger(availableNow=True).start()
            query.awaitTermination()
        return query.recentProgress

    def result(self) -> Run:
        """Give what the checker reads."""
        deployment = self._deployment
        record: list[Kept] = []
        for node in deployment.nodes:
            outbox = read_outbox(
                self._spark, str(deployment.paths.outbox(node)), streaming=False
            )
            for row in outbox.where("steps IS NOT NULL").collect():
                record += kept_rows(row.operator, row.origin, row.steps)
        streams = [stream for stream in self.application.streams if stream.operator]
        late = [Stream(timed_out_name(s.name), s.operator) for s in self.application.timed_out]
        outputs: dict[Stream, pa.Table] = {
            stream: deployment.events(stream).toArrow() for stream in [*streams, *late]
        }
        world = StepWorld(self.application, {})
        events = {"s": self.events}
        return Run(self.application, events, record, outputs, shard_of=world.shard_of)


def _sheddable(application: Application) -> Shares:
    closures = find_closures(application)
    return {
        stream: PatternShares({}, is_shed_by_key(application, closures, stream))
        for stream in application.streams
        if stream.operator
    }


def main() -> None:
    """Run by itself: folder, seed, rounds, and whether in strata."""
    folder, seed, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    strata = sys.argv[4:] == ["strata"]
    spark = open_session("law", settings={"spark.sql.shuffle.partitions": "2"})
    try:
        LawRun(spark, folder, seed, rounds, strata=strata).go_on()
    finally:
        close_session(spark)


if __name__ == "__main__":
    main()
