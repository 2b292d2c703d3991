"""Sources and sinks of Kafka in an application: columns, ids, and what is wrong with them."""

import pytest

from shedlight.errors import ApplicationError
from shedlight.graph import (
    Channels,
    RecordValue,
    Source,
    TimeUnit,
    explain,
    load_application,
)
from shedlight.graph.kafka import record_id, record_names
from shedlight.graph.topology import selected_key
from shedlight.language import parse_pattern
from shedlight.language.ast.data_type import DataType

AT = 'kafka.bootstrap.servers: "127.0.0.1:9092"'
SOURCE = f"""format: kafka
    options: {{{AT}, subscribe: payments}}
    value: {{format: json, schema: {{card: bigint, at: bigint, amount: double}}}}
    time: at
    time_unit: ms"""
SINK = f"format: kafka, options: {{{AT}, topic: alerts}}"
TEXT = f"""
name: kafka
sources:
  payments:
    {SOURCE}
nodes: {{n: {{}}}}
operators:
  w:
    node: n
    input: [payments]
    patterns:
      P: SELECT a.card WHERE SEQ(a.amount < 1, b.amount > 9) WITHIN 1 min PARTITION BY card
sinks:
  alerts: {{input: w.P, {SINK}}}
"""


def _edited(*edits):
    text = TEXT
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


def _refused(*edits):
    with pytest.raises(ApplicationError) as error:
        load_application(_edited(*edits))
    return str(error.value)


def test_a_source_of_kafka_has_the_fields_of_the_value_and_those_of_the_record():
    """It is identified by where the record is, and its time is a column like any other."""
    source = load_application(TEXT).application.sources["payments"]

    assert source.id == ("topic", "partition", "offset")
    assert source.time_unit is TimeUnit.MILLISECONDS
    assert source.value == RecordValue(
        format="json",
        schema={
            "card": DataType.BIGINT,
            "at": DataType.BIGINT,
            "amount": DataType.DOUBLE,
        },
    )
    assert source.schema == {
        "card": DataType.BIGINT,
        "at": DataType.BIGINT,
        "amount": DataType.DOUBLE,
        "key": DataType.STRING,
        "topic": DataType.STRING,
        "partition": DataType.BIGINT,
        "offset": DataType.BIGINT,
        "timestamp": DataType.TIMESTAMP,
        "headers": DataType.STRING,
    }


def test_a_field_of_the_value_keeps_its_name():
    """What the record has of that name begins with `kafka_`; case makes no difference."""
    value = RecordValue(
        format="json", schema={"Offset": DataType.BIGINT, "key": DataType.STRING}
    )

    assert record_names(value) == {
        "key": "kafka_key",
        "topic": "topic",
        "partition": "partition",
        "offset": "kafka_offset",
        "timestamp": "timestamp",
        "headers": "headers",
    }
    assert record_id(value) == ("topic", "partition", "kafka_offset")


def test_names_are_checked_before_anything_is_read():
    """The fields of the value are all that there is besides those of the record."""
    assert "unknown column 'att'" in _refused(("time: at\n", "time: att\n"))
    edits = (("time: at\n    time_unit: ms", "time: timestamp\n    id: [card, timestamp]"),)
    assert load_application(_edited(*edits)).application.sources["payments"].time == "timestamp"


VALUE = "value: {format: json, schema: {card: bigint, at: bigint, amount: double}}"
PROBLEMS = f"""
{AT}, subscribe => subscribe
=> line 4: sources.payments has no option 'kafka.bootstrap.servers': where the brokers are

, subscribe: payments =>
=> line 4: sources.payments has no option 'subscribe': the topics to read

subscribe: payments => subscribe: payments, assign: x
=> line 4: sources.payments has the options subscribe and assign; leave all but one out

, topic: alerts =>
=> line 18: sinks.alerts has no option 'topic': the topic to write to

input: w.P => input: w.P, path: alerts
=> line 18: sinks.alerts has a 'path', and Kafka has none; name the topic in `options`

{{format: json, => {{format: avro,
=> line 7: sources.payments.value.format is avro, which is not read; have the values written

{{format: json, => {{format: xml,
=> line 7: sources.payments.value.format must be json or csv, got 'xml'

{VALUE} => value: {{format: json}}
=> line 7: sources.payments.value has no 'schema', which it needs: the fields of a value

{VALUE} => {VALUE.removeprefix("value: {format: json, ")[:-1]}
=> line 7: sources.payments.schema does not say how the values of Kafka's records are written;

value: {{format: => value: {{formt:
=> line 7: sources.payments.value has no setting 'formt'; known: format, options, schema;

format: kafka\n    options => format: parquet\n    path: data\n    options
=> line 4: sources.payments has no 'id', which it needs: the columns that identify an event

format: kafka\n    options => format: parquet\n    path: data\n    id: card\n    options
=> line 9: sources.payments.value is for Kafka's records, and the format is parquet; write the
"""


@pytest.mark.parametrize("case", PROBLEMS.strip().split("\n\n"))
def test_what_is_wrong_is_said_with_its_place(case):
    """Where, what, and what to do; on the left of a case is what is edited in the file."""
    edit, message = case.replace("\\n", "\n").split("\n=> ")
    old, new = edit.split(" =>")
    assert _refused((old, new.strip())).startswith(message)


def test_a_source_in_python_says_the_same():
    """Its schema and its id come from the value."""
    value = RecordValue(format="csv", schema={"n": DataType.BIGINT})
    source = Source(name="s", format="kafka", time="timestamp", value=value)
    assert source.id == ("topic", "partition", "offset")
    assert list(source.schema or ()) == ["n", *record_names(value).values()]
    with pytest.raises(ValueError, match="has a value, but is not of Kafka"):
        Source(name="s", format="json", time="n", id=("n",), value=value)
    with pytest.raises(ValueError, match="the format of a value is json or csv, got 'avro'"):
        RecordValue(format="avro", schema={"n": DataType.BIGINT})
    with pytest.raises(ValueError, match="is empty"):
        RecordValue(format="json", schema={})


@pytest.mark.parametrize(
    ("select", "key"),
    [
        ("SELECT a.x, b.card", ("card",)),
        ("SELECT b.card AS k", ("k",)),
        ("SELECT a.x", ()),
        ("SELECT MAX(b.card) AS card", ()),
    ],
)
def test_the_key_of_a_complex_event_is_the_partition_key_if_it_is_selected(select, key):
    """Under whatever name; a number that was made of it is none."""
    text = f"{select} WHERE SEQ(a.x = 1, b.x = 2) WITHIN 1 s PARTITION BY card"
    assert selected_key(parse_pattern(text).pattern) == key


def test_without_a_partition_there_is_no_key():
    """Also where all columns of each event are given."""
    text = "SELECT a.card WHERE SEQ(a.x = 1, b.x = 2) WITHIN 1 s"
    assert selected_key(parse_pattern(text).pattern) == ()
    text = "SELECT EACH * WHERE SEQ(a.x = 1, b.x = 2) WITHIN 1 s PARTITION BY card, zone"
    assert selected_key(parse_pattern(text).pattern) == ("card", "zone")


CHANNELS = f"\nchannels: {{format: kafka, prefix: team.a, options: {{{AT}}}}}\n"


def test_channels_are_between_nodes():
    """Their topics begin with a prefix of one's own, or with ours."""
    channels = load_application(TEXT + CHANNELS).application.channels
    assert channels == Channels(
        options={"kafka.bootstrap.servers": "127.0.0.1:9092"}, prefix="team.a"
    )
    without = CHANNELS.replace("prefix: team.a, ", "")
    ours = load_application(TEXT + without).application.channels
    assert ours is not None
    assert ours.prefix == "shedlight"
    assert load_application(TEXT).application.channels is None


def test_channels_are_explained():
    """Only where they are: an option may be a password."""
    text = explain(load_application(TEXT + CHANNELS).application)
    assert "  channels between nodes: kafka, topics team.a.*\n" in text
    assert "9092" not in text


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (AT, "", "channels has no option 'kafka.bootstrap.servers': where the brokers are"),
        (
            AT,
            f"{AT}, topic: x",
            "channels has the option 'topic', and topics have names of ours",
        ),
        ("format: kafka", "format: parquet", "channels.format must be kafka, got 'parquet'"),
        ("team.a", "a/b", "channels.prefix has 'a/b', with which no topic can begin"),
    ],
)
def test_what_is_wrong_with_channels(old, new, problem):
    """Each with its line."""
    with pytest.raises(ApplicationError) as error:
        load_application(TEXT + CHANNELS.replace(old, new))
    assert str(error.value).startswith(f"line {TEXT.count(chr(10)) + 2}: {problem}")
