"""From outboxes to sinks, and from sources to side outputs: a small query for each.

A sink of files gets each complex event once, as Spark's own log beside the files says; any
other format of Spark gets it once unless a delivery is repeated after a crash, and then with
the same id. Side outputs are no different.
"""

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import ArrayType, MapType, StructType

from shedlight.engines.spark.run.deployment import Deployment
from shedlight.engines.spark.session.paths import local_folder
from shedlight.engines.spark.source.arrival import FILES
from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.engines.spark.support.checkpoint import check_logs
from shedlight.engines.spark.support.spark_errors import SPARK_ERRORS, to_user_error
from shedlight.graph import Application, SideOutput, Sink, Stream
from shedlight.language.eval.spark_sql import quote_name

_SINK, _LATE = "sink", "late"


def deliveries(application: Application) -> Iterator[str]:
    """Name all that is delivered: `sink NAME`, `late SOURCE` and `malformed SOURCE`."""
    yield from (f"{_SINK} {name}" for name in application.sinks)
    read = {stream for spec in application.operators.values() for stream in spec.inputs}
    for name, source in application.sources.items():
        if Stream(name) in read:
            yield from (f"{side} {name}" for side in source.sides)


def delivery(deployment: Deployment, name: str) -> DataStreamWriter:
    """Write the query of a delivery; it wants a trigger and a start.

    Raises:
        StateError: Its checkpoint is damaged.
    """
    place, events, folder = _parts(deployment, name)
    _check(deployment.delivery_folder(folder), place)
    options = dict(place.options)
    if place.format == "csv":
        options.setdefault("escape", '"')  # as others read it, and not with backslashes
    if place.path is not None:
        options["path"] = place.path
    return (
        events.writeStream.format(place.format)
        .queryName(f"shedlight {name}")
        .options(**options)
        .option("checkpointLocation", str(deployment.delivery_folder(folder)))
    )


def started(deployment: Deployment, name: str, every: float) -> StreamingQuery:
    """Start a delivery.

    Args:
        deployment: What runs.
        name: One of `deliveries`.
        every: How often it looks for something to deliver, in seconds.

    Raises:
        InputError: It cannot be written to the place that the application names.
    """
    trigger = f"{round(every * 1e3)} milliseconds"
    try:
        return delivery(deployment, name).trigger(processingTime=trigger).start()
    except SPARK_ERRORS as error:
        raise to_user_error(error, f"{name} cannot be written") from error


def _check(query: Path, place: Sink | SideOutput) -> None:
    """Hold what Spark remembers of a delivery against what is there."""
    written = None
    if place.path is not None and place.format in FILES and "://" not in place.path:
        written = local_folder(place.path)
    both = f"{query} and {written}" if written else str(query)
    check_logs(
        query, written, remedy=f"put it back, or remove {both} to have all delivered anew"
    )


def _writable(events: DataFrame, sink: Sink) -> DataFrame:
    """Write lists and structs as JSON text where there are plain values only."""
    if sink.format != "csv":
        return events
    columns = [
        F.to_json(quote_name(one.name)).alias(one.name)
        if isinstance(one.dataType, ArrayType | StructType | MapType)
        else F.col(quote_name(one.name))
        for one in events.schema
    ]
    return events.select(*columns)


def _parts(deployment: Deployment, name: str) -> tuple[Sink | SideOutput, DataFrame, str]:
    """Find where a delivery goes, what is delivered, and where it is remembered.

    No name of a sink has a dot, so that side outputs have folders of their own.
    """
    what, _, of = name.partition(" ")
    application = deployment.application
    if what == _SINK:
        sink = application.sinks[of]
        events = deployment.events(sink.takes, streaming=True).drop(ARRIVAL)
        return sink, _writable(events, sink), of
    place = application.sources[of].sides[what]
    events = (
        deployment.late(of, streaming=True)
        if what == _LATE
        else deployment.malformed_records(of)
    )
    return place, events, f"{of}.{what}"
