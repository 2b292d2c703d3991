"""Whole events by number: the complex events are the same, at any cut, and none is lost."""

from itertools import pairwise
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.spark.codec.decode import decode_table
from shedlight.engines.spark.step import emit
from shedlight.engines.spark.step.advance import advance
from shedlight.engines.spark.step.chain import define_chain, new_chain_state
from shedlight.engines.spark.step.parts import WatermarkUpdate
from shedlight.engines.spark.step.saved import from_bytes, to_bytes
from shedlight.engines.spark.support.placement import ChainSpec, NodeContext, OperatorChain
from shedlight.engines.tables import match_tables
from shedlight.graph import OperatorSpec, Stream
from shedlight.language import parse_pattern
from shedlight.matching.operators.reorder import FOREVER, StreamInput

S, T = Stream("s"), Stream("t")
SCHEMA = pa.schema({"at": pa.int64(), "no": pa.int64(), "x": pa.int64(), "name": pa.string()})
OTHER = pa.schema({"at": pa.int64(), "no": pa.int64(), "x": pa.int64(), "size": pa.float64()})
INPUTS = {
    S: (StreamInput("s", ("no",), "at", 5), SCHEMA),
    T: (StreamInput("t", ("no",), "at"), OTHER),
}
LOW = [
    "SELECT a, b WHERE SEQ(a.x = 0, b.x > 0) WITHIN 20 us",
    "SELECT * WHERE SEQ(a.x = 0, NOT(n.x = 3), b.x = 1 +, c.x = 2) WITHIN 40 us",
    "SELECT b AS first, a.x AS x, SUM(b.x) AS total WHERE OR(a.x = 0, b.x = 1)",
    "SELECT a, b WHERE AND(a.x = 0, b.x = 1) AND b.at > a.at WITHIN 30 us REUSE",
]
HIGH = [
    "SELECT u, v WHERE SEQ(u.source = 'L', v.source = 'L') WITHIN 60 us",
    "SELECT * WHERE AND(u.time >= 0, v.source = 'L') WITHIN 60 us",
]
TOP = "SELECT one, two WHERE SEQ(one.source = 'H', two.source = 'H') WITHIN 200 us"


def _spec(name, inputs, pattern, text):
    return OperatorSpec(
        name=name, node="n", inputs=inputs, patterns={pattern: parse_pattern(text).pattern}
    )


def _chain(specs, *, late=frozenset(), streams=(S,)):
    given = ChainSpec(
        placement=OperatorChain(tuple(specs), (), range(1)),
        inputs={stream: INPUTS[stream] for stream in streams},
        origins=dict.fromkeys(streams, (0,)),
        context=NodeContext(
            with_event_ids=frozenset(stream for spec in specs for stream in spec.outputs),
            timed_out=late,
        ),
    )
    return define_chain(given)


def _three(low, high, streams=(S,)):
    return [
        _spec("w", streams, "L", low),
        _spec("v", (Stream("L", "w"),), "H", high),
        _spec("u", (Stream("H", "v"),), "T", TOP),
    ]


def _table(stream, rows):
    last = [f"é{x}" for _, _, x in rows] if stream == S else [x / 2 for _, _, x in rows]
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
    return pa.table([*columns, last], schema=INPUTS[stream][1])


_rows = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), max_size=30)


def _numbered(rows, start=0):
    return [(time, start + i, x) for i, (time, x) in enumerate(sorted(rows))]


def _expected(tables, texts):
    """Match operator by operator, without Spark and without numbers."""
    inputs = [(INPUTS[stream][0], table) for stream, table in tables.items()]
    found = []
    for name, text in zip("LHT", texts, strict=True):
        pattern = parse_pattern(text).pattern
        table = match_tables(inputs, {name: pattern}).complex_events[name]
        found.append(table)
        inputs = [(StreamInput(name, ("id",), "time"), table.drop_columns(["events"]))]
    return found


def _spelled_out(chain, done, stream):
    found, put = done.outputs[stream], pa.Buffer.to_pybytes
    with patch.object(emit, "MAX_EVENTS", 7):
        payloads = emit.encode_output(chain, stream, found, done.event_tables, put)
    pieces = [decode_table(data) for _, data in payloads]
    return pa.concat_tables([chain.definition.outputs[stream].empty_table(), *pieces])


@settings(max_examples=80)
@given(_rows, _rows, st.sampled_from(LOW), st.sampled_from(HIGH), st.booleans(), st.data())
def test_complex_events_of_complex_events_are_whole(ones, others, low, high, both, data):
    """Through three operators; the state is saved between all batches."""
    streams = (S, T) if both else (S,)
    events = {S: _numbered(ones), T: _numbered(others, 1000)}
    texts = (low, high, TOP)
    expected = _expected({one: _table(one, events[one]) for one in streams}, texts)
    chain = _chain(_three(low, high, streams), streams=streams)
    assert list(chain.event_refs.columns) == ["w"]

    state = new_chain_state(chain)
    found: list[list[pa.Table]] = [[], [], []]
    outputs = (Stream("L", "w"), Stream("H", "v"), Stream("T", "u"))
    cuts = sorted(data.draw(st.lists(st.integers(0, 30), max_size=4)))
    for start, end in pairwise([0, *cuts, 30]):
        tables = {stream: _table(stream, events[stream][start:end]) for stream in streams}
        state, done = advance(chain, state, tables, [])
        state = from_bytes(chain, to_bytes(chain, state))
        for kept, stream in zip(found, outputs, strict=True):
            kept.append(_spelled_out(chain, done, stream))
    _, done = advance(chain, state, {}, _ends(streams))
    for kept, stream, table in zip(found, outputs, expected, strict=True):
        kept.append(_spelled_out(chain, done, stream))
        assert pa.concat_tables(kept).to_pylist() == table.to_pylist()
        assert kept[0].schema.equals(chain.definition.outputs[stream])


def _ends(streams):
    return [WatermarkUpdate(stream, 0, FOREVER) for stream in streams]


ROWS = [(time, time, x) for time, x in enumerate([0, 1, 2, 0, 1, 2, 0, 3, 1, 2] * 6)]


def test_a_shelf_keeps_only_what_is_still_referred_to():
    """What open machines have taken, at whatever operator, and what waits."""
    chain = _chain(_three(LOW[0], HIGH[0]))
    state, done = advance(chain, new_chain_state(chain), {S: _table(S, ROWS)}, [])
    assert [len(done.outputs[s]) for s in chain.definition.outputs] == [16, 8, 4]
    assert len(done.event_tables["w"].events) == len(ROWS)
    kept = state.event_tables["w"]
    buffered = state.operators[0].reorder_buffer.buffer["no"].to_pylist()
    assert 0 < len(buffered) <= len(kept.old) < len(ROWS) / 2
    assert set(buffered) <= set(kept.events["no"].to_pylist())

    state, _ = advance(chain, state, {}, [WatermarkUpdate(S, 0, FOREVER)])
    (lowest,) = state.operators[0].states
    assert state.event_tables["w"].old.tolist() == lowest.store["#row"].to_pylist()


def test_late_events_have_all_their_columns():
    """Also those that no pattern looks at."""
    chain = _chain(_three(LOW[0], HIGH[0]))
    assert "name" not in chain.operators[0].schema.names
    state, _ = advance(chain, new_chain_state(chain), {S: _table(S, ROWS)}, [])
    _, done = advance(chain, state, {S: _table(S, [(3, 999, 1)])}, [])
    assert done.late["w"].drop_columns(["#input"]).to_pylist() == [
        {"at": 3, "no": 999, "x": 1, "name": "é1"}
    ]
    assert chain.definition.events["w"].names == ["at", "no", "x", "name"]


def test_what_timed_out_has_whole_events():
    """A partial match has null for what is missing."""
    spec = _spec("w", (S,), "L", LOW[0])
    chain = _chain([spec], late=frozenset({Stream("L", "w")}))
    timed_out = next(
        stream for stream in chain.definition.outputs if stream != Stream("L", "w")
    )
    rows = [(0, 1, 0), (100, 2, 3)]
    _, done = advance(
        chain, new_chain_state(chain), {S: _table(S, rows)}, [WatermarkUpdate(S, 0, 90)]
    )
    (found,) = _spelled_out(chain, done, timed_out).to_pylist()
    assert found["a"] == {"at": 0, "no": 1, "x": 0, "name": "é0"}
    assert found["b"] is None


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("SELECT a.x AS x WHERE a.x = 0", "SELECT u WHERE u.x = 0"),
        (LOW[0], "SELECT u WHERE u.a.x = 0"),
        (LOW[0], "SELECT u.b.x AS x WHERE u.time > 0"),
        (LOW[0], "SELECT MAX(u.a.x) AS x WHERE u.time > 0 {2} WITHIN 9 us"),
        (LOW[0], "SELECT EACH * WHERE SEQ(u.time > 0, v.time > 0) WITHIN 9 us"),
        ("SELECT EACH * WHERE SEQ(a.x = 0, b.x = 1) WITHIN 9 us", "SELECT u WHERE u.time > 0"),
    ],
)
def test_where_somebody_looks_into_whole_events_they_are_copied(low, high):
    """Then nothing is given by number, and matching goes as it always did."""
    specs = [_spec("w", (S,), "L", low), _spec("v", (Stream("L", "w"),), "H", high)]
    chain = _chain(specs)
    assert not chain.event_refs.columns
    _, done = advance(
        chain, new_chain_state(chain), {S: _table(S, ROWS)}, [WatermarkUpdate(S, 0, FOREVER)]
    )
    expected = match_tables(
        [(INPUTS[S][0], _table(S, ROWS))], {"L": parse_pattern(low).pattern}
    ).complex_events["L"]
    assert _spelled_out(chain, done, Stream("L", "w")).to_pylist() == expected.to_pylist()


def test_two_inputs_with_the_same_names_are_copied():
    """A number alone would not say of which operator an event is."""
    both = (Stream("L", "w"), Stream("M", "x"))
    specs = [
        _spec("w", (S,), "L", LOW[0]),
        _spec("x", (T,), "M", LOW[0]),
        _spec("v", both, "H", "SELECT u, o WHERE SEQ(u.time >= 0, o.time >= 0) WITHIN 9 us"),
    ]
    assert not _chain(specs, streams=(S, T)).event_refs.columns
    named = LOW[0].replace("a, b", "a AS c, b AS d")
    specs[1] = _spec("x", (T,), "M", named)
    assert set(_chain(specs, streams=(S, T)).event_refs.columns) == {"w", "x"}
