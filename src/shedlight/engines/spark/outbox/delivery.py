"""Deliveries: from outboxes to sinks, and from sources to side outputs, a small query each.

A sink of files gets each complex event once, as Spark's own log next to the files says; any
other format of Spark gets it once unless a delivery is repeated after a crash, and then with
the same id, and so does a writer of the user. Side outputs are no different.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import ArrayType, MapType, StructType, TimestampType

from shedlight.engines.spark.outbox.writers import Writer, call_writer
from shedlight.engines.spark.session.paths import is_local, local_folder
from shedlight.engines.spark.source.arrival import FILES
from shedlight.engines.spark.support.checkpoint import check_logs, missing_files
from shedlight.engines.spark.support.spark_errors import SPARK_ERRORS, to_user_error
from shedlight.engines.spark.support.storage import StoredPath
from shedlight.graph import Application, SideOutput, Sink, Stream
from shedlight.graph.kafka import KAFKA
from shedlight.language.eval.spark_sql import quote_name
from shedlight.matching.output.complex_events import TIME

_LOG = logging.getLogger(__name__)
SINK, LATE = "sink", "late"
OF_TEXT = frozenset({"csv", "json", "xml"})
WRITTEN_TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timeZone": "UTC"}
"""How text has times: ISO-8601 in UTC, to the microsecond. (Spark cuts off at milliseconds.)"""
JDBC = "jdbc"  # which Spark writes, but not as a stream
_PLAIN_VALUES = frozenset({"csv", JDBC})  # the formats without lists and structs


def delivery_names(application: Application) -> Iterator[str]:
    """Name all deliveries: `sink NAME`, `late SOURCE` and `malformed SOURCE`."""
    yield from (f"{SINK} {name}" for name in application.sinks)
    read = {stream for spec in application.operators.values() for stream in spec.inputs}
    for name, source in application.sources.items():
        if Stream(name) in read:
            yield from (f"{side} {name}" for side in source.side_outputs)


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A delivery that can be started."""

    name: str  # one of `delivery_names`
    target: Sink | SideOutput  # the sink or side output
    events: DataFrame  # what is written to it, as a stream
    checkpoint: StoredPath  # the folder of Spark's checkpoint of its query
    key: tuple[str, ...] = ()  # the columns by which Kafka keeps events in order
    write: Writer | None = None  # the user's own way to write; None: as the target says
    logs: tuple[int, ...] | None = None  # the log of each stream that it reads; None: its own

    def writer(self) -> DataStreamWriter:
        """Write its query, which still needs a trigger and a start."""
        events = self.events
        self._check_checkpoint()
        if self.name.startswith(f"{SINK} "):
            events = events.withColumn(TIME, F.timestamp_micros(TIME))
        if self.write is None:
            return self._to_target(events)
        return self._named(call_writer(self.name, self.write, events))

    def _to_target(self, events: DataFrame) -> DataStreamWriter:
        target, options = self.target, dict(self.target.options)
        if target.format in OF_TEXT:
            options = {**WRITTEN_TIMES, **options}
        if target.format.lower() in _PLAIN_VALUES:
            events = _with_json_columns(events)
        if target.format == "csv":
            options.setdefault("escape", '"')  # as others read it, and not with backslashes
        if target.format.lower() == KAFKA:
            events = _to_records(events, self.key)
        if target.path is not None:
            options["path"] = target.path
        writer = self._named(events.writeStream)
        if target.format.lower() == JDBC:
            return writer.foreachBatch(partial(_append, options))
        return writer.format(target.format).options(**options)

    def _named(self, writer: DataStreamWriter) -> DataStreamWriter:
        writer = writer.queryName(f"shedlight {self.name}")
        return writer.option("checkpointLocation", str(self.checkpoint))

    def start(self, interval: float) -> StreamingQuery:
        """Start it, to look every so many seconds for something to deliver."""
        trigger = f"{round(interval * 1e3)} milliseconds"
        try:
            return self.writer().trigger(processingTime=trigger).start()
        except SPARK_ERRORS as error:
            raise to_user_error(error, f"{self.name} cannot be written") from error

    def _check_checkpoint(self) -> None:
        """Compare Spark's logs with the files that are there."""
        path, written = self.target.path, None
        if path is not None and self.target.format in FILES and is_local(path):
            written = local_folder(path)
        folders = f"{self.checkpoint} and {written}" if written else str(self.checkpoint)
        remedy = f"put it back, or remove {folders} to have all delivered anew"
        check_logs(self.checkpoint, written, logs=self.logs, remedy=remedy)
        gone = [] if written is None else missing_files(written)
        if gone:
            more = f" and {len(gone) - 1:,} more" if len(gone) > 1 else ""
            _LOG.warning(
                "%s lacks %s%s, which its log names: Spark cannot read the folder, and what "
                "was in it is not delivered again; put it back",
                self.name,
                gone[0],
                more,
            )


def _append(options: Mapping[str, str], events: DataFrame, _: int) -> None:
    """Append the events of a micro-batch to a table."""
    events.write.format(JDBC).options(**options).mode("append").save()


def _to_records(events: DataFrame, key: Sequence[str]) -> DataFrame:
    """Write events as records of Kafka: the value is JSON, the key the text of its columns."""
    options = {**WRITTEN_TIMES, "ignoreNullFields": "false"}
    value = F.to_json(F.struct(*map(quote_name, events.columns)), options)
    if not key:
        return events.select(value.alias("value"))
    return events.select(_key_text(events, key).alias("key"), value.alias("value"))


def _key_text(events: DataFrame, key: Sequence[str]) -> Column:
    """Write a key as text, the same in any session: times are those of UTC."""
    names = [quote_name(name) for name in key]
    if len(names) > 1:
        return F.to_json(F.struct(*names), {"timeZone": "UTC"})
    if isinstance(events.schema[key[0]].dataType, TimestampType):
        epoch = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
        time = f"timestampadd(MICROSECOND, unix_micros({names[0]}), {epoch})"
        return F.expr(f"CAST({time} AS STRING)")
    return F.col(names[0]).cast("string")


def _with_json_columns(events: DataFrame) -> DataFrame:
    """Write lists and structs as JSON text, for formats that have plain values only."""
    columns = [
        F.to_json(quote_name(column.name), WRITTEN_TIMES).alias(column.name)
        if isinstance(column.dataType, ArrayType | StructType | MapType)
        else F.col(quote_name(column.name))
        for column in events.schema
    ]
    return events.select(*columns)
