"""A damaged checkpoint is an error, or the run is right all the same; never neither."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.spark.run.deployment import Deployment
from shedlight.engines.spark.run.fingerprint import check_fingerprint
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.engines.spark.run.sharding import Sharding
from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.engines.spark.support.checkpoint import (
    check_logs,
    is_in_use,
    lock_checkpoint,
    missing_files,
)
from shedlight.engines.spark.support.plan_store import ActivePlan, PlanStore
from shedlight.errors import StateError
from shedlight.graph import Application, Stream
from shedlight.language import parse_pattern
from shedlight.shedding.shares import PatternShares
from tests.engines.applications import drawn_events, edge_application
from tests.engines.spark.runs import with_files

pytestmark = pytest.mark.spark

NODE = "edge-2"
SHARES = {
    Stream("Q21", "w2"): PatternShares({"type=0": 0.8, "type=1": 1.0}),
    Stream("Q22", "w2"): PatternShares({"type=1": 0.9, "type=2": 0.7, "type=3": 1.0}),
}


@dataclass(frozen=True)
class Half:
    """A run that is half through: two of three micro-batches are done, the third was begun.

    Attributes:
        application: The application; its files are all there and good.
        folder: The checkpoint.
        expected: The ids in each sink when it is through.
    """

    application: Application
    folder: Path
    expected: dict[str, list[str]]

    def go_on(self, spark: SparkSession) -> dict[str, list[str]]:
        """Run it to the end."""
        found = run_on_spark(
            self.application,
            spark,
            checkpoint=str(self.folder),
            shares=SHARES,
            deliver=True,
        )
        sinks = self.application.sinks
        read = {name: spark.read.parquet(str(sink.path)) for name, sink in sinks.items()}
        for name, frame in found.items():
            assert _ids(frame) == _ids(read[name]), "what is delivered is what is in the outbox"
        return {name: _ids(frame) for name, frame in read.items()}


def _ids(frame):
    return sorted(row.id for row in frame.select("id").collect())


@pytest.fixture(scope="module")
def half(spark, tmp_path_factory):
    """Run two of three files: the third cannot be read at first."""
    folder = tmp_path_factory.mktemp("half")
    tables = {"s2": drawn_events(20, 20, 2)}
    application = with_files(edge_application(), tables, folder, [150, 250])
    sinks = {n: replace(one, path=f"{folder}/{n}") for n, one in application.sinks.items()}
    application = replace(application, sinks=sinks)
    third = folder / "in" / "s2" / "0002.parquet"
    good, times = third.read_bytes(), (third.stat().st_atime, third.stat().st_mtime)
    third.write_bytes(b"damaged")
    os.utime(third, times)
    with pytest.raises(PySparkException):
        run_on_spark(application, spark, checkpoint=str(folder / "run"), shares=SHARES)
    third.write_bytes(good)
    os.utime(third, times)
    simulated = simulate(application, tables, Service(seconds={}), shares=SHARES).sinks
    expected = {name: sorted(table["id"].to_pylist()) for name, table in simulated.items()}
    return Half(application, folder / "run", expected)


@pytest.fixture
def copy(half):
    """Give a copy under the same path, for Spark's logs name whole paths."""
    kept = half.folder.with_name("kept")
    shutil.copytree(half.folder, kept)
    yield half
    shutil.rmtree(half.folder)
    for name in half.expected:
        shutil.rmtree(half.folder.with_name(name), ignore_errors=True)
    kept.rename(half.folder)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _spoil(path: Path) -> None:
    """Change a line in the middle."""
    lines = path.read_text().split("\n")
    lines[1] = lines[1][:-3]
    path.write_text("\n".join(lines))


def _gone(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
        return
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("damage", "path", "said"),
    [
        (_cut, "application", "application is damaged"),
        (_gone, "application", "is no checkpoint"),
        (_cut, "plan/active", "active is damaged"),
        (_spoil, "plan/record/000000000000.jsonl", "line 2 of .*jsonl is damaged"),
        (_empty, "query/offsets/2", "offsets/2 is damaged"),
        (_cut, "query/offsets/1", "offsets/1 is damaged"),
        (_gone, "query/offsets/1", "the file 1 of .*offsets is missing"),
        (_empty, "query/commits/1", "commits/1 is damaged"),
        (_cut, "query/metadata", "metadata is damaged"),
        (_gone, "query/metadata", "metadata is damaged or missing"),
        (_cut, "query/sources/0/1", "sources/0/1 is damaged"),
        (_gone, "query/sources/0/2", "the file 2 of .*sources/0 is missing"),
        (_gone, "query", "the file 1 of .*offsets is missing"),
        (_gone, "outbox/_spark_metadata/0", "the file 0 of .*_spark_metadata is missing"),
        (_gone, "outbox/_spark_metadata", "the file 0 of .*_spark_metadata is missing"),
        (_cut, "outbox/_spark_metadata/1", "_spark_metadata/1 is damaged"),
        (_cut, "query/state/0/0/2.delta", "is damaged"),
        (_gone, "query/state/0/0/1.delta", "state/0/0/1.delta is damaged"),
        (_cut, "query/state/0/0/_metadata/schema", "is damaged"),
        (_gone, "query/state", "is damaged"),
    ],
)
def test_a_damaged_checkpoint_is_refused(spark, copy, damage, path, said):
    """In a sentence that says which file it is and what to do."""
    damage(copy.folder / path if path == "application" else copy.folder / NODE / path)
    with pytest.raises(StateError, match=said) as raised:
        copy.go_on(spark)
    assert str(copy.folder) in str(raised.value)
    assert "start with" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "path",
    ["plan/active", "query/offsets/2", pytest.param("query/commits", marks=pytest.mark.soak)],
)
def test_what_can_be_done_without_is_done_without(spark, copy, path):
    """The first plan comes into force again; micro-batches that were done are not repeated."""
    _gone(copy.folder / NODE / path)
    assert copy.go_on(spark) == copy.expected


def test_a_run_goes_on_and_a_delivery_can_be_repeated(spark, copy):
    """If a sink or what was delivered to it is lost, it is said how to have it all again."""
    assert copy.go_on(spark) == copy.expected
    sink, query = copy.folder.with_name("k1"), copy.folder / "deliveries" / "k1"
    for lost, said in ((sink, "_spark_metadata"), (query, "offsets")):
        moved = lost.rename(lost.with_name("moved"))
        again = f"{said} is missing; .* remove {query} and {sink} to have all delivered anew"
        with pytest.raises(StateError, match=again):
            copy.go_on(spark)
        moved.rename(lost)
    _gone(sink)
    _gone(query)
    assert copy.go_on(spark) == copy.expected


def test_a_plan_that_is_lost_is_said_and_its_number_not_given_again(half, tmp_path):
    """Else a micro-batch that is repeated would take another plan for its own."""
    folder = tmp_path / "plan"
    plans = PlanStore(folder)
    shutil.copytree(half.folder / NODE / "plan", folder)
    _gone(folder / "plans" / "1.json")
    _cut(folder / "plans" / "1.npz")
    with pytest.raises(StateError, match=r"1\.json is missing; put it back"):
        plans.shares(ActivePlan(1))
    with pytest.raises(StateError, match=r"1\.npz is damaged .*put it back"):
        plans.tables(ActivePlan(1))
    _gone(folder / "plans" / "1.npz")
    assert plans.publish({}, {}) == 2


def test_what_was_written_is_not_repeated_with_another_plan(spark, copy):
    """The second micro-batch is in the outbox, but not committed, and its record is lost."""
    node = copy.folder / NODE
    for path in ("query/offsets/2", "query/commits/1"):
        _gone(node / path)
    record = Path(str(PlanStore(node / "plan").record.missing(1)))
    record.write_text(record.read_text().splitlines(keepends=True)[0])
    assert check_logs(node / "query", node / "outbox") == 1
    with pytest.raises(StateError, match="does not have micro-batch 1; put the file back"):
        copy.go_on(spark)


def test_a_changed_application_is_refused(spark, copy):
    """It says what was changed: a pattern, or which patterns may shed."""
    spec = copy.application.operators["w2"]
    other = parse_pattern("SELECT a.type WHERE SEQ(a.type = 3, b.type = 1) WITHIN 2 s").pattern
    spec = replace(spec, patterns={**spec.patterns, "Q21": other})
    changed = replace(copy.application, operators={"w2": spec})
    with pytest.raises(StateError, match=r"(?s)before: operators.w2.Q21: .*now: .*type = 3"):
        run_on_spark(changed, spark, checkpoint=str(copy.folder), shares=SHARES)
    with pytest.raises(StateError, match=r"(?s)before: .*may shed: w2.Q21, .*now: .*: none"):
        run_on_spark(copy.application, spark, checkpoint=str(copy.folder))


def test_other_shares_are_used_from_the_next_micro_batch_on(spark, copy):
    """And not those that were given when the checkpoint was begun."""
    other = {stream: PatternShares({}, default_share=0.5) for stream in SHARES}
    deployment = Deployment(copy.application, spark, copy.folder, other, 2)
    plans = deployment.nodes[NODE].plans
    assert plans.active == ActivePlan(2, awaited=False)
    assert plans.shares(plans.active) == other
    assert plans.plan_for_batch(2) == ActivePlan(1, awaited=False)


def test_a_checkpoint_is_for_one_run_at_a_time(spark, copy):
    """Whoever has it is named; when it is stopped, the checkpoint is free again."""
    place = re.escape(str(copy.folder))
    said = f"the checkpoint {place} is in use by process {os.getpid()} on .*; stop that run"
    options = Options(shares=SHARES)
    first = Live(copy.application, spark, checkpoint=str(copy.folder), options=options)
    with pytest.raises(StateError, match=said):
        Live(copy.application, spark, checkpoint=str(copy.folder), options=options)
    with pytest.raises(StateError, match=said):
        copy.go_on(spark)
    first.stop()
    with lock_checkpoint(copy.folder):
        pass


HOLD = """
import sys, time
from pathlib import Path
from shedlight.engines.spark.support.checkpoint import lock_checkpoint
with lock_checkpoint(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_lock_of_a_process_that_was_killed_is_none(tmp_path):
    """The file stays; the lock does not."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(StateError, match=f"process {other.pid} on"),
            lock_checkpoint(tmp_path),
        ):
            pass
        other.kill()
        other.wait()
    with lock_checkpoint(tmp_path):
        assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} on ")


INHERITED = """
import subprocess, sys, time
from pathlib import Path
from shedlight.engines.spark.support.checkpoint import lock_checkpoint
with lock_checkpoint(Path(sys.argv[1])) as lock:
    subprocess.Popen(["sleep", "3"], pass_fds=(lock,))
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_lock_is_held_until_who_inherited_it_is_gone(tmp_path):
    """That is the JVM of a driver that was killed, which writes on for a moment."""
    with subprocess.Popen(
        [sys.executable, "-c", INHERITED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        other.kill()
        other.wait()
        assert is_in_use(tmp_path)
        with lock_checkpoint(tmp_path):
            assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} on ")


def test_what_a_killed_query_left_unfinished_is_removed(tmp_path):
    """Spark does not begin where there is anything; a log that is finished stays."""
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    for name in (".0.eb0dfae0.tmp", "..0.eb0dfae0.tmp.crc"):
        (offsets / name).touch()
    assert check_logs(tmp_path) is None
    assert list(offsets.iterdir()) == []


NOTED = json.dumps({"conf": {"spark.a": "one", "spark.sql.shuffle.partitions": "2"}})


def noted(folder: Path, number: int, *lines: str) -> None:
    """Write a file of offsets."""
    (folder / "offsets").mkdir(exist_ok=True)
    (folder / "offsets" / str(number)).write_text("\n".join(["v1", *lines]))


@pytest.mark.parametrize(
    "lines",
    [
        (NOTED.replace("one", "onf"), '{"topic":{"0":8}}'),
        (NOTED.replace("spark.a", "spark.b"), '{"topic":{"0":8}}'),
        (NOTED.replace("conf", "cong"), '{"topic":{"0":8}}'),
        (NOTED, '{"logOffset":8}'),
        (NOTED,),
        ("7", '{"topic":{"0":8}}'),
    ],
)
def test_a_byte_that_is_another_is_damage(tmp_path, lines):
    """And no other schema of the state, as Spark has it."""
    (tmp_path / "metadata").write_text("{}")
    noted(tmp_path, 0, NOTED, '{"topic":{"0":7}}')
    noted(tmp_path, 1, *lines)
    with pytest.raises(StateError, match="offsets/1 is damaged, or the one before it"):
        check_logs(tmp_path)


def test_a_later_spark_may_note_more_and_partitions_may_change(tmp_path):
    """And a source that had nothing before may have something."""
    (tmp_path / "metadata").write_text("{}")
    noted(tmp_path, 0, NOTED, "-")
    later = {"spark.a": "one", "spark.sql.shuffle.partitions": "3", "spark.new": "0"}
    noted(tmp_path, 1, json.dumps({"conf": later}), '{"topic":{"0":7}}')
    assert check_logs(tmp_path) is None


def test_a_file_that_is_gone_is_found(tmp_path):
    """If the log of its folder names it."""
    (tmp_path / "_spark_metadata").mkdir()
    entries = [{"path": f"file:///{n}.parquet", "modificationTime": 1} for n in "ab"]
    lines = ["v1", *map(json.dumps, entries)]
    (tmp_path / "_spark_metadata" / "0").write_text("\n".join(lines))
    (tmp_path / "a.parquet").touch()
    assert missing_files(tmp_path) == [tmp_path / "b.parquet"]


def test_a_new_folder_may_have_what_a_killed_run_left_behind(tmp_path):
    """It was killed before it had written down what the checkpoint is of."""
    (tmp_path / "lock").touch()
    (tmp_path / ".application-123").touch()
    lines = ("sources.s: parquet s",)
    check_fingerprint(tmp_path / "application", lines, Sharding(2), edge_application())
    assert (tmp_path / "application").exists()
