"""The rows of a DataFrame as events: the columns that patterns need, a time, an id, a shard.

Nothing here depends on the time zone of the session. All of it is plain DataFrame API, so that
it works on Spark Connect too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql import types as spark_types

from shedlight.engines.spark.find.question import Question
from shedlight.engines.spark.source.carried import arrow_field
from shedlight.engines.spark.source.event_time_sql import event_time_sql
from shedlight.engines.spark.support.spark_errors import MALFORMED
from shedlight.engines.tables import EVENT_TIME
from shedlight.errors import InputError, known_names
from shedlight.graph import TimeUnit
from shedlight.graph.function_columns import called_functions
from shedlight.language import DataType, Pattern, Schema
from shedlight.language.ast.expression import Aggregate, Attribute, UserCall, WholeEvent, walk
from shedlight.language.ast.pattern import expressions
from shedlight.language.eval.spark_sql import quote_name, quote_text
from shedlight.matching.operators.cep_operator import schema_of
from shedlight.matching.operators.reorder import FOREVER, StreamInput

HASH, COPY = "#hash", "#copy"
"""What tells events without an id apart: a hash of their columns, and among equals a number."""

_IDS = frozenset({DataType.BIGINT, DataType.STRING, DataType.TIMESTAMP, DataType.BOOLEAN})
_NO_HASH = frozenset({"TimeType", "GeographyType", "GeometryType"})
"""Types of later versions of Spark, which it cannot hash."""
_WITHOUT_ZONE = (spark_types.TimestampNTZType, spark_types.DateType)


@dataclass(frozen=True, slots=True, eq=False)
class FrameColumns:
    """The columns of a DataFrame."""

    fields: Mapping[str, spark_types.StructField]  # by name
    arrow: Mapping[str, pa.Field]  # as Python gets them; without those that cannot be carried

    @property
    def schema(self) -> Schema:
        """What patterns may name; what cannot be carried is refused by its type."""
        others = {
            name: field
            for name, field in self.fields.items()
            if name not in self.arrow or type(field.dataType).__name__ in _NO_HASH
        }
        known = [field for name, field in self.arrow.items() if name not in others]
        opaque = dict.fromkeys(_paths(others.values()), DataType.OTHER)
        return {**opaque, **schema_of(pa.schema(known))}


def _paths(fields: Iterable[spark_types.StructField], prefix: str = "") -> Iterator[str]:
    """Name columns and, of structs, their fields."""
    for field in fields:
        yield prefix + field.name
        if isinstance(field.dataType, spark_types.StructType):
            yield from _paths(field.dataType, f"{prefix}{field.name}.")


@dataclass(frozen=True, slots=True, eq=False)
class FrameEvents:
    """The rows of a DataFrame as events."""

    frame: DataFrame  # what patterns need of them, with a time and perhaps a hash
    stream: StreamInput  # their id and time columns
    schema: pa.Schema  # the columns of the frame in Python, with what is added there
    times: pa.DataType  # of the times of results: those without a zone have none either


def read_columns(question: Question, frame: DataFrame) -> FrameColumns:
    """Check that the columns of time and id are there and can be such."""
    fields = {field.name: field for field in frame.schema}
    for name in (question.time, *question.ids):
        if name not in fields:
            raise InputError(
                f"the DataFrame has no column {name!r}; {known_names(name, fields)}"
            )
    carried = {name: arrow_field(field) for name, field in fields.items()}
    columns = FrameColumns(fields, {name: field for name, field in carried.items() if field})
    schema = columns.schema
    for name in question.ids:
        if schema.get(name) not in _IDS:
            raise InputError(
                f"the id column {name!r} is {_type_name(fields[name])}; ids are whole numbers, "
                "text, true or false, or timestamps: cast it"
            )
    micros_sql(frame, question.time, question.unit)
    return columns


def keep_needed(
    question: Question,
    frame: DataFrame,
    columns: FrameColumns,
    patterns: Mapping[str, Pattern],
    calls: Mapping[str, UserCall],
) -> DataFrame:
    """Leave out what neither patterns nor the functions that they call need.

    Where Spark has no functions of Arrow whole rows go to Python to compute one.
    """
    arguments = (
        node for call in calls.values() for part in call.arguments for node in walk(part)
    )
    taken = {node.path[0] for node in arguments if isinstance(node, Attribute)}
    needed = {*_needed(columns, patterns.values(), calls.keys()), *taken}
    needed |= {question.time, *question.ids}
    names = [name for name in columns.fields if name in needed]
    _check_names(frame, names)
    return frame.select(*(F.col(quote_name(name)) for name in names))


def prepare_events(
    question: Question, frame: DataFrame, columns: FrameColumns, patterns: Mapping[str, Pattern]
) -> FrameEvents:
    """Leave out what no pattern needs, and add the time, and a hash if there is no id."""
    computed = called_functions(patterns.values()).keys()
    needed = _needed(columns, patterns.values(), computed)
    names = [name for name in columns.fields if name in {*needed, *question.ids}]
    _check_names(frame, [name for name in (*names, question.time) if name not in computed])
    time = columns.fields[question.time]
    micros = _checked_sql(question, micros_sql(frame, question.time, question.unit))
    added = {EVENT_TIME: F.expr(micros)}
    carried = [columns.arrow[name] for name in names]
    extra = [pa.field(EVENT_TIME, pa.int64())]
    ids = question.ids
    if not ids:
        _check_hashes(columns, names)
        added[HASH] = F.expr(_hash_sql([columns.fields[name] for name in names]))
        extra += [pa.field(HASH, pa.int64()), pa.field(COPY, pa.int64())]
        ids = (EVENT_TIME, HASH, COPY)
    own = [F.col(quote_name(name)) for name in names]
    has_time = question.time in question.ids or not question.ids
    without_zone = isinstance(time.dataType, _WITHOUT_ZONE)
    return FrameEvents(
        frame.select(*own, *(column.alias(name) for name, column in added.items())),
        StreamInput("the DataFrame", ids, EVENT_TIME, question.lateness, has_time),
        pa.schema([*carried, *extra]),
        pa.timestamp("us", tz=None if without_zone else "UTC"),
    )


def _needed(
    columns: FrameColumns, patterns: Iterable[Pattern], computed: AbstractSet[str]
) -> set[str]:
    """List the columns that patterns look at or carry; what was computed is in no whole event.

    Raises:
        InputError: One of them is of a type that cannot be carried.
    """
    nodes = [node for each in patterns for part in expressions(each) for node in walk(part)]
    named = {
        node.path[0] for node in nodes if isinstance(node, Attribute | Aggregate) and node.path
    }
    is_all = any(not pattern.select for pattern in patterns)
    if is_all or any(isinstance(node, WholeEvent) for node in nodes):
        named |= columns.fields.keys() - computed
    for name in named - computed:
        if name not in columns.arrow:
            raise InputError(
                f"the column {name!r} is {_type_name(columns.fields[name])}, which cannot be "
                f"carried to Python and back; cast it, leave it out with `.drop({name!r})`, or "
                "select the columns that are needed by name"
            )
    return named


def _type_name(field: spark_types.StructField) -> str:
    return field.dataType.simpleString()


def _check_names(frame: DataFrame, names: Sequence[str]) -> None:
    """Refuse columns that have one name, or are called as our own."""
    folded = [name.casefold() for name in frame.columns]
    for name in names:
        if folded.count(name.casefold()) > 1:
            raise InputError(
                f"the DataFrame has two columns named {name!r}, and case makes no difference; "
                "give one of them another name"
            )
        if name.startswith("#"):
            raise InputError(
                f"the DataFrame has a column {name!r}, and names with a # are for columns of "
                "shedlight; give it another name"
            )


# Times and hashes, in SQL


def micros_sql(frame: DataFrame, name: str, unit: TimeUnit | None) -> str:
    """Write a time in microseconds since 1970 in UTC, whatever the session's time zone.

    A date, a timestamp or a text without a zone is one in UTC.

    Raises:
        InputError: It can be no time, or it is a number of nobody knows what.
    """
    field = frame.schema[name]
    if isinstance(field.dataType, spark_types.NumericType) and unit is None:
        raise InputError(
            f"the time column {name!r} is {_type_name(field)}; say what it counts since "
            "1970 with `time_unit`: 's', 'ms', 'us' or 'ns'"
        )
    micros = event_time_sql(frame, name, str(unit or TimeUnit.MICROSECONDS))
    if micros is None:
        raise InputError(
            f"the time column {name!r} is {_type_name(field)}; a timestamp, a date, text in "
            "ISO-8601 or a number of a stated unit is needed"
        )
    return micros


def _checked_sql(question: Question, micros: str) -> str:
    """Write an error where an event has no time, or none that is one, or no id."""
    problems = [
        *((f"{quote_name(name)} IS NULL", f"{name!r} is null") for name in question.ids),
        (f"{quote_name(question.time)} IS NULL", f"{question.time!r} is null"),
        (
            f"{micros} IS NULL OR {micros} <= -{FOREVER}L OR {micros} >= {FOREVER}L",
            f"{question.time!r} cannot be read as a time, or is too far away",
        ),
    ]
    whens = []
    for test, problem in problems:
        text = quote_text(
            f"{MALFORMED}{problem}; every event needs a time and, where one is named, an id: "
            "fill it in, name another column, or leave such rows out with .where(...)"
        )
        whens.append(f"WHEN {test} THEN CAST(raise_error({text}) AS BIGINT)")
    return f"CASE {' '.join(whens)} ELSE {micros} END"


def _hash_sql(fields: Sequence[spark_types.StructField]) -> str:
    """Write a hash of columns; what Spark does not hash, as JSON."""
    terms = [
        quote_name(field.name)
        if _is_hashable(field.dataType)
        else f"to_json(struct({quote_name(field.name)}))"
        for field in fields
    ]
    return f"xxhash64({', '.join(terms or ['0L'])})"


def _check_hashes(columns: FrameColumns, names: Sequence[str]) -> None:
    for name in names:
        if _has_no_hash(columns.fields[name].dataType):
            raise InputError(
                "without an id, events are identified by a hash of their columns, and Spark "
                f"has none of {name!r}, a {_type_name(columns.fields[name])}: name an `id`, or "
                f"`.drop({name!r})`"
            )


def _has_no_hash(data_type: spark_types.DataType) -> bool:
    """Say whether a type is in it for which Spark has neither a hash nor JSON."""
    if isinstance(data_type, spark_types.StructType):
        return any(_has_no_hash(field.dataType) for field in data_type)
    if isinstance(data_type, spark_types.ArrayType):
        return _has_no_hash(data_type.elementType)
    if isinstance(data_type, spark_types.MapType):
        return any(map(_has_no_hash, (data_type.keyType, data_type.valueType)))
    return type(data_type).__name__ in _NO_HASH


def _is_hashable(data_type: spark_types.DataType) -> bool:
    if isinstance(data_type, spark_types.StructType):
        return all(_is_hashable(field.dataType) for field in data_type)
    if isinstance(data_type, spark_types.ArrayType):
        return _is_hashable(data_type.elementType)
    return not isinstance(data_type, spark_types.MapType)


def key_hash_sql(columns: FrameColumns, key: Sequence[Attribute]) -> str:
    """Write a hash of a key that is the same where patterns find keys the same."""
    terms = []
    for attribute in key:
        text = ".".join(map(quote_name, attribute.path))
        is_double = columns.schema[attribute.column] is DataType.DOUBLE
        terms.append(f"(CAST({text} AS DOUBLE) + 0.0D)" if is_double else text)
    return f"xxhash64({', '.join(terms)})"
