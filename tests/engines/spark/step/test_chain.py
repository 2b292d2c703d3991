"""An operator chain: streams from several shards are put in order, at any cut."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.spark.step import chain as chain_module
from shedlight.engines.spark.step.advance import advance, operator_watermarks
from shedlight.engines.spark.step.chain import (
    build_chain,
    define_chain,
    new_chain_state,
    outside_input,
)
from shedlight.engines.spark.step.parallel import levels
from shedlight.engines.spark.step.parts import WatermarkUpdate
from shedlight.engines.spark.step.saved import from_bytes, to_bytes
from shedlight.engines.spark.support.placement import ChainSpec, OperatorChain
from shedlight.engines.tables import match_tables
from shedlight.errors import StateError
from shedlight.graph import OperatorSpec, Stream
from shedlight.language import parse_pattern
from shedlight.matching.operators.cep_operator import build_operator
from shedlight.matching.operators.reorder import FOREVER, StreamInput

READ, JOINED, LAST = Stream("K", "up"), Stream("J", "w"), Stream("L", "v")
SCHEMA = pa.schema(
    {"source": pa.string(), "time": pa.int64(), "id": pa.string(), "x": pa.int64()}
)
JOIN = "SELECT a.x AS x, b.x AS y WHERE SEQ(a.x = 0, b.x > 0) WITHIN 20 us"
PAIR = "SELECT a.y AS y WHERE SEQ(a.y > 0, b.y > 1) WITHIN 50 us"


def build_two(last="v"):
    """Two operators, one reading the other, behind two shards of another node."""
    specs = [
        OperatorSpec(name=name, node="n", inputs=(read,), patterns={pattern: _parsed(text)})
        for name, read, pattern, text in (("w", READ, "J", JOIN), (last, JOINED, "L", PAIR))
    ]
    given = ChainSpec(
        placement=OperatorChain(tuple(specs), (), range(1)),
        inputs={READ: outside_input(READ, SCHEMA)},
        origins={READ: (0, 1)},
    )
    return define_chain(given)


def test_operators_are_built_once_on_a_worker_and_without_references(monkeypatch):
    """Where nothing refers to whole events, those of the driver are used as they are."""
    built = []

    def build(*args, **options):
        built.append(args)
        return build_operator(*args, **options)

    monkeypatch.setattr(chain_module, "build_operator", build)
    chain = build_two()
    assert len(built) == len(chain.operators) == 2
    build_chain(chain.definition)
    assert len(built) == 4


def _parsed(text):
    return parse_pattern(text).pattern


def rows_table(rows):
    """Make a table of rows of time, id and x."""
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    times, names, values = columns
    return pa.table([["K"] * len(rows), times, names, values], schema=SCHEMA)


_rows = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2)), max_size=25)


@settings(max_examples=60)
@given(st.tuples(_rows, _rows), st.data())
def test_groups_upstream_may_be_ahead_of_each_other(shards, data):
    """The watermark of a stream is that of its slowest shard; the state is saved each time."""
    left = [
        [(time, f"{shard}-{i}", x) for i, (time, x) in enumerate(sorted(rows))]
        for shard, rows in enumerate(shards)
    ]
    first = match_tables(
        [(StreamInput("K", ("id",), "time"), rows_table(sorted(left[0] + left[1])))],
        {"J": _parsed(JOIN)},
    ).complex_events["J"]
    second = match_tables(
        [(StreamInput("J", ("id",), "time"), first.drop_columns(["events"]))],
        {"L": _parsed(PAIR)},
    ).complex_events["L"]
    chain = build_two()
    state = new_chain_state(chain)
    found: dict[Stream, list[str]] = {JOINED: [], LAST: []}
    while left[0] or left[1]:
        shard = data.draw(st.sampled_from([g for g in (0, 1) if left[g]]))
        size = data.draw(st.integers(1, len(left[shard])))
        batch, left[shard] = left[shard][:size], left[shard][size:]
        mark = WatermarkUpdate(READ, shard, left[shard][0][0] if left[shard] else FOREVER)
        state, new = advance(chain, state, {READ: rows_table(batch[::-1])}, [mark])
        state = from_bytes(chain, to_bytes(chain, state))
        for stream, table in new.outputs.items():
            found[stream] += table["id"].to_pylist()
    state, new = advance(
        chain, state, {}, [WatermarkUpdate(READ, shard, FOREVER) for shard in (0, 1)]
    )
    for stream, table in new.outputs.items():
        found[stream] += table["id"].to_pylist()

    assert found == {JOINED: first["id"].to_pylist(), LAST: second["id"].to_pylist()}
    assert operator_watermarks(chain, state) == {"w": FOREVER, "v": FOREVER}
    assert all(sum(one.reorder_buffer.late) == 0 for one in state.operators)


def test_a_group_that_said_nothing_holds_the_others_back():
    """It may have the oldest events of all."""
    chain = build_two()
    rows = [(0, "a", 0), (1, "b", 1)]
    state, found = advance(
        chain,
        new_chain_state(chain),
        {READ: rows_table(rows)},
        [WatermarkUpdate(READ, 0, FOREVER)],
    )
    assert len(found.outputs[JOINED]) == 0
    _, found = advance(chain, state, {}, [WatermarkUpdate(READ, 1, FOREVER)])
    assert len(found.outputs[JOINED]) == 1


def test_the_state_of_other_operators_is_refused():
    """So is what is no state at all."""
    chain = build_two()
    data = to_bytes(chain, new_chain_state(chain))
    with pytest.raises(StateError, match="the saved state is of the operators"):
        from_bytes(build_two(last="u"), data)
    with pytest.raises(StateError, match="damaged"):
        from_bytes(chain, b"")


def test_operators_that_do_not_need_each_other_run_side_by_side():
    """Each is in the first level after all that feed it."""

    def spec(name, *inputs):
        return OperatorSpec(name=name, node="n", inputs=inputs, patterns={"P": _parsed(JOIN)})

    specs = [
        spec("a", READ),
        spec("b", READ),
        spec("c", Stream("P", "a"), Stream("P", "b")),
        spec("d", Stream("P", "a"), READ),
        spec("e", Stream("P", "c"), Stream("P", "a")),
    ]
    assert levels(specs) == [[0, 1], [2, 3], [4]]


def test_side_by_side_is_one_after_the_other():
    """Many operators of one input, in threads and not: the same matches, counts and states."""
    specs = tuple(
        OperatorSpec(name=f"w{i}", node="n", inputs=(READ,), patterns={"J": _parsed(JOIN)})
        for i in range(8)
    )
    rows = [(time, f"e{time}", time % 3) for time in range(500)]
    outcomes = []
    for shards in (range(1), range(2)):  # of several shards each is run by itself
        given = ChainSpec(
            placement=OperatorChain(specs, (), shards),
            inputs={READ: outside_input(READ, SCHEMA)},
            origins={READ: (0,)},
        )
        chain = define_chain(given)
        state, done = advance(
            chain,
            new_chain_state(chain),
            {READ: rows_table(rows)},
            [WatermarkUpdate(READ, 0, FOREVER)],
        )
        found = {name: done.outputs[name].to_pylist() for name in sorted(done.outputs, key=str)}
        counted = {name: one.patterns["J"].found for name, one in sorted(done.metrics.items())}
        outcomes.append((found, counted, to_bytes(chain, state)))
    assert outcomes[0] == outcomes[1]
    assert set(outcomes[0][1].values()) == {167}


def test_complex_events_are_counted_where_they_arrive():
    """By type, from each input; nobody has counted them before."""
    chain = build_two()
    rows = [(0, "a", 0), (1, "b", 1), (2, "c", 1), (3, "d", -1)]
    _, done = advance(
        chain,
        new_chain_state(chain),
        {READ: rows_table(rows)},
        [WatermarkUpdate(READ, 0, FOREVER), WatermarkUpdate(READ, 1, FOREVER)],
    )
    (counted,) = done.metrics["w"].types.values()
    assert sorted(counted.values()) == [1, 1, 2]
    assert sum(done.metrics["v"].types[str(JOINED)].values()) == len(done.outputs[JOINED]) == 1
