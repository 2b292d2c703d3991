"""Each micro-batch reads the plan that is active when it begins, and no other ever."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from shedlight.engines.spark.shed import jvm_callback
from shedlight.engines.spark.shed.cell_limits import CellLayout, group_entries, with_head
from shedlight.engines.spark.shed.jvm_callback import jvm_computed_array, supports_jvm_callback
from shedlight.engines.spark.shed.plan_column import ShedPatterns, keep_limits, read_plan
from shedlight.engines.spark.support.plan_store import ActivePlan, KeepTable, PlanStore
from shedlight.engines.spark.support.spark_errors import to_user_error
from shedlight.errors import StateError
from shedlight.graph import Stream
from shedlight.shedding.shares import PatternShares

pytestmark = pytest.mark.spark

WAYS = ("by callback", "by a job")
TABLES = {
    name: KeepTable(np.zeros((1, 3)), np.zeros((1, 3)), np.array([[0.4, 1.0, share]]))
    for name, share in (("w", 0.0), ("another one's", 0.7))
}
RELEVANT = ((True, True, True),)
LAYOUT = CellLayout(1, 0, group_entries(RELEVANT, ["id"]))
PATTERNS = dict.fromkeys(
    TABLES, ShedPatterns((Stream("Q", "w"),), ("a", "b", "c"), RELEVANT, LAYOUT)
)


@pytest.fixture
def plans(tmp_path):
    """Plans of which one is active."""
    found = PlanStore(tmp_path / "plan")
    shares = {Stream("Q", "w"): PatternShares({}, default_share=1.0)}
    found.activate(ActivePlan(found.publish(shares, TABLES)))
    return found


@pytest.fixture(params=WAYS)
def way(request, monkeypatch, spark):
    """Either way to read a plan."""
    assert supports_jvm_callback(spark)
    if request.param == "by a job":
        monkeypatch.setattr(jvm_callback, "supports_jvm_callback", lambda _: False)
    return request.param


class Stage:
    """A stream of files whose rows get what is read of a plan."""

    def __init__(self, spark, folder):
        self.spark, self.folder, self.files = spark, folder, 0
        (folder / "in").mkdir()

    def start(self, plan):
        """Start a query, or go on with it."""
        source = self.spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 1)
        rows = source.parquet(str(self.folder / "in"))
        for number, one in enumerate(plan.values()):
            rows = rows.withColumn(f"limits{number}", one.scalar())
        written = rows.writeStream.option("checkpointLocation", str(self.folder / "state"))
        return written.format("parquet").start(str(self.folder / "out"))

    def send(self, query):
        """Have a micro-batch of two rows."""
        rows = pa.table({"n": [self.files, self.files]})
        pq.write_table(rows, self.folder / "in" / f"{self.files:03}.parquet")
        self.files += 1
        query.processAllAvailable()

    @property
    def limits(self):
        """What each micro-batch read."""
        rows = self.spark.read.parquet(str(self.folder / "out")).orderBy("n").collect()
        assert len(rows) == 2 * self.files
        return [(row.limits0, row.limits1) for row in rows[::2]]


@pytest.fixture
def stage(spark, tmp_path):
    """A stream without a query yet."""
    return Stage(spark, tmp_path)


def _expected(pressure):
    cells = [keep_limits(one, pressure, LAYOUT) for one in TABLES.values()]
    return tuple(with_head(each, ActivePlan(1).looked_at).tolist() for each in cells)


@pytest.mark.usefixtures("way")
def test_a_new_pressure_is_active_in_the_next_micro_batch(spark, stage, plans):
    """Without a restart, and what each used is on record."""
    query = stage.start(read_plan(spark, plans.folder, PATTERNS))
    for pressure in (1.0, 0.5, 0.25):
        plans.activate(ActivePlan(1, pressure))
        stage.send(query)
    query.stop()
    assert stage.limits == [_expected(1.0), _expected(0.5), _expected(0.25)]
    assert [plans.plan_for_batch(batch).pressure for batch in range(3)] == [1.0, 0.5, 0.25]


@pytest.mark.usefixtures("way")
def test_a_micro_batch_that_is_repeated_gets_what_is_on_record(spark, stage, plans):
    """Whatever is active by then."""
    plans.activate(ActivePlan(1, 0.5))
    assert plans.plan_for_batch(0).pressure == 0.5
    plans.activate(ActivePlan(1, 0.125))
    query = stage.start(read_plan(spark, plans.folder, PATTERNS))
    stage.send(query)
    stage.send(query)
    query.stop()
    assert stage.limits == [_expected(0.5), _expected(0.125)]


@pytest.mark.usefixtures("way")
def test_a_lost_plan_is_said_in_our_words(spark, stage, plans):
    """And what to do."""
    query = stage.start(read_plan(spark, plans.folder, PATTERNS))
    stage.send(query)
    (plans.folder / "plans" / "1.npz").unlink()
    with pytest.raises(StreamingQueryException) as failed:
        stage.send(query)
    problem = to_user_error(failed.value)
    assert isinstance(problem, StateError)
    assert str(problem) == (
        f"{plans.folder / 'plans' / '1.npz'} is missing; put it back as it was, or start with "
        "a new checkpoint"
    )


def test_no_job_is_run_to_ask(spark, stage, plans):
    """The only jobs are those that write what was read."""
    query = stage.start(read_plan(spark, plans.folder, PATTERNS))
    stage.send(query)
    tracker, jobs = spark.sparkContext.statusTracker(), []
    for _ in range(3):
        stage.send(query)
        jobs.append(len(tracker.getJobIdsForGroup(str(query.runId))))
    query.stop()
    assert jobs == [jobs[0], jobs[0] + 1, jobs[0] + 2]


def test_functions_are_not_left_behind_in_the_session(spark, plans):
    """They are in the query alone."""
    before = {one.name for one in spark.catalog.listFunctions()}
    read_plan(spark, plans.folder, PATTERNS)
    assert {one.name for one in spark.catalog.listFunctions()} == before


def test_what_is_asked_outside_of_a_micro_batch_has_no_answer(spark):
    """For there is none to answer for."""
    with pytest.raises(Exception, match="no micro-batch of a streaming query"):
        jvm_computed_array(spark, lambda batch: np.array([batch])).collect()


def test_where_spark_would_not_ask_a_job_does(spark, monkeypatch):
    """As over Spark Connect, and where the rule is switched off by which it asks."""
    rule = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
    spark.conf.set("spark.sql.optimizer.excludedRules", rule)
    try:
        assert not supports_jvm_callback(spark)
    finally:
        spark.conf.unset("spark.sql.optimizer.excludedRules")
    monkeypatch.setattr(spark.sparkContext, "_gateway", "of another sort")
    assert not supports_jvm_callback(spark)
    monkeypatch.delattr(spark, "_jsparkSession")
    assert not supports_jvm_callback(spark)
