"""Tables as few bytes are read as they were, whatever is in them."""

from datetime import timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.spark.codec.decode import decode_table, field_at, plain_bytes
from shedlight.engines.spark.codec.encode import encode_table

NUMBERS = st.one_of(
    st.integers(0, 3),
    st.integers(-40_000, 40_000),
    st.integers(-(1 << 63), (1 << 63) - 1),
)
TEXTS = st.one_of(
    st.just("Q11"),
    st.text(max_size=3),
    st.integers(0, (1 << 128) - 1).map("{:032x}".format),
    st.just("0123456789ABCDEF" * 2),
)
LEAVES = [
    (pa.int64(), NUMBERS),
    (pa.string(), TEXTS),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.binary(), st.binary(max_size=4)),
    (pa.null(), st.none()),
    (pa.int16(), st.integers(-9, 9)),
    (pa.decimal128(10, 2), st.integers(-999, 999).map(lambda n: Decimal(n) / 100)),
    (pa.date32(), st.dates()),
    (pa.duration("us"), st.integers(-9, 9).map(lambda n: timedelta(microseconds=n))),
    (pa.map_(pa.string(), pa.int32()), st.just([("k", 1), ("l", None)])),
]


@st.composite
def _types(draw, depth=2):
    """Draw a type with values of it."""
    shape = draw(st.sampled_from(["leaf", "leaf", "struct", "list"] if depth else ["leaf"]))
    if shape == "leaf":
        arrow_type, values = draw(st.sampled_from(LEAVES))
        return arrow_type, st.none() | values if draw(st.booleans()) else values
    if shape == "list":
        arrow_type, values = draw(_types(depth=depth - 1))
        field = draw(st.sampled_from(["item", "element"]))
        return pa.list_(pa.field(field, arrow_type)), st.none() | st.lists(values, max_size=3)
    names = draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3))
    inner = {name: draw(_types(depth=depth - 1)) for name in names}
    arrow_type = pa.struct([pa.field(name, one[0]) for name, one in inner.items()])
    return arrow_type, st.none() | st.fixed_dictionaries(
        {n: one[1] for n, one in inner.items()}
    )


@st.composite
def _tables(draw, rows=None):
    size = draw(st.integers(0, 12)) if rows is None else rows
    columns = {}
    for name in draw(st.lists(st.sampled_from("uvwx"), unique=True, min_size=1)):
        arrow_type, values = draw(_types())
        listed = draw(st.lists(values, min_size=size, max_size=size))
        columns[name] = pa.array(listed, arrow_type)
    return pa.table(columns)


@settings(max_examples=150)
@given(_tables(), st.data())
def test_a_table_is_read_as_it_was_written(table, data):
    """A slice of one, too, and one of several chunks."""
    start = data.draw(st.integers(0, len(table)))
    part = table.slice(start, data.draw(st.integers(0, len(table))))
    both = pa.concat_tables([part, table, part.slice(0, 0)])
    for one in (table, part, both):
        assert decode_table(encode_table(one)).equals(one, check_metadata=True)
        assert decode_table(plain_bytes(one)).equals(one)


@settings(max_examples=100)
@given(st.data())
def test_rows_of_referenced_tables_are_whole_events(data):
    """Each row that is needed is written once; one that is -1 is null."""
    referenced = [data.draw(_tables(rows=data.draw(st.integers(1, 8)))) for _ in range(2)]
    size = data.draw(st.integers(1, 10))

    def rows_of_table(number):
        rows = st.integers(-1, len(referenced[number]) - 1)
        drawn = data.draw(st.lists(rows, min_size=size, max_size=size))
        return np.array(drawn, np.int64)

    one, other, inner = rows_of_table(0), rows_of_table(1), rows_of_table(0)
    there = pa.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    numbers = pa.array(range(size))
    struct = pa.StructArray.from_arrays(
        [numbers, numbers], ["x", "event"], mask=pa.array([not v for v in there.to_pylist()])
    )
    table = pa.table({"n": numbers, "a": numbers, "b": numbers, "s": struct})
    rows = {("a",): (0, one), ("b",): (1, other), ("s", "event"): (0, inner)}
    found = decode_table(encode_table(table, rows, referenced)).to_pylist()

    listed = [one_table.to_pylist() for one_table in referenced]

    def event(number, place):
        return listed[number][place] if place >= 0 else None

    assert found == [
        {
            "n": i,
            "a": event(0, one[i]),
            "b": event(1, other[i]),
            "s": {"x": i, "event": event(0, inner[i])} if there[i].as_py() else None,
        }
        for i in range(size)
    ]


def test_few_rows_far_apart_are_found():
    """They are sorted, where a flag for each row between them would be long."""
    referenced = pa.table({"x": pa.array(range(1_000_000))})
    rows_of_table = np.array([999_999, 3, -1, 3], np.int64)
    table = pa.table({"a": pa.array(range(4))})
    data = encode_table(table, {("a",): (0, rows_of_table)}, [referenced])
    assert decode_table(data)["a"].to_pylist() == [{"x": 999_999}, {"x": 3}, None, {"x": 3}]
    assert len(data) < 2_000


def test_what_complex_events_are_made_of_takes_few_bytes():
    """Ids half, numbers what they need, a name next to nothing."""
    size = 1_000
    ids = [f"{i * 0x9E3779B97F4A7C15 % (1 << 128):032x}" for i in range(size)]
    times = [10**15 + 7 * i for i in range(size)]
    table = pa.table({"source": ["Q11"] * size, "time": times, "id": ids})
    empty = len(encode_table(table.slice(0, 0)))
    assert len(encode_table(table)) - empty < size * (2 + 16 + 1)


def test_texts_and_decimals_are_compressed():
    """They have no form of their own."""
    texts = [f"computer {i % 7} of rack {i % 3}" for i in range(1_000)]
    for table in (
        pa.table({"t": texts}),
        pa.table({"x": [0.5 * (i % 9) for i in range(1_000)]}),
    ):
        assert len(encode_table(table)) < len(plain_bytes(table)) / 2


def test_a_field_of_nothing_is_null():
    """What is inside a struct that is null is not looked at."""
    inner = pa.StructArray.from_arrays([pa.array([1, 2])], ["x"], mask=pa.array([True, False]))
    assert field_at(pa.table({"s": inner}), ("s", "x")).to_pylist() == [None, 2]


def test_an_unknown_form_is_no_table():
    """Bytes of a later version, say."""
    data = encode_table(pa.table({"x": [1, 2]})).to_pybytes().replace(b'"narrow"', b'"narrew"')
    with pytest.raises(ValueError, match="no form of a column: narrew"):
        decode_table(data)


def test_what_is_never_null_stays_so():
    """A schema says that of columns and of fields; sinks hold Spark to it."""
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("t", pa.string())])
    schema = pa.schema(
        [
            pa.field("source", pa.string(), nullable=False),
            pa.field("s", inner, nullable=False, metadata={"a": "b"}),
        ],
        metadata={"who": "me"},
    )
    rows = [{"source": "Q", "s": {"x": 1, "t": "a"}}, {"source": "Q", "s": {"x": 2, "t": "a"}}]
    table = pa.Table.from_pylist(rows, schema)
    assert decode_table(encode_table(table)).equals(table, check_metadata=True)
