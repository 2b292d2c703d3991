"""What is late, what comes twice, and what is remembered for it."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.errors import InputError
from shedlight.matching.operators.reorder import (
    BEYOND,
    StreamInput,
    admit_arrivals,
    new_reorder_buffer,
)

SCHEMA = pa.schema({"id": pa.int64(), "at": pa.int64()})

events = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=12)


def _table(rows):
    return pa.table(
        {"id": [one[0] for one in rows], "at": [one[1] for one in rows]}, schema=SCHEMA
    )


def _outcome(inputs, batches):
    reorder_buffer, ready, late = new_reorder_buffer(SCHEMA, len(inputs)), [], []
    for batch in batches:
        arrivals = {number: _table(rows) for number, rows in enumerate(batch) if rows}
        reorder_buffer, table, left = admit_arrivals(reorder_buffer, inputs, arrivals, 15)
        ready += table.select(SCHEMA.names).to_pylist()
        late += left.to_pylist()
    return ready, late, reorder_buffer


@given(
    st.lists(st.tuples(events, events), max_size=5),
    st.booleans(),
    st.integers(0, 12),
)
def test_a_time_in_the_id_changes_only_what_is_remembered(batches, in_order, lateness):
    """A duplicate with another time has another id, and one with the same is late in time."""
    if in_order:
        batches = [
            tuple(sorted(rows, key=lambda one: one[1]) for rows in batch) for batch in batches
        ]
    undated, id_has_time = (
        [StreamInput(f"s{i}", ("id", "at"), "at", lateness, id_has_time=flag) for i in range(2)]
        for flag in (False, True)
    )
    ready, late, before = _outcome(undated, batches)
    same_ready, same_late, after = _outcome(id_has_time, batches)
    assert (ready, late) == (same_ready, same_late)
    assert before.late == after.late
    assert before.duplicates == after.duplicates
    assert before.watermark == after.watermark
    for one, other in zip(before.dedup, after.dedup, strict=True):
        assert (other.times >= other.watermark).all(), "nothing is remembered in vain"
        assert set(other.times) == set(one.times[one.times >= one.watermark])


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40), st.booleans()), max_size=10),
        max_size=5,
    ),
    st.integers(0, 12),
    st.booleans(),
    st.booleans(),
)
def test_events_from_the_future_are_late_and_change_nothing_else(
    batches, lateness, id_has_time, in_order
):
    """Wherever they come, and in whatever batches: no watermark, no other event, no id."""
    stream = StreamInput("s", ("id", "at"), "at", lateness, id_has_time=id_has_time)
    if in_order:
        batches = [sorted(batch, key=lambda one: one[1]) for batch in batches]
    with_future = [[(n, BEYOND if far else at) for n, at, far in batch] for batch in batches]
    without = [[(n, at) for n, at, far in batch if not far] for batch in batches]

    ready, late, after = _outcome([stream], [(batch,) for batch in with_future])
    same_ready, same_late, alone = _outcome([stream], [(batch,) for batch in without])

    future = sum(far for batch in batches for *_, far in batch)
    assert ready == same_ready
    assert [one for one in late if one["at"] != BEYOND] == same_late
    assert after.late[0] == alone.late[0] + future
    assert (after.watermark, after.duplicates) == (alone.watermark, alone.duplicates)
    assert sorted(after.dedup[0].times) == sorted(alone.dedup[0].times)


def test_little_is_remembered_of_a_long_stream_in_order():
    """However long the window is."""
    one = StreamInput("s", ("id", "at"), "at", 10, id_has_time=True)
    reorder_buffer = new_reorder_buffer(SCHEMA, 1)
    times = np.arange(100_000)
    table = pa.table({"id": times % 7, "at": times}, schema=SCHEMA)
    reorder_buffer, *_ = admit_arrivals(reorder_buffer, [one], {0: table}, 1 << 40)
    assert len(reorder_buffer.dedup[0].times) == 11


def test_an_id_that_is_null_is_refused_wherever_it_is():
    """Also among those that need not be remembered."""
    one = StreamInput("s", ("id", "at"), "at", 0, id_has_time=True)
    table = pa.table({"id": [1, None, 3], "at": [1, 2, 3]}, schema=SCHEMA)
    with pytest.raises(InputError, match="'id' is null in 1 of 3 events, first in event 2"):
        admit_arrivals(new_reorder_buffer(SCHEMA, 1), [one], {0: table}, 100)


@given(
    st.lists(st.tuples(events, events), max_size=4),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=4, max_size=4),
    st.sampled_from([None, 15]),
)
def test_what_inputs_are_told_to_be_counts_after_what_arrives(
    batches, watermarks, dedup_horizon
):
    """At once, it is as if it came when all has arrived."""
    inputs = [StreamInput(f"s{i}", ("id", "at"), "at") for i in range(2)]
    at_once = afterwards = new_reorder_buffer(SCHEMA, 2)
    for batch, awaited_watermarks in zip(batches, watermarks, strict=False):
        arrivals = {number: _table(rows) for number, rows in enumerate(batch) if rows}
        at_once, ready, late = admit_arrivals(
            at_once, inputs, arrivals, dedup_horizon, watermarks=awaited_watermarks
        )
        afterwards, first, first_late = admit_arrivals(
            afterwards, inputs, arrivals, dedup_horizon
        )
        afterwards, second, _ = admit_arrivals(
            afterwards, inputs, {}, dedup_horizon, watermarks=awaited_watermarks
        )
        parts = [part.select(SCHEMA.names).to_pylist() for part in (first, second)]
        assert ready.select(SCHEMA.names).to_pylist() == parts[0] + parts[1]
        assert late.to_pylist() == first_late.to_pylist()
        assert at_once.watermark == afterwards.watermark
        assert at_once.buffer.to_pylist() == afterwards.buffer.to_pylist()
        assert at_once.late == afterwards.late
        assert at_once.duplicates == afterwards.duplicates


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 25), st.integers(0, 40)), max_size=10), max_size=5
    ),
    st.integers(0, 12),
)
def test_numbers_that_rise_are_as_any_ids(batches, lateness):
    """Events that are numbered are not looked up one by one, and it makes no difference."""
    names = pa.schema({"id": pa.string(), "at": pa.int64()})
    numbered = new_reorder_buffer(SCHEMA, 1)
    named = new_reorder_buffer(names, 1)
    inputs = [StreamInput("s", ("id",), "at", lateness)]
    for batch in batches:
        rows = sorted(dict(batch).items())  # each number once, and they rise
        texts = [(f"{number:02}", at) for number, at in rows]
        arrivals = pa.table({"id": [n for n, _ in texts], "at": [t for _, t in texts]}, names)
        numbered, ready, late = admit_arrivals(numbered, inputs, {0: _table(rows)}, 15)
        named, expected, left = admit_arrivals(named, inputs, {0: arrivals}, 15)
        for mine, other in (
            (ready.select(SCHEMA.names), expected.select(names.names)),
            (late, left),
        ):
            ids = [f"{number:02}" for number in mine["id"].to_pylist()]
            assert ids == other["id"].to_pylist()
            assert mine["at"].to_pylist() == other["at"].to_pylist()
        assert (numbered.late, numbered.duplicates) == (named.late, named.duplicates)
        assert numbered.dedup[0].watermark == named.dedup[0].watermark
        assert numbered.dedup[0].times.tolist() == named.dedup[0].times.tolist()
