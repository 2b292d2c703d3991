"""An application over finished sources on Spark, node by node from sources to sinks.

    checkpoint/
        application      what it is of
        <node>/query     where Spark remembers what was read and where matching stands
        <node>/outbox    what the node's operators say
        <node>/ends      the sources that are at their end

A run that was stopped goes on where it was; one that is complete is not repeated.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from shedlight.automaton.operator import schema_of
from shedlight.engines.spark.fused import outside_input
from shedlight.engines.spark.layout import Part, longest_windows, node_order, parts_of
from shedlight.engines.spark.node import Channel, Setting, build_part, end_marks, node_query
from shedlight.engines.spark.outbox import OUTPUT, events_of, frontiers_of, read_outbox
from shedlight.engines.spark.record import check_record, lines_of
from shedlight.engines.spark.sources import (
    REFUSED,
    arrow_schema,
    prepared_source,
    read_source,
)
from shedlight.errors import InputError, ShedlightError, StateError
from shedlight.graph import Application, Source, Stream, with_schemas
from shedlight.shedding.shares import Shares

_ENDS = "name string"


def run_on_spark(
    application: Application,
    spark: SparkSession,
    *,
    checkpoint: str,
    shares: Shares | None = None,
    buckets: int = 2,
) -> Mapping[str, DataFrame]:
    """Run an application over all that its sources have.

    Args:
        application: The application.
        spark: The session; its time zone must be UTC.
        checkpoint: A folder that belongs to this run of this application.
        shares: What patterns keep; None: everything.
        buckets: How many groups share the keys of patterns with PARTITION BY.

    Returns:
        The complex events of each sink.

    Raises:
        InputError: A source cannot be read, or an event has no time or id.
        ApplicationError: A pattern does not fit the columns, or nodes feed each other.
        StateError: The checkpoint is of another application, or damaged.
    """
    _check_session(spark)
    raw = {
        name: read_source(spark, source, streaming=True)
        for name, source in application.sources.items()
    }
    kinds = {name: schema_of(arrow_schema(frame)) for name, frame in raw.items()}
    application = with_schemas(application, kinds)
    check_record(spark, f"{checkpoint}/application", lines_of(application, buckets))
    run = _Run(application, spark, checkpoint, setting_of(application, shares or {}))
    for node in node_order(application):
        run.finish(node, parts_of(application, node, buckets), raw)
    return {name: run.table(sink.input) for name, sink in application.sinks.items()}


def _check_session(spark: SparkSession) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    if zone not in {"UTC", "Etc/UTC", "GMT"}:
        raise InputError(
            f"the time zone of the Spark session is {zone!r}; "
            "set spark.sql.session.timeZone to UTC"
        )


def setting_of(application: Application, shares: Shares) -> Setting:
    """Find what all nodes have to know of each other."""
    sunk = {sink.input for sink in application.sinks.values()}
    crossing = {
        stream
        for spec in application.operators.values()
        for stream in spec.inputs
        if stream.operator and application.operators[stream.operator].node != spec.node
    }
    return Setting(
        shares,
        longest_windows(application),
        frozenset(sunk),
        frozenset(sunk | crossing),
        frozenset(str(stream.operator) for stream in crossing),
    )


class _Run:
    """A run under way: which outboxes there are, and what is in them."""

    def __init__(
        self, application: Application, spark: SparkSession, checkpoint: str, setting: Setting
    ) -> None:
        self._application, self._spark = application, spark
        self._checkpoint, self._setting = checkpoint.rstrip("/"), setting
        self._outputs: dict[str, Mapping[Stream, pa.Schema]] = {}
        self._groups: dict[str, tuple[int, ...]] = {}

    def finish(self, node: str, parts: tuple[Part, ...], raw: Mapping[str, DataFrame]) -> None:
        """Run the query of a node until there is nothing left to read."""
        read = [stream for part in parts for stream in part.external]
        sources = [self._application.sources[s.name] for s in read if s.operator is None]
        ends = _Ends(self._spark, f"{self._checkpoint}/{node}/ends", sources)
        channels = {stream: self._channel(stream, raw, ends) for stream in read}
        fused = tuple(build_part(part, channels, self._setting) for part in parts)
        query, self._outputs[node] = node_query(self._spark, fused, channels, self._setting)
        for part in parts:
            for spec in part.operators:
                self._groups[spec.name] = tuple(part.groups)
        for _ in ends.rounds():
            self._drain(node, query)

    def _channel(self, stream: Stream, raw: Mapping[str, DataFrame], ends: "_Ends") -> Channel:
        if stream.operator is None:
            source = self._application.sources[stream.name]
            one, events = prepared_source(source, raw[stream.name])
            return Channel(one, events, end_marks(ends.stream(), stream.name), (0,))
        outbox = self._outbox(stream, streaming=True)
        one, schema = outside_input(stream, self._schema(stream))
        return Channel(
            one,
            events_of(outbox, stream, schema),
            frontiers_of(outbox, stream.operator),
            self._groups[stream.operator],
        )

    def _drain(self, node: str, query: DataFrame) -> None:
        writer = (
            query.writeStream.format("parquet")
            .partitionBy(OUTPUT)
            .option("checkpointLocation", f"{self._checkpoint}/{node}/query")
            .trigger(availableNow=True)
        )
        try:
            writer.start(f"{self._checkpoint}/{node}/outbox").awaitTermination()
        except StreamingQueryException as error:
            raise _explained(error) from error

    def _node(self, stream: Stream) -> str:
        return self._application.operators[str(stream.operator)].node

    def _schema(self, stream: Stream) -> pa.Schema:
        return self._outputs[self._node(stream)][stream]

    def _outbox(self, stream: Stream, *, streaming: bool) -> DataFrame:
        node = self._node(stream)
        root = f"{self._checkpoint}/{node}/outbox"
        return read_outbox(self._spark, root, self._outputs[node], streaming=streaming)

    def table(self, stream: Stream) -> DataFrame:
        """Give all complex events of a stream."""
        return events_of(self._outbox(stream, streaming=False), stream, self._schema(stream))


class _Ends:
    """Which sources of a node are at their end: a folder that its query reads beside them."""

    def __init__(self, spark: SparkSession, folder: str, sources: list[Source]) -> None:
        self._spark, self._folder, self._sources = spark, folder, sources
        if sources:
            self._write([], "ignore")

    def stream(self) -> DataFrame:
        """Read the ends as they come to be known."""
        return self._spark.readStream.schema(_ENDS).json(self._folder)

    def rounds(self) -> Iterator[None]:
        """Have the query run until all is read, and then, if need be, once more with the end.

        What is read in a single micro-batch may have its end in the same one.
        """
        if self._sources and not self._known():
            if not all(map(_in_one_batch, self._sources)):
                yield
            self._write([(source.name,) for source in self._sources], "append")
        yield

    def _known(self) -> bool:
        return not self._spark.read.schema(_ENDS).json(self._folder).isEmpty()

    def _write(self, rows: list[tuple[str]], mode: str) -> None:
        frame = self._spark.createDataFrame(rows, _ENDS)
        frame.coalesce(1).write.mode(mode).json(self._folder)


def _in_one_batch(source: Source) -> bool:
    """Say whether a source gives all that it has at once: nothing limits what is read."""
    limits = [name for name in source.options if name.lower().startswith("max")]
    return source.path is not None and not limits


_ERRORS: Mapping[str, type[ShedlightError]] = {
    REFUSED: InputError,
    f"{StateError.__module__}.{StateError.__name__}: ": StateError,
    f"{InputError.__module__}.{InputError.__name__}: ": InputError,
}
"""What the message of a query's failure says before what is wrong."""


def _explained(error: StreamingQueryException) -> Exception:
    """Find what a user can put right in the message of a query that failed."""
    for start, kind in _ERRORS.items():
        _, found, text = str(error).partition(start)
        if found:
            return kind(text.partition(" SQLSTATE")[0].split("\n\n")[0].strip())
    return error
