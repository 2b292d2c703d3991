"""`shedlight.find`: patterns over a DataFrame, batch or streaming."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so

from shedlight.engines.spark.find import events as ev
from shedlight.engines.spark.find.chains import (
    KeyGroups,
    define_chains,
    group_by_key,
    output_columns,
)
from shedlight.engines.spark.find.partition import GROUP, PartitionStep, partition_function
from shedlight.engines.spark.find.question import Question, ask, check_patterns
from shedlight.engines.spark.find.relevant import relevant_sql
from shedlight.engines.spark.find.result import result_schema, spark_schema
from shedlight.engines.spark.find.shard_rows import FOUND, PACKED, packer, shard_column
from shedlight.engines.spark.find.shard_step import (
    STATE,
    ShardStep,
    shard_function,
    unpacker,
)
from shedlight.engines.spark.session.pyspark_version import check_pyspark
from shedlight.engines.spark.session.workers import check_workers
from shedlight.engines.spark.source.carried import with_plain_text
from shedlight.engines.spark.source.function_columns import with_function_columns
from shedlight.engines.spark.step.chain import ChainRuntime
from shedlight.engines.tables import EVENT_TIME
from shedlight.graph.function_columns import called_functions, without_functions
from shedlight.language import Pattern, UserFunctions
from shedlight.language.ast.expression import Attribute
from shedlight.language.eval.spark_sql import quote_name

SHARDS = 8
"""Into how many shards the keys of a stream are divided, if nobody says so."""

_KEY = "#key"
_PARTITIONS = "spark.sql.shuffle.partitions"
_CALLER = 3  # frames from a warning to the code that calls what `find` returns


def find(  # noqa: PLR0913  # as many as there are choices
    pattern: str | Pattern | Mapping[str, str | Pattern],
    *,
    time: str,
    id: str | Sequence[str] | None = None,  # noqa: A002  # what everybody calls it
    time_unit: str | None = None,
    lateness: str = "0 s",
    idle: str | None = None,
    shards: int = SHARDS,
    functions: UserFunctions | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """Find the matches of patterns in a DataFrame: give this to `DataFrame.transform`.

    The call is the same for both kinds of DataFrames. Of a batch DataFrame the result has
    exactly the matches that `shedlight match` finds in its rows in order of time: none is late.
    Of a streaming one it has those of the rows that the watermark has passed, if no event comes
    later than `lateness` behind the latest of its shard; it is written in append mode, and goes
    on from its checkpoint.

    A row of the result is a complex event: its `time` (a timestamp, when the match was
    complete), its `id` (the same whenever the same events match), and what the pattern selects.
    Columns of any type are carried.

    Args:
        pattern: What to look for: text, or made with the builder (`shedlight.language.dsl`);
            several by name, and then the result has a column `pattern`, and null in columns
            that a pattern does not select.
        time: The column of the time: a timestamp, a date, text in ISO-8601, or a number of the
            `time_unit`.
        id: The column or columns that identify an event: two rows with the same id are one
            event. Without it every row is an event, and rows of one time are in an order of
            their own; rows that a source delivers twice count twice.
        time_unit: What a time that is a number counts since 1970: "s", "ms", "us" or "ns".
        lateness: How far behind the latest time seen an event may be. Streaming only: in batch
            none is late.
        idle: After how long without an event the watermark of a shard goes on with the clock,
            so that its last events are matched and absences come. Streaming only, with a
            trigger of a second or more; not with `availableNow`, which would then never end.
        shards: Into how many shards the keys of PARTITION BY are divided. Streaming only; it is
            fixed by the checkpoint, and no more cores than that can work on a key.
        functions: Functions of your own that patterns may call by name, each for one event.

    Raises:
        LanguageError: A pattern is not understood, or does not fit the columns.
        InputError: A column is missing or of the wrong type, or columns clash.
        ShedlightError: PySpark is too old, or its workers run a Python without shedlight.

    Example:
        import shedlight as sl

        fraud = (
            "SELECT b.user, b.amount "
            "WHERE SEQ(a.kind = 'login failed' {3}, b.kind = 'transfer') "
            "WITHIN 10 min PARTITION BY user"
        )
        alerts = events.transform(sl.find(fraud, time="ts", id="event_id", lateness="5 s"))
    """
    check_pyspark()
    question = ask(
        pattern,
        time=time,
        ids=id,
        time_unit=time_unit,
        lateness=lateness,
        idle=idle,
        shards=shards,
        functions=functions,
    )

    def found_in(frame: DataFrame) -> DataFrame:
        check_workers(frame.sparkSession)
        frame = with_plain_text(frame)
        columns = ev.read_columns(question, frame)
        patterns = check_patterns(question, columns.schema, stacklevel=_CALLER)
        calls = called_functions(patterns.values())
        if calls:
            frame = ev.keep_needed(question, frame, columns, patterns, calls)
            frame = with_function_columns(frame, columns.schema, calls)
            columns = ev.read_columns(question, frame)
            patterns = {name: without_functions(p) for name, p in patterns.items()}
        events = ev.prepare_events(question, frame, columns, patterns)
        groups = group_by_key(patterns)
        if frame.isStreaming:
            return _find_in_stream(question, events, columns, groups)
        return _find_in_batch(question, events, columns, groups)

    return found_in


def _find_in_batch(
    question: Question, events: ev.FrameEvents, columns: ev.FrameColumns, groups: KeyGroups
) -> DataFrame:
    """Bring the rows of a key together, in order of time, and match each partition."""
    chains = define_chains(events.stream, events.schema, groups, question.shards)
    result = _result_columns(question, events, chains)
    patterns = tuple(of_key for _, of_key in groups)
    step = PartitionStep(events.stream, events.schema, patterns, result)
    frame = events.frame
    relevant = relevant_sql(columns.schema, [p for of_key in patterns for p in of_key.values()])
    if relevant is not None:  # the time is looked at all the same: without one it is an error
        frame = frame.where(f"{quote_name(EVENT_TIME)} IS NULL OR {relevant}")
    keys = [
        F.struct(F.lit(number).alias("group"), F.expr(_key_sql(columns, key)).alias("hash"))
        for number, (key, _) in enumerate(groups)
    ]
    frame = frame.withColumn(_KEY, F.explode(F.array(*keys)) if len(keys) > 1 else keys[0])
    is_keyed = any(key for key, _ in groups)
    key_column = F.col(quote_name(_KEY))
    spread = frame.repartition(key_column) if is_keyed else frame.repartition(1)
    ordered = spread.sortWithinPartitions(quote_name(EVENT_TIME))
    grouped = ordered.withColumn(GROUP, key_column["group"]).drop(_KEY)
    return grouped.mapInArrow(partition_function(step), spark_schema(result))


def _find_in_stream(
    question: Question, events: ev.FrameEvents, columns: ev.FrameColumns, groups: KeyGroups
) -> DataFrame:
    """Pack events by shard, advance the state of each shard, unpack what it found."""
    chains = define_chains(events.stream, events.schema, groups, question.shards)
    result = _result_columns(question, events, chains)
    shards = [chain.spec.placement.shards for chain in chains]
    _advise(events.frame.sparkSession.conf.get(_PARTITIONS), sum(map(len, shards)))
    frame = events.frame
    for number, ((key, _), of_key) in enumerate(zip(groups, shards, strict=True)):
        shard = f"CAST({of_key[0]} + pmod({_key_sql(columns, key)}, {len(of_key)}L) AS INT)"
        frame = frame.withColumn(shard_column(number), F.expr(shard))
    definitions = tuple(chain.definition for chain in chains)
    step = ShardStep(definitions, events.schema, question.idle)
    timeout = "NoTimeout" if question.idle is None else "ProcessingTimeTimeout"
    packed = frame.mapInArrow(packer(len(groups)), PACKED)
    found = packed.groupBy("shard").applyInPandasWithState(
        shard_function(step), FOUND, STATE, "append", timeout
    )
    return found.mapInArrow(unpacker(result), spark_schema(result))


def _result_columns(
    question: Question, events: ev.FrameEvents, chains: Sequence[ChainRuntime]
) -> pa.Schema:
    outputs = output_columns(chains)
    ordered = {name: outputs[name] for name in question.patterns}
    return result_schema(ordered, events.times, is_named=question.is_named)


def _key_sql(columns: ev.FrameColumns, key: tuple[Attribute, ...]) -> str:
    return ev.key_hash_sql(columns, key) if key else "0L"


def _advise(partitions: str | None, shards: int) -> None:
    """Say what would make a stream faster, once."""
    if partitions is not None and int(partitions) > 2 * shards:
        _warn_once(
            f"{_PARTITIONS} is {partitions}, and the state of each partition is committed in "
            f"every micro-batch, but only {shards} shards have one; it is faster with "
            f"spark.conf.set({_PARTITIONS!r}, {shards}) before a new query starts"
        )


@cache
def _warn_once(text: str) -> None:
    warnings.warn(text, stacklevel=_CALLER + 3)
