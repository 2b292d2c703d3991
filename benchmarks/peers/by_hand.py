"""What one writes on Spark without Shedlight: a join, a window function, or a state."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from benchmarks.peers.engines import Cost
from benchmarks.peers.workloads import Workload, events_of
from shedlight.engines.spark.session.session import close_session, open_session

_JOIN = """
    SELECT a.id AS first, min(b.time) AS time
    FROM events a JOIN events b
      ON a.key = b.key AND b.time > a.time AND b.time <= a.time + {window}
    WHERE a.type = 0 AND b.type = 1
    GROUP BY a.id
"""

_WINDOW = """
    SELECT first FROM (
        SELECT id AS first, type, time,
            MIN(IF(type = 1, time, NULL)) OVER (PARTITION BY key ORDER BY time
                ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS next
        FROM events WHERE type IN (0, 1))
    WHERE type = 0 AND next <= time + {window}
"""


def with_a_join(workload: Workload) -> Cost:
    """Join the events with themselves, and keep the first that follows."""
    return _measured(workload, _counting(workload, _JOIN))


def with_a_window(workload: Workload) -> Cost:
    """Look from each event at those after it, with a window function."""
    return _measured(workload, _counting(workload, _WINDOW))


def _counting(workload: Workload, sql: str) -> Callable[[SparkSession, Path], int]:
    def run(spark: SparkSession, folder: Path) -> int:
        spark.read.parquet(str(folder / "in")).createOrReplaceTempView("events")
        return spark.sql(sql.format(window=workload.window * 1_000_000)).count()

    return run


def with_a_state(workload: Workload) -> Cost:
    """Keep what waits by key in a state, in Python, as Spark's guide shows."""
    window = workload.window * 1_000_000

    def step(
        key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        waiting: list[tuple[int, int]] = list(state.get[0]) if state.exists else []
        found = []
        for frame in frames:
            ordered = frame.sort_values("time")
            for time, number, kind in zip(
                ordered["time"], ordered["id"], ordered["type"], strict=True
            ):
                if kind == 0:
                    waiting.append((time, number))
                elif kind == 1:
                    found += [(key[0], one) for at, one in waiting if time - at <= window]
                    waiting = []
        state.update(([list(one) for one in waiting],))
        yield pd.DataFrame(found, columns=["key", "first"])

    def run(spark: SparkSession, folder: Path) -> int:
        source = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1)
        events: DataFrame = source.parquet(str(folder / "in"))
        found = events.groupBy("key").applyInPandasWithState(
            step,
            "key bigint, first bigint",
            "waiting array<array<bigint>>",
            "append",
            GroupStateTimeout.NoTimeout,
        )
        counts: list[int] = []
        query = (
            found.writeStream.foreachBatch(lambda batch, _: counts.append(batch.count()))
            .option("checkpointLocation", tempfile.mkdtemp(dir=folder))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sum(counts)

    return _measured(workload, run)


_SCHEMA = "time bigint, id bigint, type bigint, key bigint, x double"


def _measured(workload: Workload, run: Callable[[SparkSession, Path], int]) -> Cost:
    """Measure the second of two runs: the processor time of this process and all it started."""
    with _session() as spark, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        pq.write_table(events_of(workload), folder / "in" / "events.parquet")
        run(spark, folder)
        before = _processor_time()
        matches = run(spark, folder)
        return Cost(workload.events, _processor_time() - before, matches)


@contextmanager
def _session() -> Iterator[SparkSession]:
    spark = open_session("benchmarks", master="local[2]")
    try:
        yield spark
    finally:
        close_session(spark)


def _processor_time() -> float:
    """Add up the seconds of this process and those that it started, and those that ended."""
    parents, seconds = dict[int, int](), dict[int, float]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            number = int(stat.parent.name)
            parents[number] = int(fields[1])
            seconds[number] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    family = [os.getpid()]
    for one in family:
        family += [child for child, parent in parents.items() if parent == one]
    return sum(seconds.get(one, 0) for one in family)
