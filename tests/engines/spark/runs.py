"""Runs an application on Spark and on the engine for finished tables, to compare the two."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from shedlight.engines.spark.run.finite import run_on_spark
from shedlight.engines.tables import run_application
from shedlight.graph import Application
from shedlight.matching.event_time import read_event_times
from shedlight.shedding.shares import Shares

Row = dict[str, object]


def with_files(
    application: Application,
    tables: Mapping[str, pa.Table],
    folder: Path,
    cuts: Sequence[int] = (),
) -> Application:
    """Write the events of sources as files that end at the cuts, to be read one by one."""
    sources = {}
    for name, source in application.sources.items():
        path = folder / "in" / name
        path.mkdir(parents=True)
        table = tables[name]
        bounds = [0, *sorted({cut for cut in cuts if 0 < cut < len(table)}), len(table)]
        for number, (start, end) in zip(count(), pairwise(bounds)):
            file = path / f"{number:04}.parquet"
            pq.write_table(table.slice(start, end - start), file)
            os.utime(file, (1_700_000_000 + number,) * 2)  # Spark reads the oldest first
        options = {"maxFilesPerTrigger": "1"} if cuts else {}
        sources[name] = replace(source, path=str(path), options=options)
    return replace(application, sources=sources)


def on_spark(
    spark: SparkSession,
    application: Application,
    folder: Path,
    shares: Shares | None = None,
    shards: int = 2,
) -> dict[str, list[Row]]:
    """Run an application on Spark; the complex events of each sink in order of time and id."""
    found = run_on_spark(
        application, spark, checkpoint=str(folder / "run"), shares=shares, shards=shards
    )
    return {name: in_order(frame.toArrow().to_pylist()) for name, frame in found.items()}


def locally(application: Application, tables: Mapping[str, pa.Table]) -> dict[str, list[Row]]:
    """Run the same without Spark."""
    results = run_application(application, tables)
    return {
        name: in_order(
            results[str(sink.input.operator)].complex_events[sink.input.name].to_pylist()
        )
        for name, sink in application.sinks.items()
    }


def sink_rows(table: pa.Table) -> list[Row]:
    """Give what a sink has, by time and id; times in microseconds, as without Spark."""
    micros = pa.array(read_event_times(table["time"]).values)
    index = table.column_names.index("time")
    return in_order(table.set_column(index, "time", micros).to_pylist())


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Sort complex events by time and id."""
    return sorted(rows, key=lambda row: (row["time"], row["id"]))
