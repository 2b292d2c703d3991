"""What large states cost on Spark: micro-batches that change little of them, and many keys.

A run first reads one file that opens partial matches, then small files that complete the oldest
of them and open as many again. The small files are measured, after some in which the workers
come to hold the state. Runs take turns in one session, and the median counts.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.question import Answer
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.engines.spark.session.session import close_session, open_session
from shedlight.graph import (
    Application,
    Node,
    OperatorSpec,
    Sink,
    Source,
    Stream,
    build_application,
)
from shedlight.language import parse_pattern

_SHARDS = 2
_FILES = 12
"""How many files change the state after the one that fills it."""
_WARM = 4
"""How many of them do not count."""
_TURNS = 2
"""How often both runs are measured, now one and now the other first."""
_NOTE = 360
"""How many characters each event has that a pattern selects: as many half bytes."""
_SETTINGS = {
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.sql.shuffle.partitions": str(_SHARDS),
}
_PATTERN = """
SELECT a.id AS first, b.id AS last, a.note AS note
WHERE SEQ(a.type = 0, b.type = 1) WITHIN 10 h PARTITION BY key
"""


@dataclass(frozen=True, slots=True)
class _Load:
    """How many keys have a partial match, how many events a file has, and on how many keys."""

    open: int
    change: int
    note: int = _NOTE


@dataclass(frozen=True, slots=True)
class _Cost:
    """What a micro-batch took in seconds, events per second, and the states in megabytes."""

    seconds: float
    events: float
    megabytes: float


def states() -> Iterator[Answer]:
    """Compare a large state with a small one, and a million keys with a thousand."""
    folder = Path(tempfile.mkdtemp(prefix="shedlight-bench-"))
    session = open_session("shedlight benchmark", settings=_SETTINGS)
    try:
        yield from _changes(session, folder)
        yield from _many_keys(session, folder)
    finally:
        close_session(session)
        shutil.rmtree(folder, ignore_errors=True)


QUESTIONS = (states,)


def _changes(spark: SparkSession, folder: Path) -> Iterator[Answer]:
    small, large = _in_turns(spark, folder, [_Load(5_000, 5_000), _Load(520_000, 5_000)])
    yield Answer(
        "Spark: a micro-batch with 2 x 64 MB of state / 2 x 1 MB",
        median(many.seconds / few.seconds for few, many in zip(small, large, strict=True)),
        3.0,
        detail=f"{_typical(large)}; {_typical(small)}; 1 MB of change in each",
    )


def _many_keys(spark: SparkSession, folder: Path) -> Iterator[Answer]:
    loads = [_Load(1_000, 250_000, 0), _Load(1_000_000, 250_000, 0)]
    few, many = _in_turns(spark, folder, loads)
    yield Answer(
        "Spark: a million keys with partial matches / a thousand",
        median(large.events / small.events for small, large in zip(few, many, strict=True)),
        0.5,
        at_least=True,
        detail=f"{_typical(many)}; {_typical(few)}",
    )


def _typical(costs: Sequence[_Cost]) -> str:
    seconds, events = (
        median(getattr(c, name) for c in costs) for name in ("seconds", "events")
    )
    return f"{costs[-1].megabytes:.0f} MB: {seconds:.2f} s, {events:,.0f} events/s"


def _in_turns(spark: SparkSession, folder: Path, loads: Sequence[_Load]) -> list[list[_Cost]]:
    found: list[list[_Cost]] = [[] for _ in loads]
    for turn in range(_TURNS):
        for way in (0, 1) if turn % 2 else (1, 0):
            found[way].append(_run(spark, folder, loads[way]))
    return found


def _run(spark: SparkSession, folder: Path, load: _Load) -> _Cost:
    """Run the application over all files, a micro-batch for each, in folders of its own."""
    own = Path(tempfile.mkdtemp(dir=folder))
    source, checkpoint = own / "in", own / "checkpoint"
    _write_files(source, load)
    reports: list[MicroBatchReport] = []
    run_on_spark(
        _application(source),
        spark,
        checkpoint=str(checkpoint),
        on_micro_batch=reports.append,
    )
    shutil.rmtree(own)
    warm = [report for report in reports if report.events][1 + _WARM :]
    size = sum(shard.state for shard in warm[-1].shards)
    seconds = median(report.seconds for report in warm)
    events = sum(report.events for report in warm) / sum(report.seconds for report in warm)
    return _Cost(seconds, events, size / 1e6)


def _write_files(folder: Path, load: _Load) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    order = rng.permutation(load.open)
    pq.write_table(_events(0, order, np.zeros(load.open, np.int64), load, rng), folder / "000")
    for number in range(_FILES):
        half = np.arange(number * load.change // 2, (number + 1) * load.change // 2)
        keys = np.repeat(order[half % load.open], 2)
        types = np.tile([1, 0], len(half))  # one completes, the next opens it again
        start = load.open + number * load.change
        path = folder / f"{number + 1:03}"
        pq.write_table(_events(start, keys, types, load, rng), path)


def _events(
    start: int, keys: np.ndarray, types: np.ndarray, load: _Load, rng: np.random.Generator
) -> pa.Table:
    ids = np.arange(start, start + len(keys))
    notes = rng.bytes(len(keys) * load.note // 2).hex()
    columns: Mapping[str, Any] = {
        "time_us": 1_000 * ids,
        "id": ids,
        "key": keys,
        "type": types,
        "note": [notes[i * load.note : (i + 1) * load.note] for i in range(len(keys))],
    }
    return pa.table(columns)


def _application(source: Path) -> Application:
    spec = OperatorSpec(
        name="w",
        node="n",
        inputs=(Stream("s"),),
        patterns={"P": parse_pattern(_PATTERN).pattern},
    )
    return build_application(
        "bench",
        [
            Source(
                name="s",
                format="parquet",
                path=str(source),
                time="time_us",
                id=("id",),
                options={"maxFilesPerTrigger": "1"},
            )
        ],
        [Node(name="n")],
        [spec],
        [Sink(name="sink", input=Stream("P", "w"), format="parquet", path="sink")],
    )
