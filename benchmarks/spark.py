"""How fast applications run on Spark: throughput against the same query that does nothing.

Figures are of the micro-batches after the first, in which Python warms up, and of runs after
some that are not counted, in which the JVM does. All are in one session, in turns of a few
seconds, for a computer that is shared is not equally fast all the time; ratios are taken within
a round, and the median of the rounds counts.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupState

from benchmarks.question import Answer
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.run import node_query
from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.engines.spark.session.session import close_session, open_session
from shedlight.engines.spark.step.emit import metrics_row, rows_frame
from shedlight.engines.spark.step.metrics import METRICS_JSON, ShardMetrics
from shedlight.engines.spark.step.stateful import Frames, Step
from shedlight.engines.spark.support.malloc import keep_memory
from shedlight.graph import (
    Application,
    Node,
    OperatorSpec,
    Sink,
    Source,
    Stream,
    build_application,
    load_application,
)
from shedlight.language import parse_pattern
from shedlight.shedding.shares import PatternShares, Shares

PAPER = Path("examples/paper/app.yaml")
_BATCH = 1_000_000
"""How many events a micro-batch has where several runs are compared in turns."""
_SHORT = 6
"""How many micro-batches such a run has: in all rounds together, many more than ten."""
_LONG = 10
"""How many micro-batches other runs have."""
_TURNS = 5
"""How often two of those are measured in turns, besides once that does not count."""
_ROUNDS = 12
"""How often all are measured in turns; the median counts."""
_ORDERS = ((0, 1, 3, 2), (1, 2, 0, 3), (2, 3, 1, 0), (3, 0, 2, 1))
"""In what order, so that each comes after each other equally often: what a run leaves to be
written to the disk, the next one pays for."""
_WARM = 3
"""How many rounds do not count."""
_RATE = 100_000
"""Events per second of event time."""


@dataclass(frozen=True, slots=True)
class _Speed:
    """How fast a run was: events per second, and seconds per micro-batch."""

    events: float
    batch: float


def on_spark() -> Iterator[Answer]:
    """Answer all questions in one session."""
    folder = Path(tempfile.mkdtemp(prefix="shedlight-bench-"))
    session = open_session("shedlight benchmark", settings=SETTINGS)
    try:
        yield from _shedding(session, folder)
        yield from _keys(session, folder)
        yield from _partial_matches(session, folder)
    finally:
        close_session(session)
        shutil.rmtree(folder, ignore_errors=True)


SETTINGS = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}


def _shedding(spark: SparkSession, folder: Path) -> Iterator[Answer]:
    application = on_one_node(load_application(PAPER).application)
    application = with_files(application, folder, _SHORT, _BATCH, borg_events)
    patterns = [s for spec in application.operators.values() for s in spec.outputs]
    everything = {stream: PatternShares({}, default_share=1.0) for stream in patterns}
    fifth = {
        stream: PatternShares({}, default_share=0.2)
        for stream in patterns
        if stream.operator in {"w1", "w2"}
    }
    plans = (None, None, everything, fifth)
    rounds = []
    for number in range(_WARM + _ROUNDS):
        found = [0.0] * len(plans)
        for way in _ORDERS[number % len(_ORDERS)]:
            does_nothing = patch.object(node_query, "stateful_function", does_nothing_step)
            with does_nothing if way == 0 else nullcontext():
                found[way] = run_files(spark, application, folder, plans[way]).events
        rounds.append(tuple(found))
    rounds = rounds[_WARM:]
    typical = [median(column) for column in zip(*rounds, strict=True)]
    for question, over, under, limit in (
        ("the paper's application / a step that does nothing", 1, 0, 0.75),
        ("80 % shed / nothing shed", 3, 1, 1.6),
        ("the shedder at keep = 1 / without it", 2, 1, 0.95),
    ):
        yield Answer(
            f"Spark: {question}",
            median(one[over] / one[under] for one in rounds),
            limit,
            at_least=True,
            detail=f"{typical[over]:,.0f} and {typical[under]:,.0f} events/s, "
            f"half of the rounds {_middle(rounds, over, under)}",
        )


def _middle(rounds: Sequence[tuple[float, ...]], over: int, under: int) -> str:
    """Say between which ratios half of the rounds are."""
    low, _, high = quantiles((one[over] / one[under] for one in rounds), n=4)
    return f"{low:.2f}-{high:.2f}"


def _keys(spark: SparkSession, folder: Path) -> Iterator[Answer]:
    made = [(keyed_application(), events_of_keys(keys)) for keys in (1, 100_000)]
    rounds = _in_turns(spark, folder, made)
    one, many = (median(speed.events for speed in way) for way in zip(*rounds, strict=True))
    yield Answer(
        "Spark: 100,000 keys / one key",
        median(many.events / one.events for one, many in rounds),
        0.5,
        at_least=True,
        detail=f"{many:,.0f} and {one:,.0f} events/s",
    )


def _partial_matches(spark: SparkSession, folder: Path) -> Iterator[Answer]:
    made = [(_waiting(number), _openers) for number in (1_000, 100_000)]
    rounds = _in_turns(spark, folder, made)
    few, many = (median(speed.batch for speed in way) for way in zip(*rounds, strict=True))
    yield Answer(
        "Spark: a batch with 100,000 partial matches / with 1,000",
        median(many.batch / few.batch for few, many in rounds),
        2.0,
        detail=f"{many:.2f} and {few:.2f} s",
    )


def _in_turns(
    spark: SparkSession, folder: Path, made: Sequence[tuple[Application, "_Make"]]
) -> list[list[_Speed]]:
    """Measure two applications several times, now one and now the other first."""
    rounds = []
    for number in range(1 + _TURNS):
        found = {}
        for way in (0, 1) if number % 2 else (1, 0):
            application, make = made[way]
            files = with_files(application, folder, _LONG, _BATCH // 4, make)
            found[way] = run_files(spark, files, folder)
        rounds.append([found[0], found[1]])
    return rounds[1:]  # in the first the JVM warms up


QUESTIONS: tuple[Callable[[], Iterator[Answer]], ...] = (on_spark,)


def run_files(
    spark: SparkSession, application: Application, folder: Path, shares: Shares | None = None
) -> _Speed:
    """Run an application over all its files, a micro-batch for each."""
    checkpoint = folder / "checkpoint"
    batches: list[MicroBatchReport] = []
    run_on_spark(
        application,
        spark,
        checkpoint=str(checkpoint),
        shares=shares,
        on_micro_batch=batches.append,
    )
    shutil.rmtree(checkpoint)
    warm = [one for one in batches[1:] if one.events]
    seconds = sum(one.seconds for one in warm)
    return _Speed(sum(one.events for one in warm) / seconds, seconds / len(warm))


def does_nothing_step(step: Step) -> Callable[[Any, Frames, GroupState], Frames]:  # noqa: ARG001
    """Make a stateful step that reads everything and finds nothing."""

    def nothing(key: tuple[Any, ...], frames: Frames, state: GroupState) -> Frames:  # noqa: ARG001
        keep_memory()
        for frame in frames:
            len(frame)
        state.update((b"nothing",))
        text = METRICS_JSON.dump_json(ShardMetrics(0, 0.0, 0)).decode()
        yield rows_frame([metrics_row(0, text)])

    return nothing


def on_one_node(application: Application) -> Application:
    """Put all operators of an application on one node."""
    operators = {
        name: replace(spec, node="all") for name, spec in application.operators.items()
    }
    return replace(application, nodes={"all": Node(name="all")}, operators=operators)


_Make = Callable[[int, int, np.random.Generator], Mapping[str, Any]]


def with_files(
    application: Application, folder: Path, files: int, events: int, make: _Make
) -> Application:
    """Write files with so many events in all sources together, to be read one by one."""
    sources = {}
    for seed, (name, source) in enumerate(application.sources.items()):
        path = folder / "in" / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        number = events // len(application.sources)
        rng = np.random.default_rng(seed)
        for file in range(files):
            table = pa.table(make(file * number, number, rng))
            pq.write_table(table, path / f"{file:03}.parquet", compression="snappy")
        sources[name] = replace(source, path=str(path), options={"maxFilesPerTrigger": "1"})
    return replace(application, sources=sources)


def _times(start: int, number: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return (np.arange(start, start + number) * (1_000_000 / _RATE)).astype(np.int64)


def borg_events(start: int, number: int, rng: np.random.Generator) -> Mapping[str, Any]:
    """Make events like those of the cluster trace."""
    return {
        "machine_id": rng.integers(0, 10_000, number),
        "time_us": _times(start, number),
        "collection_id": np.arange(start, start + number),
        "instance_index": rng.integers(0, 100, number),
        "event": rng.integers(0, 9, number),
    }


def events_of_keys(keys: int) -> _Make:
    """Make events of so many keys."""

    def make(start: int, number: int, rng: np.random.Generator) -> Mapping[str, Any]:
        return {
            "time_us": _times(start, number),
            "id": np.arange(start, start + number),
            "key": rng.integers(0, keys, number),
            "type": rng.integers(0, 4, number),
        }

    return make


def _openers(start: int, number: int, rng: np.random.Generator) -> Mapping[str, Any]:
    """Make events of which every second opens a partial match that nothing ever completes."""
    return {
        "time_us": _times(start, number),
        "id": np.arange(start, start + number),
        "type": rng.integers(0, 2, number),
    }


def _application(pattern: str) -> Application:
    spec = OperatorSpec(
        name="w",
        node="n",
        inputs=(Stream("s"),),
        patterns={"P": parse_pattern(pattern).pattern},
    )
    return build_application(
        "bench",
        [Source(name="s", format="parquet", path="s", time="time_us", id=("id",))],
        [Node(name="n")],
        [spec],
        [Sink(name="sink", input=Stream("P", "w"), format="parquet", path="sink")],
    )


def keyed_application() -> Application:
    """Look for three events in a row, by key."""
    return _application(
        "SELECT a.id AS first, c.id AS last WHERE SEQ(a.type = 0, b.type = 1, c.type = 2) "
        "WITHIN 10 s PARTITION BY key"
    )


def _waiting(partial_matches: int) -> Application:
    """Keep so many partial matches at a time: every second event opens one."""
    micros = int(2 * partial_matches * 1_000_000 / _RATE)
    return _application(
        f"SELECT a.id AS first WHERE SEQ(a.type = 0, b.type = 7) WITHIN {micros} us"
    )
