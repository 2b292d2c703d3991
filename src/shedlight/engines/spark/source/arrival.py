"""When events arrived, and how many of each event type, observed on their way through the JVM.

Arrival is when the event itself says, if the source names a column for it; else when a file was
complete, when Kafka took the event, or when Spark read it. What is observed comes with the
progress of the query and costs no pass of its own. When those had arrived that were kept, the
shards say (`arrival_sketch.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so

from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.engines.tables import EVENT_TIME
from shedlight.graph import Source, Stream
from shedlight.graph.application import DATAFRAME
from shedlight.language.eval.spark_sql import quote_name
from shedlight.matching.operators.reorder import BEYOND

FILES = frozenset({"parquet", "json", "csv", "text", "orc", "avro", "xml"})
"""The formats of files."""
TYPE = "#type"  # the column with the number of an event's type
MAX_EXACT_TYPES = 64  # up to so many event types are counted one by one
ARRIVED = "arrived "  # what the observation of arrivals begins with
_FILE_TIME = "unix_micros(_metadata.file_modification_time)"
CELLS = "cells"  # what counts of strata of keys are observed as
BINS_PER_TYPE = 16  # a histogram has a bin for each event type in each of so many partitions


def with_arrivals(frame: DataFrame, source_format: str = "parquet") -> DataFrame:
    """Add the time of arrival to a stream as it is read."""
    if ARRIVAL in frame.columns:
        return frame
    if source_format in FILES:
        arrival = _FILE_TIME
    elif source_format.lower() == "kafka" and "timestamp" in frame.columns:
        arrival = "unix_micros(timestamp)"
    elif source_format == DATAFRAME and _knows_files(frame):
        arrival = _FILE_TIME
    else:
        arrival = "unix_micros(current_timestamp())"
    return frame.select("*", F.expr(arrival).alias(ARRIVAL))


def _knows_files(frame: DataFrame) -> bool:
    """Say whether a DataFrame of the user can still tell which file a row is from."""
    try:
        return "_metadata" not in frame.columns and bool(frame.selectExpr(_FILE_TIME).columns)
    except AnalysisException:
        return False


def with_declared_arrival(frame: DataFrame, declared: str) -> DataFrame:
    """Take the arrival that events declare (microseconds, in SQL), if any and not after now."""
    own = f"least(coalesce({declared}, `{ARRIVAL}`), unix_micros(current_timestamp()))"
    return frame.withColumn(ARRIVAL, F.expr(own))


def hold_jumps(source: Source, events: DataFrame, now: Column) -> DataFrame:
    """Give events whose times are too far ahead of the clock the time of those that are late.

    So none of them makes the watermark of its source jump. A repeated micro-batch decides the
    same, for Spark's log has its time.
    """
    time = F.col(quote_name(EVENT_TIME))
    held = F.when(time > now + F.lit(source.max_jump), F.lit(BEYOND)).otherwise(time)
    return events.withColumn(EVENT_TIME, held)


@dataclass(frozen=True, slots=True)
class ArrivalStats:
    """What arrived of a stream at an operator in a micro-batch, before shedding."""

    number: int  # how many events
    latest: int | None  # the latest time of an event that counts, in microseconds
    newest: int | None  # when the newest arrived, in microseconds
    types: Mapping[int, int]  # how many there are of each event type, by its number
    oldest: int | None = None  # when the oldest arrived, in microseconds
    # how many there are of each stratum of keys but the rest, and type, as one number
    cells: Mapping[int, int] = field(default_factory=dict)

    def not_before(self, time: int) -> "ArrivalStats":
        """Take what arrived before a time to have arrived then."""
        newest = None if self.newest is None else max(self.newest, time)
        oldest = None if self.oldest is None else max(self.oldest, time)
        return replace(self, newest=newest, oldest=oldest)


def arrivals_name(operator: str, stream: Stream) -> str:
    """Name the observation of what arrives at an operator."""
    return f"{ARRIVED}{operator} {stream}"


def observe_arrivals(
    frame: DataFrame, name: str, time: str, types: int | None, more: Iterable[Column] = ()
) -> DataFrame:
    """Observe what arrives under a name, and more at once: each observation costs a pass.

    Of so many event types events are counted by their number; None: they are not.
    """
    number = F.count(F.lit(1)).alias("number")
    counted = [number, F.max(F.col(quote_name(time))).alias("latest"), *_first_and_last()]
    if types is not None and types <= MAX_EXACT_TYPES:
        each = [F.count_if(F.col(quote_name(TYPE)) == number) for number in range(types)]
        counted += [count.alias(f"type{number}") for number, count in enumerate(each)]
    elif types is not None:
        number_of_type = F.col(quote_name(TYPE)).cast("double")
        bins = F.histogram_numeric(number_of_type, F.lit(types * BINS_PER_TYPE))
        counted.append(bins.alias("types"))
    return frame.observe(name, *counted, *more)


def observe_packed(frame: DataFrame, name: str) -> DataFrame:
    """Observe what arrives in packed rows."""
    number = F.coalesce(F.sum("number"), F.lit(0)).alias("number")
    return frame.observe(name, number, *_first_and_last())


def _first_and_last() -> list[Column]:
    arrival = F.col(quote_name(ARRIVAL))
    return [F.max(arrival).alias("newest"), F.min(arrival).alias("oldest")]


def read_arrival_stats(row: Mapping[str, Any]) -> ArrivalStats:
    """Read what was observed of arrivals."""
    types = {
        int(name.removeprefix("type")): int(count)
        for name, count in row.items()
        if name.startswith("type") and name != "types" and count
    }
    types |= _count_bins(row.get("types"))
    number, latest = int(row["number"]), row.get("latest")
    latest = None if latest == BEYOND else latest
    cells = _count_bins(row.get(CELLS))
    return ArrivalStats(number, latest, row.get("newest"), types, row.get("oldest"), cells)


def _count_bins(bins: Iterable[Mapping[str, float]] | None) -> dict[int, int]:
    """Add up the bins of a histogram: there is one of each partition."""
    counts: dict[int, int] = {}
    for each in bins or ():
        counts[round(each["x"])] = counts.get(round(each["x"]), 0) + round(each["y"])
    return counts
