"""What Spark calls for partitions and shards finds what `shedlight match` finds."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.tables import EVENT_TIME
from shedlight.errors import StateError
from shedlight.language import parse_pattern
from shedlight.language.ast.pattern import Item
from tests import strategies
from tests.engines.spark.find.shards import Stream, expected, in_partition
from tests.kernel import table_of

END = 1_000_000
"""When an event of every key comes, so that the watermark of every shard passes the others."""

KEYS = [(key, kind) for key in (0, 1, None) for kind in (0, 1, 2, 3, 4, None)]

several_patterns = st.lists(strategies.patterns(), min_size=1, max_size=4)


def named(patterns):
    """Name patterns and their columns, so that none of these clash."""
    return {
        f"P{n}": replace(
            each, select=tuple(Item(i.expression, f"p{n}{i.name}") for i in each.select)
        )
        for n, each in enumerate(patterns)
    }


def events_of(drawn, last=()):
    """Put events of one input into columns, and number them as ids."""
    table = table_of(drawn).drop_columns(["id0", "id1"])
    closing = pa.table(
        {
            **{
                name: pa.nulls(len(last), table.schema.field(name).type)
                for name in ("x", "y", "name")
            },
            "key": pa.array([key for key, _ in last], pa.int64()),
            "kind": pa.array([kind for _, kind in last], pa.int64()),
            "at": pa.array([END] * len(last), pa.int64()),
        }
    ).select(table.column_names)
    table = pa.concat_tables([table, closing.cast(table.schema)])
    table = table.rename_columns([EVENT_TIME if n == "at" else n for n in table.column_names])
    return table.append_column("id", pa.array(range(len(table)), pa.int64()))


def shuffled(events, lateness, seed):
    """Put events into an order in which none is later than allowed."""
    jitter = np.random.default_rng(seed).integers(0, lateness + 1, len(events))
    order = np.argsort(events[EVENT_TIME].to_numpy() + jitter, kind="stable")
    return events.take(pa.array(order))


def check_partition(patterns, drawn, cuts):
    """Compare a partition with `match`."""
    patterns, events = named(patterns), events_of(drawn)
    assert in_partition(patterns, events, cuts) == expected(patterns, events)


def check_stream(patterns, drawn, cuts, lateness, shards, seed):
    """Compare a stream with `match`, on what the watermark has passed in the end."""
    patterns, events = named(patterns), events_of(drawn, KEYS)
    arriving = shuffled(events, lateness, seed)
    stream = Stream(patterns, events.schema, lateness, shards)
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(arriving)], strict=True):
        found += stream.batch(arriving.slice(start, end - start))
    assert sorted(found) == expected(patterns, events, END - lateness)


streams_of_one = strategies.ready_streams(5, 40)
cuts_of = st.lists(st.integers(1, 39), max_size=3, unique=True).map(sorted)


@settings(max_examples=12)
@given(several_patterns, streams_of_one, cuts_of)
def test_a_partition_finds_what_match_finds(patterns, drawn, cuts):
    """Rows come in order of time, in batches that end anywhere."""
    check_partition(patterns, drawn, cuts)


@settings(max_examples=8)
@given(
    several_patterns,
    streams_of_one,
    cuts_of,
    st.sampled_from([0, 1, 3, 10]),
    st.sampled_from([1, 2, 7]),
    st.integers(0, 1000),
)
def test_shards_find_what_match_finds(patterns, drawn, cuts, lateness, shards, seed):
    """In any order that the lateness allows, in any micro-batches, in any number of shards."""
    cuts = [cut for cut in cuts if cut < len(drawn)]
    check_stream(patterns, drawn, cuts, lateness, shards, seed)


@pytest.mark.soak
@settings(max_examples=1000)
@given(
    several_patterns,
    strategies.ready_streams(5, 80),
    cuts_of,
    st.sampled_from([0, 1, 3, 10]),
    st.sampled_from([1, 2, 7]),
    st.integers(0, 1000),
)
def test_partitions_and_shards_find_what_match_finds(
    patterns, drawn, cuts, lateness, shards, seed
):
    """The long version of both."""
    cuts = [cut for cut in cuts if cut < len(drawn)]
    check_partition(patterns, drawn, cuts)
    check_stream(patterns, drawn, cuts, lateness, shards, seed)


def parsed(text):
    """Read a pattern."""
    return parse_pattern(text).pattern


def letters(*rows):
    """Make events of a letter at a second, in milliseconds of the clock."""
    return pa.table(
        {
            "letter": [letter for _, letter in rows],
            EVENT_TIME: [second * 1_000_000 for second, _ in rows],
            "id": [second for second, _ in rows],
        }
    )


ABSENCE = {
    "P1": parsed("SELECT a.letter WHERE SEQ(a.letter = 'a', NOT(b.letter = 'b')) WITHIN 5 s")
}


def test_the_last_events_come_when_a_shard_is_idle():
    """The second event is not ready until a later one comes, or none for 10 s."""
    pair = {
        "P1": parsed("SELECT b.letter WHERE SEQ(a.letter = 'a', b.letter = 'b') WITHIN 5 s")
    }
    events = letters((0, "a"), (1, "b"))
    stream = Stream(pair, events.schema, lateness=2_000_000, idle=10_000)

    assert stream.batch(events) == []
    stream.now += 9_000
    assert stream.batch(events.slice(0, 0)) == []
    stream.now += 1_000
    assert stream.batch(events.slice(0, 0)) == expected(pair, events)


def test_an_absence_comes_when_its_time_has_passed_on_the_clock():
    """Idle after 10 s, at the latest time, 0 s; from there on 5 s must pass, and not less."""
    events = letters((0, "a"))
    stream = Stream(ABSENCE, events.schema, idle=10_000)

    assert stream.batch(events) == []
    for _ in range(14):
        stream.now += 1_000
        assert stream.batch(events.slice(0, 0)) == []
    stream.now += 10_000
    assert stream.batch(events.slice(0, 0)) == expected(ABSENCE, events)
    assert not any(at >= 0 for _, at in stream.states.values())  # nothing is left to wait for


def test_what_comes_in_time_is_no_absence():
    """The clock went on by 2 s after the shard was idle; the event is 4 s after the first."""
    first, second = letters((0, "a")), letters((4, "b"))
    stream = Stream(ABSENCE, first.schema, idle=1_000)

    stream.batch(first)
    stream.now += 3_000
    assert stream.batch(first.slice(0, 0)) == []
    assert stream.batch(second) == []
    stream.now += 60_000
    assert stream.batch(first.slice(0, 0)) == []


def test_a_state_goes_on_with_as_many_shards_as_it_was_saved_with():
    """Else the partial matches of a key would be where its events no longer come."""
    pair = "SELECT a.letter WHERE SEQ(a.letter = 'a', b.letter = 'b') WITHIN 5 s"
    pattern = {"P1": parsed(f"{pair} PARTITION BY letter")}
    events = letters((0, "a"))
    stream = Stream(pattern, events.schema, shards=2)
    stream.batch(events)
    other = Stream(pattern, events.schema, shards=3, states=stream.states)
    other.states.update({shard: stream.states[min(stream.states)] for shard in range(3)})

    with pytest.raises(StateError, match="the checkpoint is of 2 shards, now there are 3"):
        other.batch(events)


def test_a_state_goes_on_with_the_pattern_that_it_was_saved_with():
    """The state has the fingerprint of the pattern."""
    events = letters((0, "a"))
    stream = Stream(ABSENCE, events.schema)
    stream.batch(events)
    changed = {
        "P1": parsed(
            "SELECT a.letter WHERE SEQ(a.letter = 'a', NOT(b.letter = 'b')) WITHIN 6 s"
        )
    }

    with pytest.raises(StateError, match="the saved state is of other patterns"):
        Stream(changed, events.schema, states=stream.states).batch(events)
