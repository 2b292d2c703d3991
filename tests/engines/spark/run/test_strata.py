"""Keys shed in strata on Spark: by what is on record, and again so when it is repeated."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from experiments.keyed_data import keyed_application
from shedlight.engines.spark.control.micro_batch import MicroBatchReport, read_report
from shedlight.engines.spark.control.strata_tracker import KeyTracker
from shedlight.engines.spark.run.deployment import Deployment
from shedlight.engines.spark.run.outbox_writer import outbox_writer, with_query_conf
from shedlight.engines.spark.support.batch_record import Row
from shedlight.engines.spark.support.plan_store import ActivePlan
from shedlight.graph import Application, Stream
from shedlight.language import DataType
from shedlight.matching.kernel.match_state import open_keys
from shedlight.matching.operators.cep_operator import (
    build_operator,
    ingest,
    match_batch,
    new_operator_state,
)
from shedlight.matching.operators.reorder import StreamInput
from shedlight.model.model import SheddingWay
from shedlight.shedding.found_keys import FoundKeys
from shedlight.shedding.key_bitmap import KeyBitmap
from shedlight.shedding.shares import PatternShares, Shares, sheddable
from shedlight.shedding.shedder import event_hashes, key_hashes
from shedlight.shedding.strata import EventHashes, kept_by_strata
from shedlight.shedding.stratum_shares import StratumShares

pytestmark = pytest.mark.spark

PAIR, NODE, SHARDS, WINDOW = Stream("P", "w"), "edge", 2, 8.0
EVENTS, SECONDS = 3_000, 4
HEAVY = "key "


def _file(number: int) -> pa.Table:
    """Draw events of 4 s: a key has a third of them, and few close what others open."""
    rng = np.random.default_rng(number)
    keys = np.where(rng.random(EVENTS) < 0.33, 7, rng.integers(100, 400, EVENTS))
    first = number * SECONDS * 10**6
    return pa.table(
        {
            "time": first + np.sort(rng.integers(0, SECONDS * 10**6, EVENTS)),
            "id": number * EVENTS + np.arange(EVENTS),
            "type": rng.choice([0, 1, 2], EVENTS, p=[0.7, 0.2, 0.1]),
            "key": keys,
        }
    )


class _Run:
    """A run in rounds, each with a file, and with what the driver learns after each."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        (folder / "in").mkdir(parents=True)
        keyed, columns = keyed_application(WINDOW), ("time", "id", "type", "key")
        source = replace(
            keyed.sources["s"],
            path=str(folder / "in"),
            schema=dict.fromkeys(columns, DataType.BIGINT),
        )
        self.application: Application = replace(keyed, sources={"s": source})
        self.application = replace(self.application, unshed_sample=0.1)
        self.folder, self._spark = folder, spark
        self.deployment = Deployment(
            self.application,
            spark,
            folder / "state",
            sheddable(self.application),
            SHARDS,
            strata=True,
        )
        self.query = self.deployment.nodes[NODE]
        self.tracker = KeyTracker(self.deployment.application, self.deployment.nodes)
        self.shares: Shares = self.query.own_shares(sheddable(self.application))
        self.reports: list[MicroBatchReport] = []

    @property
    def plans(self):
        """The plans of the node."""
        return self.query.plans

    def go_on(self, number: int) -> None:
        """Read a file, learn from it, and publish another plan, by strata."""
        pq.write_table(_file(number), self.folder / "new.parquet")
        (self.folder / "new.parquet").rename(self.folder / "in" / f"{number}.parquet")
        report = self.run()
        active = self.plans.active
        self.reports.append(self.tracker.add(report))
        self.tracker.renew()
        active = self.tracker.update_plan(NODE, active, self.reports[-1])
        self.shares = {PAIR: _plan(self.plans.found(active)["w"], number)}
        plan = self.query.publish(self.shares)
        self.plans.activate(replace(active, plan=plan, pressure=(1.0, 0.8)[number % 2]))

    def run(self) -> MicroBatchReport:
        """Run what there is; give the last micro-batch that had something to do."""
        with with_query_conf(self._spark, self.query):
            query = outbox_writer(self.deployment, NODE).trigger(availableNow=True).start()
            query.awaitTermination()
        reports = [read_report(NODE, progress) for progress in query.recentProgress]
        return next(report for report in reversed(reports) if report is not None)

    def found(self) -> list[str]:
        """Give the ids of what was found, in order."""
        return sorted(row.id for row in self.deployment.events(PAIR).select("id").collect())


def _plan(found: FoundKeys, number: int) -> PatternShares:
    """Make a plan of all ways."""
    by_type = {"type=0": 0.6, "type=1": 1.0}
    openers = StratumShares(
        SheddingWay.OPENERS,
        by_type,
        dict.fromkeys(by_type, 1.0),
        {"type=0": 0.4, "type=1": 0.0},
    )
    strata = {}
    for name in found.table.names:
        way = SheddingWay.EVENTS if name.startswith(HEAVY) else SheddingWay.WHOLE_KEYS
        strata[name] = StratumShares(way, dict.fromkeys(by_type, 0.3 + 0.1 * number))
    return PatternShares(by_type, by_key=True, strata={**strata, "rest": openers})


class _Again:
    """Works out what each micro-batch must have found, by what is on record, without Spark."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        schema = _file(0).schema
        given = StreamInput("s", ("id",), "time", 0)
        self._operator = build_operator(
            [(given, schema)], run.application.operators["w"].patterns
        )
        self._state = new_operator_state(self._operator)
        self.found: list[str] = []
        self.opened = KeyBitmap()  # by the end of the last micro-batch

    def match(self, number: int, row: Row, *, is_last: bool) -> None:
        """Match a file by a record of its micro-batch."""
        plans, table = self._run.plans, _file(number)
        active = ActivePlan(row["plan"], row["pressure"], found=row["found"])
        self._state, ready, _ = ingest(
            self._operator, self._state, {0: table}, frozenset({0} if is_last else ())
        )
        found = plans.found(active).get("w", FoundKeys())
        shares = plans.shares(active).get(PAIR)
        mask = self._mask(ready, shares, found)
        self._state, outputs = match_batch(self._operator, self._state, ready, {"P": mask})
        self.found += outputs["P"]["id"].to_pylist()
        self.opened = KeyBitmap.of(open_keys(self._state.states[0])[:, 0])

    def _mask(self, ready, shares, found):
        (hashes,) = ready.keys.values()
        key = self._operator.matchers[0].pattern.partition_by
        salted = key_hashes(ready.table, key, ready.time, round(WINDOW * 1e6))
        ids = event_hashes(ready.table, ["id"])
        sample = self._run.deployment.context.sample
        chosen = sample.choose(hashes[0], np.zeros(0, np.int64))
        if shares is None or not shares.strata:
            return np.ones(len(ready.time), np.bool_)
        by = EventHashes(hashes[0], salted, ids, found.opened("P"))
        kept = kept_by_strata(shares, found.table, ready.types, ready.numbers, by)
        return kept.mask | chosen


ROUNDS = 4


@pytest.fixture(scope="module")
def run(spark, tmp_path_factory):
    """Run all rounds."""
    run = _Run(spark, tmp_path_factory.mktemp("strata"))
    for number in range(ROUNDS):
        run.go_on(number)
    return run


def test_spark_sheds_in_strata_as_is_on_record_and_repeats_it(run):
    """Micro-batch by micro-batch, with heavy hitters and open keys that shards have told.

    The last micro-batch is repeated as after a kill before it was committed, when another plan
    is in force by then, and nothing is known of keys.
    """
    before = run.found()
    rows = [row for row in run.plans.record.rows() if row["batch"] < ROUNDS]
    state, query = run.plans, run.deployment.paths.query(NODE)
    last = max(int(path.name) for path in (query / "commits").glob("[0-9]*"))
    (query / "commits" / str(last)).unlink()
    (query / "commits" / f".{last}.crc").unlink(missing_ok=True)
    metadata = run.deployment.paths.outbox(NODE) / "_spark_metadata"
    for path in metadata.glob(f"*{last}*"):
        path.unlink()
    state.activate(replace(state.active, plan=1, found=0, pressure=0.1))
    run.run()

    assert run.found() == before
    used = [plan for row in rows for plan in [state.shares(ActivePlan(row["plan"]))[PAIR]]]
    assert [len(plan.strata) > 1 for plan in used] == [False, True, True, True]
    again, opened = _Again(run), []
    for number, row in enumerate(rows):
        again.match(number, row, is_last=False)
        opened.append(again.opened)
    assert sorted(again.found) == before
    assert len(before) > 300
    for number in (2, 3):  # the bits are those of the micro-batch before
        known = state.found(ActivePlan(1, found=rows[number]["found"]))["w"].opened("P")
        keys = np.random.default_rng(1).integers(-(1 << 63), 1 << 63, 5_000, dtype=np.int64)
        assert (known.has(keys) == opened[number - 1].has(keys)).mean() > 0.99


def test_what_is_counted_of_strata_is_all_that_there_was(run):
    """Arrivals, kept events and results of strata add up to those of the node."""
    for report in run.reports:
        strata = report.strata["w"].values()
        arrived = sum(sum(each.arrivals.values()) for each in strata)
        shards = [shard.operators["w"].patterns["P"] for shard in report.shards]
        kept = sum(sum(each.kept.get("P", {}).values()) for each in strata)
        assert arrived == EVENTS
        assert kept == sum(sum(each.kept.values()) for each in shards)
        assert sum(each.outputs.get("P", 0) for each in strata) == sum(s.found for s in shards)
    names = run.reports[-1].strata["w"]
    assert sum(name.startswith(HEAVY) for name in names) == 1
    (heavy,) = (each for name, each in names.items() if name.startswith(HEAVY))
    assert 0.25 < sum(heavy.arrivals.values()) / EVENTS < 0.4
    history = run.tracker.histories["w"]
    assert len(history.time) > 100
    assert set(np.unique(history.types).tolist()) <= {0, 1}
