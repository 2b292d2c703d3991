"""Keys and bounds are the same however many rows are computed at a time."""

import math

import numpy as np
import pytest

from shedlight.language import parse_pattern
from shedlight.matching.kernel import index_keys
from tests.kernel import operator_for, table_of
from tests.reference import Event

STORED = 5
CONDITIONS = (
    "abs(b.y - a.y) < 0.01",
    "b.y > a.y * 1.02",
    "b.y - b.x < a.y",
    "b.x = a.key",
    "b.x + 3 >= a.x",
    "b.name > a.name",
    "b.name = a.name",
)
SPECIAL = (None, math.nan, math.inf, -math.inf, -0.0, 1e308, -1e308)


def _table(rows):
    rng = np.random.default_rng(3)
    numbers, values = rng.integers(-(2**63), 2**63 - 1, rows), rng.normal(size=rows)
    events = [
        Event(
            i,
            0,
            (i,),
            {
                "kind": 0,
                "x": None if i % 11 == 0 else int(numbers[i]) >> (i % 60),
                "y": SPECIAL[i // 3 % len(SPECIAL)] if i % 3 == 0 else float(values[i]),
                "key": i % 5,
                "name": f"a common start {i:03}"[: i % 19],
            },
        )
        for i in range(rows)
    ]
    return table_of(events)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("rows", [STORED, 13, 100])
def test_a_few_rows_at_a_time_give_the_same(condition, rows, monkeypatch):
    """Chunks that end anywhere, with a last one that is smaller, or with nothing new."""
    text = f"SELECT a.x WHERE SEQ(a.kind = 0, b.kind = 1) AND {condition} WITHIN 9 EVENTS"
    matcher = operator_for(parse_pattern(text).pattern).matchers[0]
    indexes = tuple(filter(None, matcher.indexes))
    whole = index_keys.compute_keys(indexes, _table(rows), STORED)
    monkeypatch.setattr(index_keys, "_CHUNK", 7)

    found = index_keys.compute_keys(indexes, _table(rows), STORED)

    assert len(indexes) == 1
    np.testing.assert_array_equal(found[:, index_keys.KEY], whole[:, index_keys.KEY])
    np.testing.assert_array_equal(found[:, :, STORED:], whole[:, :, STORED:])
