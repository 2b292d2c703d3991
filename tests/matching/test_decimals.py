"""Decimals are compared exactly: on one event, across events, and as keys."""

import re
from decimal import Context, Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.engines.tables import match_tables
from shedlight.errors import LanguageError
from shedlight.language import parse_pattern
from shedlight.language.eval.column import DECIMAL
from shedlight.language.eval.decimals import shortest_bytes, sortable_text, sortable_texts
from shedlight.matching.operators.cep_operator import schema_of
from shedlight.matching.operators.reorder import StreamInput

NEAR = [Decimal("123456789012345678.01"), Decimal("123456789012345678.02")]  # one double
DECIMALS = st.decimals(-(10**20) + 1, 10**20 - 1, places=18, allow_nan=False)


def events_found(condition, values, keys=""):
    """Match pairs of events with a condition, and list the numbers of their events."""
    table = pa.table(
        {
            "n": list(range(len(values))),
            "time": [n * 10**6 for n in range(len(values))],
            "m": pa.array(values, pa.decimal128(38, 9)),
            "i": list(range(len(values))),
        }
    )
    text = f"SELECT * WHERE SEQ(a.n >= 0, b.n >= 0) {condition} WITHIN 1 h {keys}"
    pattern = parse_pattern(text, schema_of(table.schema)).pattern
    result = match_tables([(StreamInput("s", ("n",), "time"), table)], {"P": pattern})
    return result.complex_events["P"]["events"].to_pylist()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("AND a.m = b.m", [[1, 2]]),
        ("AND a.m < b.m", [[0, 1]]),
        ("AND b.m > a.i", [[0, 1]]),
        ("AND a.m IN (b.m, 0.5)", [[1, 2]]),
        ("AND greatest(a.m, b.m) = a.m", [[1, 2]]),
        ("AND b.m - a.m > 0", []),  # as doubles they are one
    ],
)
def test_events_are_compared_by_their_decimals(condition, expected):
    """Two that are one double are two."""
    assert (
        events_found(condition, [NEAR[0], NEAR[1], NEAR[1]])[: len(expected) or None]
        == expected
    )


def test_decimals_of_many_partial_matches_are_compared():
    """So many that of other numbers they would be found by an index."""
    step = Decimal("1e-9")
    falling = [NEAR[0] - n * step for n in range(40)]
    found = events_found("AND b.m > a.m", [*falling, NEAR[0] + step, NEAR[0] - 38 * step])
    assert found == [[0, 40], [39, 41]]


def test_a_decimal_is_a_key():
    """Exactly."""
    assert events_found("", [NEAR[0], NEAR[1], NEAR[0], None, None], "PARTITION BY m") == [
        [0, 2],
        [3, 4],
    ]


@pytest.mark.parametrize(
    ("written", "is_met"), [("0.1", True), ("0.1000000001", False), ("7", False)]
)
def test_a_number_that_is_written_down_is_a_decimal_too(written, is_met):
    """What stands in the pattern, not the double nearest to it."""
    found = events_found(f"AND a.m = {written} AND b.m = {written}", [Decimal("0.1")] * 2)

    assert bool(found) is is_met


def test_decimals_of_several_events_are_not_mixed_with_doubles():
    """The message says what to do."""
    with pytest.raises(
        LanguageError, match=re.escape("use CAST(... AS double) on each decimal")
    ):
        events_found("AND coalesce(a.m, b.m) > a.i * 0.5", NEAR)


@given(st.lists(DECIMALS, min_size=1, max_size=8))
def test_texts_are_in_the_order_of_decimals(values):
    """By their bytes; one by one and as a column."""
    texts = sortable_texts(pa.array(values, DECIMAL)).to_pylist()

    assert texts == [sortable_text(value) for value in values]
    assert [texts.index(text) for text in sorted(texts)] == [
        values.index(value) for value in sorted(values)
    ]


@given(st.lists(DECIMALS | st.sampled_from([Decimal(0), Decimal(-1), Decimal(1)]), max_size=8))
def test_bytes_are_the_fewest_that_a_number_fits(values):
    """As Python's own whole numbers say."""
    offsets, data = shortest_bytes(pa.array(values, DECIMAL))

    for place, value in enumerate(values):
        whole = int(value.scaleb(18, Context(prec=60)))
        found = bytes(data[offsets[place] : offsets[place + 1]])
        assert int.from_bytes(found, "big", signed=True) == whole
        assert len(found) == (whole if whole >= 0 else ~whole).bit_length() // 8 + 1
