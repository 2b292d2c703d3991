"""Keys divided over another number of shards: what is found is the same."""

from functools import cache

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.spark.step.advance import advance, operator_watermarks
from shedlight.engines.spark.step.chain import define_chain, new_chain_state, outside_input
from shedlight.engines.spark.step.divided import Division
from shedlight.engines.spark.step.parts import WatermarkUpdate
from shedlight.engines.spark.step.saved import from_bytes, to_bytes
from shedlight.engines.spark.support.placement import ChainSpec, EarlierShards, OperatorChain
from shedlight.graph import OperatorSpec, Stream
from shedlight.language import parse_pattern
from shedlight.language.ast.expression import Attribute
from shedlight.matching.operators.cep_operator import operator_keys
from shedlight.matching.operators.reorder import FOREVER, StreamInput
from shedlight.matching.operators.step import count_partial_matches

KEY, OTHER = Attribute("", ("key",)), Attribute("", ("name",))
SOURCE, READ = Stream("s"), Stream("K", "up")
SCHEMA = pa.schema(
    {
        "time": pa.int64(),
        "id": pa.string(),
        "type": pa.int64(),
        "x": pa.int64(),
        "key": pa.int64(),
        "name": pa.string(),
    }
)
LATENESS = 7
PATTERNS = {
    "pair": "SELECT a.x AS x WHERE SEQ(a.type = 0, b.type = 1) WITHIN 40 us",
    "repeated": "SELECT b.x AS x WHERE SEQ(a.type = 0 {2}, b.type = 1) WITHIN 40 us",
    "and": "SELECT a.x AS x WHERE AND(a.type = 0, b.type = 1, c.type = 2) WITHIN 60 us",
    "or": "SELECT c.x AS x WHERE SEQ(OR(a.type = 0, SEQ(d.type = 1, e.type = 0)), c.type = 2) "
    "WITHIN 60 us",
    "not": "SELECT b.x AS x WHERE SEQ(a.type = 0, NOT(n.type = 2), b.type = 1) WITHIN 40 us",
    "absent": "SELECT a.x AS x WHERE SEQ(a.type = 0, NOT(n.type = 1)) WITHIN 15 us",
    "counted": "SELECT b.x AS x WHERE SEQ(a.type = 0, b.type = 1) WITHIN 4 EVENTS",
    "scanned": "SELECT b.x AS x WHERE SEQ(a.type = 0, b.type = 1, c.type = 2) "
    "AND b.x > a.x AND c.x > b.x WITHIN 60 us",
}


@cache
def _chain(shards, origins, by):
    """Two operators side by side, on a source and on what another node sends."""
    keys = ", ".join(str(attribute.column) for attribute in by)
    patterns = {
        name: parse_pattern(f"{text} PARTITION BY {keys}") for name, text in PATTERNS.items()
    }
    reused = f"{PATTERNS['pair']} PARTITION BY {keys} REUSE"
    patterns["reused"] = parse_pattern(reused)
    chosen = {name: loaded.pattern for name, loaded in patterns.items()}
    specs = (
        OperatorSpec(name="w", node="n", inputs=(SOURCE,), patterns=chosen),
        OperatorSpec(
            name="v", node="n", inputs=(SOURCE, READ), patterns={"both": chosen["repeated"]}
        ),
    )
    return define_chain(
        ChainSpec(
            placement=OperatorChain(specs, by, shards),
            inputs={
                SOURCE: (StreamInput("s", ("id",), "time", LATENESS), SCHEMA),
                READ: outside_input(READ, SCHEMA),
            },
            origins={SOURCE: (0,), READ: origins},
        )
    )


@st.composite
def _events(draw, name):
    """Events that are out of order by no more than they may be, some of them twice."""
    rows, time = [], 0
    for number in range(draw(st.integers(0, 40))):
        time += draw(st.integers(0, 6))
        row = {
            "time": time,
            "id": f"{name}{number}",
            "type": draw(st.integers(0, 2)),
            "x": draw(st.integers(0, 9)),
            "key": draw(st.none() | st.integers(0, 6)),
            "name": draw(st.sampled_from(["a", "b", None])),
        }
        rows.append(row)
    return rows


class _Shards:
    """A chain with its shards, each with what it was sent."""

    def __init__(self, numbers, origins, by):
        self.chain = _chain(numbers, origins, by)
        self.states = {shard: new_chain_state(self.chain) for shard in numbers}
        self.found = {}

    def divided(self, numbers, origins, by):
        """Go on with other shards; states go through bytes, as in a run."""
        new = _Shards(numbers, origins, by)
        saved = [to_bytes(self.chain, self.states[shard]) for shard in sorted(self.states)]
        before = EarlierShards(
            range(min(self.states), max(self.states) + 1), self.chain.spec.origins, "before"
        )
        states = [from_bytes(new.chain, one) for one in saved]
        division = Division(new.chain, before, states)
        new.found = self.found
        for shard in numbers:
            state, _ = division.state_of(shard, None, new.collect)
            new.states[shard] = from_bytes(new.chain, to_bytes(new.chain, state))
        return new

    def collect(self, stream, table, _):
        """Take complex events."""
        self.found.setdefault(stream, []).extend(table["id"].to_pylist())

    def send(self, stream, rows, updates=()):
        """Send events to the shards of their keys, and watermarks to all."""
        table = pa.Table.from_pylist(rows, SCHEMA)
        hashes, _ = next(iter(operator_keys(self.chain.operators[0], table).values()))
        numbers = list(self.states)
        for place, shard in enumerate(numbers):
            mine = table.filter(pa.array(hashes % len(numbers) == place))
            arrivals = {stream: mine} if len(mine) else {}
            if not arrivals and not updates:
                continue
            self.states[shard], _ = advance(
                self.chain, self.states[shard], arrivals, updates, None, self.collect
            )


@settings(max_examples=12, deadline=None)
@given(_events("s"), _events("k"), st.data())
def test_matches_are_the_same_with_other_shards(source, read, data):
    """Shards are not equally far, events wait in them, and the number changes several times."""
    by = data.draw(st.sampled_from([(KEY,), (OTHER,), (KEY, OTHER)]))
    first = data.draw(st.integers(1, 4))
    shards = _Shards(range(first), (0, 1), by)
    origins: tuple[int, ...] = (0, 1)
    whole = _Shards(range(1), (0, 1), by)
    left = {SOURCE: _out_of_order(source, data), READ: read}
    while any(left.values()):
        stream = data.draw(st.sampled_from([s for s in left if left[s]]))
        size = data.draw(st.integers(1, 8))
        rows, left[stream] = left[stream][:size], left[stream][size:]
        time = left[READ][0]["time"] if left[READ] else FOREVER
        for world, own in ((shards, origins), (whole, (0, 1))):
            marks = [WatermarkUpdate(READ, origin, time) for origin in own]
            world.send(stream, rows, marks if stream == READ else ())
        if data.draw(st.integers(0, 3)) == 0:
            start = max(shards.states) + 1
            number = data.draw(st.integers(1, 4))
            origins = tuple(range(max(origins) + 1, max(origins) + 2 + number))
            shards = shards.divided(range(start, start + number), origins, by)
    for world, own in ((shards, origins), (whole, (0, 1))):
        ends = [WatermarkUpdate(SOURCE, 0, FOREVER)]
        world.send(SOURCE, [], [*ends, *(WatermarkUpdate(READ, o, FOREVER) for o in own)])
    assert {s: sorted(ids) for s, ids in shards.found.items()} == {
        s: sorted(ids) for s, ids in whole.found.items()
    }
    for state in shards.states.values():
        assert set(operator_watermarks(shards.chain, state).values()) == {FOREVER}
    assert _totals(shards) == _totals(whole)


def _out_of_order(rows, data):
    """Move events by no more than they may be late."""
    moved = sorted(rows, key=lambda row: row["time"] + data.draw(st.integers(0, LATENESS)))
    if moved and data.draw(st.booleans()):
        moved.append(moved[-1])  # a duplicate
    return moved


def _totals(world):
    """Count over all shards what was counted from the beginning."""
    late = duplicates = open_now = 0
    for state in world.states.values():
        for operator in state.operators:
            late += sum(operator.reorder_buffer.late)
            duplicates += sum(operator.reorder_buffer.duplicates)
            open_now += sum(count_partial_matches(each).open for each in operator.states)
    return late, duplicates, open_now
