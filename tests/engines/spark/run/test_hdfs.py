"""A checkpoint, an outbox and sinks on a real HDFS; addresses that cannot be."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count

import pyarrow.parquet as pq
import pytest

from shedlight.engines.spark.run import node_query
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.engines.spark.run.open_checkpoint import open_checkpoint
from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.engines.spark.session.paths import check_paths
from shedlight.engines.spark.support import batch_record
from shedlight.engines.spark.support.batch_record import BatchRecord
from shedlight.engines.spark.support.hadoop_path import HadoopPath
from shedlight.engines.spark.support.plan_store import ActivePlan, PlanStore
from shedlight.engines.spark.support.storage import create_file, replace_file, stored_path
from shedlight.errors import InputError, StateError
from shedlight.graph import load_application
from tests.engines.applications import drawn_events, edge_application, paper_application
from tests.engines.spark.hdfs import Hdfs, has_hdfs
from tests.engines.spark.processes import family
from tests.engines.spark.runs import locally, sink_rows, with_files

pytestmark = pytest.mark.spark

PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory, java):  # noqa: ARG001
    """Run an HDFS; it is killed in the end, for its files are worth nothing."""
    if not has_hdfs():
        pytest.skip(
            "the jars of HDFS are not in .venv/jars; scripts/jars fetches them by Maven"
        )
    running = Hdfs(tmp_path_factory.mktemp("hdfs"))
    running.start()
    yield running
    running.kill()


_numbers = count()


@pytest.fixture
def folder(hdfs, spark):  # noqa: ARG001
    """Give an address where nothing is."""
    return f"{hdfs.address}/test {next(_numbers)}"


def test_an_address_is_used_as_a_path_is(folder):
    """As far as a checkpoint needs it."""
    root = stored_path(folder + "/")
    assert isinstance(root, HadoopPath)
    assert not root.exists()
    assert root.glob("*") == []
    file = root / "deep" / "1.json"
    with pytest.raises(FileNotFoundError):
        create_file(file, "grün")
    file.parent.mkdir(parents=True)
    create_file(file, "grün")
    assert (file.name, file.stem, file.parent) == ("1.json", "1", root / "deep")
    assert file.read_text() == "grün"
    assert file.is_file()
    assert not file.parent.is_file()
    assert abs(file.stat().st_mtime - time.time()) < PATIENCE_S
    assert file.stat().st_size == 5
    with pytest.raises(FileExistsError, match="test"):
        create_file(file, "rot")
    replace_file(file, b"blau")
    assert file.open("rb").read() == b"blau"
    (root / "deep" / "a, b").mkdir(parents=True, exist_ok=True)
    assert sorted(file.parent.glob("[!.]*")) == [file, root / "deep" / "a, b"]
    assert file.parent.glob("[0-9]*.json") == [file]
    file.unlink()
    file.unlink(missing_ok=True)
    for missing in (file.unlink, file.read_bytes, file.stat):
        with pytest.raises(FileNotFoundError):
            missing()


def test_the_first_who_puts_a_micro_batch_on_record_counts(folder, monkeypatch):
    """Lines are files of their own until a segment is full; nobody sees a difference."""
    monkeypatch.setattr(batch_record, "SEGMENT", 3)
    record = BatchRecord(stored_path(folder) / "record")
    assert record.is_empty
    for batch in range(8):
        assert record.find(batch) is None
        assert record.append(batch, {"plan": batch})["plan"] == batch
        assert record.append(batch, {"plan": -1})["plan"] == batch
    before = list(record.rows())
    assert [row["batch"] for row in before] == list(range(8))

    record.put_together()
    oldest = record.prune(before=0.0)

    assert oldest == {"batch": 0, "plan": 0}
    assert list(record.rows()) == before
    assert [record.find(batch) for batch in range(8)] == before
    names = sorted(path.name for path in record.folder.glob("[0-9]*"))
    segments, lines = [f"{n:012}.jsonl" for n in (0, 3)], [f"{n:012}.line" for n in (6, 7)]
    assert names == sorted(segments + lines)
    # a crash after the segment was written, and before its lines were removed
    create_file(record.folder / f"{2:012}.line", '{"batch": 2, "plan": 2}\n')
    assert list(record.rows()) == before
    record.put_together()
    assert sorted(path.name for path in record.folder.glob("[0-9]*")) == names


def test_plans_are_made_once_and_read_by_who_goes_on(folder):
    """A driver that was taken over cannot put another plan in the place of one."""
    store = PlanStore(stored_path(folder))
    assert store.active is None
    number = store.publish({}, {})
    store.activate(ActivePlan(number, pressure=0.5))
    assert store.plan_for_batch(0) == ActivePlan(number, pressure=0.5)
    store.activate(ActivePlan(store.publish({}, {})))
    again = PlanStore(stored_path(folder))
    assert again.plan_for_batch(0).plan == number
    assert again.active == ActivePlan(number + 1)
    with pytest.raises(FileExistsError):
        create_file(store.folder / "plans" / f"{number}.json", "{}")


def _delivered(spark, sinks):
    return {name: sink_rows(spark.read.parquet(at).toArrow()) for name, at in sinks.items()}


@pytest.mark.soak
def test_a_run_on_hdfs_finds_what_it_finds_without_spark(spark, folder, tmp_path, monkeypatch):
    """Nothing of it is in a local folder, however large; a second run goes on from there."""
    monkeypatch.setattr(node_query, "MIN_BLOB_BYTES", 1)
    monkeypatch.setattr(node_query, "MIN_FILE_BYTES", 1)
    tables = {"s2": drawn_events(20, 10, 2)}
    application = with_files(edge_application(), tables, tmp_path, [100])
    sinks = {name: f"{folder}/out/{name}" for name in application.sinks}
    placed = replace(
        application,
        sinks={n: replace(s, path=sinks[n]) for n, s in application.sinks.items()},
    )
    options = Options(shares={}, delivery_interval=0.5)
    expected = locally(edge_application(), tables)

    with Live(placed, spark, checkpoint=f"{folder}/run", options=options) as running:
        running.process_all()
    with Live(placed, spark, checkpoint=f"{folder}/run", options=options) as running:
        for name in placed.sources:
            running.end(name)
        running.process_all()
        with pytest.raises(StateError, match="is in no local folder, and only there"):
            running.check_change(placed)

    assert _delivered(spark, sinks) == expected
    root = stored_path(f"{folder}/run")
    assert {"application", "edge-2", "deliveries"} <= {path.name for path in root.glob("*")}
    assert not (root / "lock").exists()
    assert not (root / "edge-2" / "blobs").exists()
    assert not (root / "edge-2" / "states").exists()
    with pytest.raises(StateError, match="others only in a local folder: go on with --shards"):
        Live(placed, spark, checkpoint=str(root), options=replace(options, shards=7))
    changed = replace(placed, sinks=dict(list(placed.sinks.items())[1:]))
    with pytest.raises(StateError, match=r"before: sinks\.[^$]*it can change only in a local"):
        Live(changed, spark, checkpoint=str(root), options=options)


@pytest.mark.soak
def test_a_finite_run_reads_and_writes_hdfs(spark, folder, tmp_path):
    """Sources, too; what they have is larger than it is known to be."""
    tables = {f"s{i}": drawn_events(20, 5, i) for i in (1, 2)}
    application = with_files(paper_application(), tables, tmp_path)
    for name in tables:
        file = stored_path(f"{folder}/in/{name}") / "a.parquet"
        file.parent.mkdir(parents=True)
        create_file(file, (tmp_path / "in" / name / "0000.parquet").read_bytes())
    sources = {
        name: replace(source, path=f"{folder}/in/{name}")
        for name, source in application.sources.items()
    }
    sinks = {name: f"{folder}/out/{name}" for name in application.sinks}
    placed = replace(
        application,
        sources=sources,
        sinks={n: replace(s, path=sinks[n]) for n, s in application.sinks.items()},
    )

    run_on_spark(placed, spark, checkpoint=f"{folder}/run", shards=2, deliver=True)

    assert _delivered(spark, sinks) == locally(paper_application(), tables)


def test_a_second_driver_is_refused(spark, folder):
    """As with the lock of a local folder."""
    with (
        open_checkpoint(spark, folder) as opened,
        pytest.raises(StateError, match="in use by process"),
        open_checkpoint(spark, folder),
    ):
        pass
    opened.check()


# Bad input


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("nope://host/run", r'No FileSystem for scheme "nope"'),
        ("s3a://bucket/run", r"S3AFileSystem not found"),
        ("hdfs:/run", r"Incomplete HDFS URI, no host"),
    ],
)
def test_a_file_system_that_spark_does_not_have_is_said(spark, tmp_path, address, said):
    """Before anything is started, with what to do."""
    application = paper_application()
    with pytest.raises(InputError, match=rf"{address} cannot be reached: .*{said}.*--conf"):
        Live(application, spark, checkpoint=address)
    assert list(tmp_path.iterdir()) == []


def test_a_plan_that_cannot_be_reached_is_not_damaged(spark):  # noqa: ARG001
    """The micro-batch is tried again, when the network is back."""
    with pytest.raises(ConnectionError, match="No FileSystem"):
        PlanStore(stored_path("nope://host/run")).plan_for_batch(0)


def test_an_hdfs_that_is_not_there_is_said_before_spark_starts(tmp_path):
    """A file system of Hadoop would try for minutes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"hdfs://127.0.0.1:{free.getsockname()[1]}/run"
    application = replace(paper_application(), sources={}, sinks={})
    with pytest.raises(InputError, match=r"cannot be reached \(Connection refused\); start"):
        check_paths(application, address, tmp_path / "log.jsonl")
    check_paths(application, "hdfs://a-cluster/run", tmp_path / "log.jsonl")


def test_a_session_without_a_driver_here_is_said(spark):
    """As one of Spark Connect; or one that does not call us when it plans."""
    rule = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
    spark.conf.set("spark.sql.optimizer.excludedRules", rule)
    try:
        with (
            pytest.raises(InputError, match="is in no local folder, and this session cannot"),
            open_checkpoint(spark, "hdfs://127.0.0.1:1/run"),
        ):
            pass
    finally:
        spark.conf.unset("spark.sql.optimizer.excludedRules")


# Killed

APPLICATION = """
name: killed
sources:
  s: {{format: parquet, path: in, time: time, id: [id], options: {{maxFilesPerTrigger: "1"}},
       schema: {{time: bigint, id: bigint, type: bigint}}}}
nodes: {{edge: {{bound: 1000 s}}}}
operators:
  w:
    node: edge
    input: [s]
    patterns: {{P: "SELECT b.id AS last WHERE SEQ(a.type = 0, b.type = 1) WITHIN 60 s"}}
sinks: {{k: {{input: w.P, format: parquet, path: "{0}/out/k"}}}}
"""
COMMAND = "from shedlight.cli.main import main; main()"
FILES, EVENTS = 12, 40


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_run_on_hdfs_that_is_killed_goes_on(spark, folder, tmp_path):
    """Its driver is killed with all its processes, four times, while files appear."""
    table = drawn_events(60, FILES * EVENTS / 60 + 5, 1, types=3).slice(0, FILES * EVENTS)
    (tmp_path / "in").mkdir()
    file = tmp_path / "app.yaml"
    file.write_text(APPLICATION.format(folder))
    record = BatchRecord(stored_path(f"{folder}/run") / "edge" / "plan" / "record")
    for attempt in range(4):
        driver, known = _run(file, f"{folder}/run"), len(list(record.rows()))
        for number in range(attempt * 3, attempt * 3 + 3):
            hidden = tmp_path / "in" / f".{number:04}.parquet"
            pq.write_table(table.slice(number * EVENTS, EVENTS), hidden)
            os.utime(hidden, (1_700_000_000 + number,) * 2)  # Spark reads the oldest first
            hidden.replace(tmp_path / "in" / f"{number:04}.parquet")
        _await(partial(_has_more, record, known))
        _kill(driver)
    expected = locally(load_application(file).application, {"s": table})["k"]
    # the last events wait for a watermark that nothing moves any more
    known = len(expected) - len(expected) // 10

    driver = _run(file, f"{folder}/run")
    try:
        _await(lambda: len(_found(spark, folder)) >= known)
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    finally:
        _kill(driver)

    found = _found(spark, folder)
    assert found == expected[: len(found)]
    log = tmp_path / "state" / "killed" / "log.jsonl"
    assert json.loads(log.read_text().splitlines()[0])


def _run(file, checkpoint):
    """Start a run of the command line."""
    words = ("--checkpoint", checkpoint, "--master", "local[2]", "--trigger", "100 ms")
    with (file.parent / "said").open("ab") as said:
        command = [sys.executable, "-c", COMMAND, "run", file, *words]
        return subprocess.Popen(command, stdout=said, stderr=said)


def _kill(driver):
    for process in family(driver.pid):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    driver.wait()


def _found(spark, folder):
    out = f"{folder}/out/k"
    is_begun = stored_path(out).glob("*.parquet")
    return _delivered(spark, {"k": out})["k"] if is_begun else []


def _has_more(record, known):
    return len(list(record.rows())) > known + 1


def _await(is_so):
    over = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < over
        time.sleep(0.5)
