"""What a second core brings on Spark, and what a small micro-batch costs over an idle one.

Cores are taken away and given back while Spark runs: all threads of all processes of the run,
and those that they start, may then use one core. So both ways have the same warm JVM, in turns.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from statistics import median
from unittest.mock import patch

from pyspark.sql import SparkSession

from benchmarks.question import Answer
from benchmarks.spark import (
    PAPER,
    SETTINGS,
    borg_events,
    does_nothing_step,
    events_of_keys,
    keyed_application,
    on_one_node,
    run_files,
    with_files,
)
from shedlight.engines.spark.run import node_query
from shedlight.engines.spark.session.session import close_session, open_session
from shedlight.graph import load_application
from tests.engines.spark.processes import family

_BATCH, _FILES = 1_000_000, 6
"""How many events a micro-batch has where cores are compared, and how many there are."""
_SMALL, _SMALL_FILES = 2_000, 20
"""The same where a micro-batch is compared with one that does nothing."""
_TURNS, _WARM = 5, 1
"""How often both ways are measured, and how often before that without counting."""


def cores() -> Iterator[Answer]:
    """Compare two cores with one, and small micro-batches with idle ones."""
    folder = Path(tempfile.mkdtemp(prefix="shedlight-bench-"))
    session = open_session("shedlight benchmark", settings=SETTINGS)
    try:
        yield _two_cores(session, folder)
        yield _small_batches(session, folder)
    finally:
        close_session(session)
        shutil.rmtree(folder, ignore_errors=True)


QUESTIONS = (cores,)


def _two_cores(spark: SparkSession, folder: Path) -> Answer:
    application = with_files(
        keyed_application(), folder, _FILES, _BATCH, events_of_keys(100_000)
    )
    ratios: list[float] = []
    found: tuple[list[float], list[float]] = ([], [])
    for turn in range(_WARM + _TURNS):
        speeds = [0.0, 0.0]
        for number in (0, 1) if turn % 2 else (1, 0):
            with pinned(1) if number == 0 else nullcontext():
                speeds[number] = run_files(spark, application, folder).events
        if turn >= _WARM:
            ratios.append(speeds[1] / speeds[0])
            for each, speed in zip(found, speeds, strict=True):
                each.append(speed)
    one, two = map(median, found)
    return Answer(
        "Spark: two cores / one, with a key",
        median(ratios),
        1.6,
        at_least=True,
        detail=f"{two:,.0f} and {one:,.0f} events/s",
    )


def _small_batches(spark: SparkSession, folder: Path) -> Answer:
    application = on_one_node(load_application(PAPER).application)
    application = with_files(application, folder, _SMALL_FILES, _SMALL, borg_events)
    rounds = []
    for turn in range(_WARM + _TURNS):
        seconds = [0.0, 0.0]
        for number in (0, 1) if turn % 2 else (1, 0):
            idle = patch.object(node_query, "stateful_function", does_nothing_step)
            with idle if number == 0 else nullcontext():
                seconds[number] = run_files(spark, application, folder).batch
        rounds.append(seconds)
    rounds = rounds[_WARM:]
    idle, ours = (median(column) for column in zip(*rounds, strict=True))
    return Answer(
        f"Spark: a micro-batch with {_SMALL:,} events / one that does nothing",
        median(mine / its for its, mine in rounds),
        1.3,
        detail=f"{1e3 * ours:.0f} and {1e3 * idle:.0f} ms, the paper's application",
    )


@contextmanager
def pinned(number: int) -> Iterator[None]:
    """Have this process, and all that it started, use so many cores for a while."""
    every = os.sched_getaffinity(0)
    _set_cores(set(sorted(every)[:number]))
    try:
        yield
    finally:
        _set_cores(every)


def _set_cores(cores: set[int]) -> None:
    """Set which cores are used by all threads of the run, twice: some begin meanwhile."""
    for _ in range(2):
        for process in family(os.getpid()):
            with suppress(OSError):
                for thread in Path(f"/proc/{process}/task").iterdir():
                    with suppress(OSError):
                        os.sched_setaffinity(int(thread.name), cores)
