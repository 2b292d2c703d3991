"""How soon results are there on Spark at default settings, and what a run takes while idle.

Events come as files, a hundred in each, ten files a second; what is found goes to files. The
latency of a result is the time from its last event to when Spark's log of the sink has it: it
has the time in it that an event waits for its file to be full. An idle run is that of the
paper's example, whose sources have no files; processor time is that of all of its processes.
"""

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.question import Answer
from shedlight.engines.spark.run.streaming import Live, Options
from shedlight.engines.spark.session.session import close_session, open_session
from shedlight.graph import Application, load_application
from shedlight.language.ast.data_type import DataType
from tests.engines.spark.processes import processor_time

_PAPER = Path("examples/paper/app.yaml")
_FILE_EVENTS, _FILE_S = 100, 0.1
"""How many events a file has, and seconds from one file to the next: 1,000 events/s."""
_WARM_S, _MEASURED_S = 30.0, 60.0
"""Seconds in which results do not count, and after that seconds in which they do."""
_IDLE_S = 30.0
_SETTLING_S = 20.0
"""Seconds before an idle run is measured: the JVM still compiles, and sources become idle."""
_BORG = dict.fromkeys(
    ("time_us", "machine_id", "collection_id", "instance_index", "event"), DataType.BIGINT
)
"""The columns of the paper's sources, which have no files to read them from."""
_AT = (10, 50, 90, 99)
_ONE_NODE = """
name: latency
sources:
  s:
    format: parquet
    path: in
    time: time
    id: [id]
    schema: {time: bigint, id: bigint, type: bigint, key: bigint}
nodes: {edge: {bound: 10 s}, core: {}}
operators:
  w:
    node: edge
    input: s
    patterns:
      P: >
        SELECT b.key AS key, a.id AS first, b.id AS last
        WHERE SEQ(a.type = 0, b.type = 1) WITHIN 10 s PARTITION BY key
sinks:
  found: {input: w.P, format: parquet, path: found}
"""
_TWO_NODES = _ONE_NODE.replace("found: {input: w.P,", "found: {input: v.Q,").replace(
    "sinks:",
    """
  v:
    node: core
    input: w.P
    patterns:
      Q: SELECT a.first, b.last WHERE SEQ(a, b) AND a.key = b.key WITHIN 10 s
sinks:""",
)


def end_to_end() -> Iterator[Answer]:
    """Measure latencies with one node and with a channel between two, then what idle takes."""
    folder = Path(tempfile.mkdtemp(prefix="shedlight-bench-"))
    session = open_session("shedlight benchmark")
    try:
        for name, text, limits in (
            ("one node", _ONE_NODE, {50: 0.9, 99: 1.4}),
            ("two nodes", _TWO_NODES, {50: 1.5}),
        ):
            latencies = measure_latencies(session, text, folder / name)
            for percentile, limit in limits.items():
                yield Answer(
                    f"Spark: end to end with {name}, p{percentile} in s",
                    float(np.percentile(latencies, percentile)),
                    limit,
                    detail=_distribution(latencies),
                )
        yield Answer(
            "Spark: an idle run of the paper's example, cores",
            measure_idle(session, folder / "idle"),
            0.3,
            detail=f"processor time of all processes in {_IDLE_S:g} s",
        )
    finally:
        close_session(session)
        shutil.rmtree(folder, ignore_errors=True)


QUESTIONS = (end_to_end,)


def measure_latencies(
    spark: SparkSession, text: str, folder: Path, options: Options | None = None
) -> Sequence[float]:
    """Run an application at a steady rate; the seconds that its results took."""
    application = _below(load_application(text).application, folder)
    with (
        Live(application, spark, checkpoint=str(folder / "state"), options=options) as running,
        _feeding(folder / "s"),
    ):
        running.wait(_WARM_S)
        began = time.time()
        running.wait(_MEASURED_S)
        ended = time.time()
    latencies = [
        latency
        for seen, latency in _latencies(folder / "out" / "found")
        if began <= seen - latency and seen <= ended
    ]
    if not latencies:
        raise RuntimeError(f"there was no result in {_MEASURED_S:g} s, after {_WARM_S:g} s")
    return latencies


@contextmanager
def _feeding(folder: Path) -> Iterator[None]:
    """Write files at a steady pace while something is done."""
    over = threading.Event()

    def feed() -> None:
        number, began = 0, time.time()
        while not over.wait(max(began + (number + 1) * _FILE_S - time.time(), 0.0)):
            _write(folder, number, began + number * _FILE_S)
            number += 1

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _write(folder: Path, number: int, start: float) -> None:
    """Write a file of events that happened evenly from a time on, in seconds since 1970."""
    rng = np.random.default_rng(number)
    step = _FILE_S / _FILE_EVENTS
    times = np.round((start + np.arange(_FILE_EVENTS) * step) * 1e6).astype(np.int64)
    table = pa.table(
        {
            "time": times,
            "id": np.arange(_FILE_EVENTS) + number * _FILE_EVENTS,
            "type": rng.integers(0, 4, _FILE_EVENTS),
            "key": rng.integers(0, 100, _FILE_EVENTS),
        }
    )
    hidden = folder / f".{number:06}.parquet"
    pq.write_table(table, hidden)
    hidden.rename(folder / f"{number:06}.parquet")


def _latencies(sink: Path) -> Iterator[tuple[float, float]]:
    """Give when each result was there, in seconds since 1970, and how long it took."""
    for committed, file in _committed_files(sink):
        times = pq.read_table(sink / file)["time"].cast(pa.int64()).to_pylist()
        yield from ((committed, committed - time / 1e6) for time in times)


def _committed_files(sink: Path) -> Iterator[tuple[float, str]]:
    """List the files of a sink, each with the time of the first log of Spark that has it."""
    logs = (sink / "_spark_metadata").glob("[0-9]*")
    known: set[str] = set()
    for log in sorted(logs, key=lambda path: int(path.stem)):
        lines = log.read_text().split("\n")[1:]
        files = [json.loads(line)["path"].rpartition("/")[2] for line in lines]
        yield from ((log.stat().st_mtime, file) for file in files if file not in known)
        known.update(files)


def measure_idle(spark: SparkSession, folder: Path, options: Options | None = None) -> float:
    """Run the paper's example without events; the cores that all of its processes take."""
    application = _below(load_application(_PAPER).application, folder)
    with Live(application, spark, checkpoint=str(folder / "state"), options=options) as running:
        running.wait(_SETTLING_S)
        before, began = processor_time(os.getpid()), time.monotonic()
        running.wait(_IDLE_S)
        return (processor_time(os.getpid()) - before) / (time.monotonic() - began)


def _below(application: Application, folder: Path) -> Application:
    """Have an application read and write below a folder; its sources have no files yet."""
    sources = {
        name: replace(source, path=str(folder / name), schema=source.schema or _BORG)
        for name, source in application.sources.items()
    }
    for source in sources.values():
        Path(str(source.path)).mkdir(parents=True)
    sinks = {
        name: replace(sink, path=str(folder / "out" / name))
        for name, sink in application.sinks.items()
    }
    return replace(application, sources=sources, sinks=sinks)


def _distribution(latencies: Sequence[float]) -> str:
    """Say how latencies are distributed."""
    values = np.percentile(latencies, _AT)
    listed = ", ".join(f"p{at} {value:.2f}" for at, value in zip(_AT, values, strict=True))
    return f"{listed}, most {max(latencies):.2f} s of {len(latencies):,} results"
