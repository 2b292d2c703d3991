"""When events arrived, and how many of each type, observed on their way through the JVM.

Arrival is when the event itself says, if the source names a column for it; else when a file was
complete, when Kafka took the event, or when Spark read it. What is observed comes with the
progress of the query and costs no pass of its own. When those had arrived that were kept, the
groups say (`samples.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so

from shedlight.engines.spark.support.arrival_sketch import ARRIVAL, ArrivalSketch
from shedlight.language.eval.spark_sql import quote_name

FILES = frozenset({"parquet", "json", "csv", "text", "orc", "avro", "xml"})
"""The formats of files."""
_FEW = 64
"""Up to so many types are counted one by one."""
_ROOM = 16
"""A histogram has a bin for each type in each of so many partitions."""
_SHARES = (0.5, 0.05, 0.01)


def with_arrivals(frame: DataFrame, kind: str = "parquet") -> DataFrame:
    """Add the time of arrival to a stream as it is read.

    Args:
        frame: The stream.
        kind: Its format.
    """
    if kind in FILES:
        arrival = "unix_micros(_metadata.file_modification_time)"
    elif kind == "kafka" and "timestamp" in frame.columns:
        arrival = "unix_micros(timestamp)"
    else:
        arrival = "unix_micros(current_timestamp())"
    return frame.select("*", F.expr(arrival).alias(ARRIVAL))


def with_declared_arrival(frame: DataFrame, told: str) -> DataFrame:
    """Have events say themselves when they arrived, if they do, and not after now.

    Args:
        frame: A stream with arrivals.
        told: When they say, in microseconds, in SQL.
    """
    own = f"least(coalesce({told}, `{ARRIVAL}`), unix_micros(current_timestamp()))"
    return frame.withColumn(ARRIVAL, F.expr(own))


@dataclass(frozen=True, slots=True)
class ArrivalStats:
    """What arrived in a micro-batch by one way, before shedding.

    Attributes:
        number: How many events.
        latest: The latest time of an event, in microseconds; None if there is none.
        newest: When the newest arrived, in microseconds.
        types: How many there are of each type, by its number.
        oldest: When the oldest arrived, in microseconds.
    """

    number: int
    latest: int | None
    newest: int | None
    types: Mapping[int, int]
    oldest: int | None = None

    def not_before(self, time: int) -> "ArrivalStats":
        """Take what arrived before a time to have arrived then."""
        newest = None if self.newest is None else max(self.newest, time)
        oldest = None if self.oldest is None else max(self.oldest, time)
        return replace(self, newest=newest, oldest=oldest)


@dataclass(frozen=True, slots=True)
class KeptArrivals:
    """What was kept of it.

    Attributes:
        number: How many events.
        mean: Their mean time of arrival, in microseconds.
        quantiles: That of the 50th, 5th and 1st of a hundred, from the newest on.
    """

    number: int
    mean: float
    quantiles: tuple[float, ...]

    def not_before(self, time: float) -> "KeptArrivals":
        """Take what arrived before a time to have arrived then."""
        later = tuple(max(one, time) for one in self.quantiles)
        return KeptArrivals(self.number, max(self.mean, time), later)


def observed_arrivals(frame: DataFrame, name: str, time: str, types: int | None) -> DataFrame:
    """Observe what arrives.

    Args:
        frame: Events, with their number of type in `#type` if types are counted.
        name: What the observation is called.
        time: The column with the time of an event.
        types: How many types there are; None: they are not counted.
    """
    counted: list[Column] = [
        F.count(F.lit(1)).alias("number"),
        F.max(F.col(quote_name(time))).alias("latest"),
        F.max(F.col(quote_name(ARRIVAL))).alias("newest"),
        F.min(F.col(quote_name(ARRIVAL))).alias("oldest"),
    ]
    if types is not None and types <= _FEW:
        each = [F.count_if(F.col("`#type`") == number) for number in range(types)]
        counted += [one.alias(f"type{number}") for number, one in enumerate(each)]
    elif types is not None:
        bins = F.histogram_numeric(F.col("`#type`").cast("double"), F.lit(types * _ROOM))
        counted.append(bins.alias("types"))
    return frame.observe(name, *counted)


def observed_packed(frame: DataFrame, name: str) -> DataFrame:
    """Observe what arrives in packed rows."""
    number = F.coalesce(F.sum("number"), F.lit(0)).alias("number")
    arrival = F.col(quote_name(ARRIVAL))
    ends = (F.max(arrival).alias("newest"), F.min(arrival).alias("oldest"))
    return frame.observe(name, number, *ends)


def arrival_stats(row: Mapping[str, Any]) -> ArrivalStats:
    """Read what `observed_arrivals` observed."""
    types = {
        int(name.removeprefix("type")): int(count)
        for name, count in row.items()
        if name.startswith("type") and name != "types" and count
    }
    for one in row.get("types") or ():
        types[round(one["x"])] = round(one["y"])
    number, latest = int(row["number"]), row.get("latest")
    return ArrivalStats(number, latest, row.get("newest"), types, row.get("oldest"))


def kept_arrivals(sample: ArrivalSketch) -> KeptArrivals:
    """Say what was kept, by a sample of it."""
    return KeptArrivals(sample.number, sample.mean, tuple(map(sample.at, _SHARES)))
