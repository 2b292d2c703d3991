"""Records of Kafka: how their values are written, and the columns that a record has.

A record has a key, a topic, a partition, an offset, a timestamp and headers besides its value.
They are columns under the names that Spark gives them; where the value has a field of such a
name, that of the record begins with `kafka_`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shedlight.errors import join_words
from shedlight.language.ast.data_type import DataType, Schema

KAFKA = "kafka"  # the format
SERVERS = "kafka.bootstrap.servers"  # the option that says where brokers are
TOPIC = "topic"  # the option that says where records are written to
SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")
"""The options that say which topics are read; a source has one of them."""
VALUE_FORMATS = ("json", "csv")

_RECORD: Schema = {
    "key": DataType.STRING,
    "topic": DataType.STRING,
    "partition": DataType.BIGINT,
    "offset": DataType.BIGINT,
    "timestamp": DataType.TIMESTAMP,
    "headers": DataType.STRING,
}
_ID = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordValue:
    """How the values of Kafka's records are written.

    Attributes:
        format: json, or csv without a header.
        schema: The fields of a value; a field of a struct as `struct.field`.
        options: What else Spark's reader of that format takes.
    """

    format: str
    schema: Schema
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.format not in VALUE_FORMATS:
            raise ValueError(f"the format of a value is json or csv, got {self.format!r}")
        if not self.schema:
            raise ValueError("the schema of a value is empty; name its fields")


def record_names(value: RecordValue | None) -> Mapping[str, str]:
    """Name the columns of a record, by the names that Spark gives them."""
    taken = {name.casefold() for name in value.schema} if value else set()
    return {name: f"kafka_{name}" if name in taken else name for name in _RECORD}


def record_id(value: RecordValue | None) -> tuple[str, ...]:
    """Name the columns that identify a record: its topic, its partition, its offset."""
    names = record_names(value)
    return tuple(names[name] for name in _ID)


def record_schema(value: RecordValue) -> Schema:
    """List the columns of a source: the fields of the value, then those of the record."""
    names = record_names(value)
    return {**value.schema, **{names[name]: of for name, of in _RECORD.items()}}


def given_subscriptions(options: Mapping[str, str]) -> Mapping[str, str]:
    """Find which topics are read: their names, by the option that has them."""
    given = {name.lower(): text for name, text in options.items()}
    return {n: given[n.lower()] for n in SUBSCRIPTIONS if n.lower() in given}


def location_problems(
    path: str | None, options: Mapping[str, str], *, reads: bool
) -> Iterator[str]:
    """Say what is missing or too much of a place where records are read or written."""
    if path is not None:
        yield "has a 'path', and Kafka has none; name the topic in `options`"
    given = {name.lower() for name in options}
    if SERVERS not in given:
        yield f"has no option {SERVERS!r}: where the brokers are, such as localhost:9092"
    if not reads and TOPIC not in given:
        yield "has no option 'topic': the topic to write to"
    subscriptions = given_subscriptions(options)
    if reads and not subscriptions:
        yield "has no option 'subscribe': the topics to read, with commas between them"
    if reads and len(subscriptions) > 1:
        yield f"has the options {join_words(subscriptions, 'and')}; leave all but one out"
