"""Many patterns in one operator: each finds what it finds alone."""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.language import parse_pattern
from shedlight.language.ast.pattern import elements
from shedlight.language.eval.evaluate import evaluate, is_true
from shedlight.matching.compile.type_labels import build_vocabulary
from shedlight.matching.operators import offer
from shedlight.matching.operators.cep_operator import (
    build_operator,
    new_operator_state,
    schema_of,
    step_operator,
)
from shedlight.matching.operators.classify import EventTypes, classify
from shedlight.matching.operators.reorder import StreamInput
from shedlight.matching.operators.step import count_partial_matches
from shedlight.matching.permuted import row_column
from tests import strategies
from tests.kernel import SCHEMA, from_bytes, run_all, table_of, to_bytes

_cuts = st.lists(st.integers(0, 30), max_size=4)


def _inputs():
    return [(StreamInput(f"input {i}", ("id0", "id1"), "at"), SCHEMA) for i in (0, 1)]


def _run_together(operator, arrivals, cuts):
    """Match arrivals with all patterns, batch by batch, with the state as bytes in between."""
    state = new_operator_state(operator)
    found: dict[str, list[object]] = {matcher.name: [] for matcher in operator.matchers}
    over: dict[str, list[object]] = {matcher.name: [] for matcher in operator.matchers}
    bounds = [0, *sorted(min(cut, len(arrivals)) for cut in cuts), len(arrivals)]
    for number, (start, end) in enumerate(pairwise(bounds)):
        batch = arrivals[start:end]
        tables = {i: table_of([e for e in batch if e.input == i]) for i in (0, 1)}
        ended = frozenset({0, 1}) if number == len(bounds) - 2 else frozenset()
        state, result = step_operator(operator, state, tables, ended)
        for name in found:
            found[name] += result.complex_events[name].to_pylist()
            over[name] += result.timed_out[name].to_pylist()
        if number % 2:
            state = from_bytes(operator, to_bytes(operator, state))
    return found, over, state


def _agree(patterns, events, cuts):
    named = {f"P{i}": pattern for i, pattern in enumerate(patterns)}
    together = build_operator(_inputs(), named, timed_out=named)
    found, over, state = _run_together(together, events, cuts)
    for number, (name, pattern) in enumerate(named.items()):
        alone = build_operator(_inputs(), {name: pattern}, timed_out=[name])
        _, selected, _, over_selected, alone_state = run_all(alone, events, cuts)
        assert repr(found[name]) == repr(selected)  # as text, for NaN is not NaN
        assert repr(over[name]) == repr(over_selected)
        assert count_partial_matches(state.states[number]) == count_partial_matches(
            alone_state.states[0]
        )


@settings(max_examples=40)
@given(
    st.lists(strategies.patterns(depth=2), min_size=2, max_size=4),
    strategies.ready_streams(8, 24),
    _cuts,
)
def test_patterns_together_find_what_each_finds_alone(patterns, events, cuts):
    """All rows of complex events and of what timed out, in order, and all counts."""
    _agree(patterns, events, cuts)


@settings(max_examples=20)
@given(
    st.lists(strategies.patterns(cross=False, depth=2), min_size=2, max_size=4),
    strategies.ready_streams(8, 24),
    _cuts,
)
def test_positions_are_written_for_few_patterns_at_a_time(patterns, events, cuts):
    """As where they would not fit in memory at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offer, "_MAX_POSITIONS", 3)
        _agree(patterns, events, cuts)


@pytest.mark.soak
@settings(max_examples=3_000)
@given(
    st.lists(strategies.patterns(), min_size=2, max_size=8),
    strategies.ready_streams(8, 32),
    _cuts,
)
def test_patterns_together_find_what_each_finds_alone_at_length(patterns, events, cuts):
    """More patterns, deeper ones, longer streams."""
    _agree(patterns, events, cuts)


@settings(max_examples=40)
@given(
    st.lists(strategies.patterns(depth=2), min_size=1, max_size=4), strategies.ready_streams(1)
)
def test_the_patterns_that_can_use_a_type_are_those_that_have_a_symbol_for_it(patterns, events):
    """The index by anchors leaves nothing out and adds nothing."""
    named = {f"P{i}": pattern for i, pattern in enumerate(patterns)}
    operator = build_operator(_inputs(), named)
    table = table_of(events)
    types, _ = classify(operator.no_types, len(table), lambda node: row_column(table, node))
    for signature in types.signatures:
        uses = operator.dispatch.uses(signature)
        names = [operator.dispatch.symbols[number] for number in uses.symbols]
        found = dict(zip(uses.patterns.tolist(), names, strict=True))
        symbols = enumerate(matcher.symbol(signature) for matcher in operator.matchers)
        assert found == {number: symbol for number, symbol in symbols if symbol}


_numbers = st.sampled_from(["0", "1", "2", "-1", "0.5", "1.5", "1e300", "9007199254740993"])
_COMPARISONS = ["<", "<=", ">", ">=", "=", "<>"]
_tests = st.one_of(
    st.builds("{} {} {}".format, st.just("e.x"), st.sampled_from(_COMPARISONS), _numbers),
    st.builds("{} {} {}".format, _numbers, st.sampled_from(_COMPARISONS), st.just("e.x")),
    st.builds("e.x BETWEEN {} AND {}".format, _numbers, _numbers),
    st.builds("e.x NOT IN ({}, {})".format, _numbers, _numbers),
    st.just("e.x IS NULL"),
    st.just("e.x + 0 > 1"),
)
_conditions = st.one_of(
    _tests,
    st.builds("({} OR {})".format, _tests, _tests),
    st.builds("NOT ({} AND {})".format, _tests, _tests),
    st.just("e.name > 'b'"),
)
_decimals = [
    None,
    math.nan,
    math.inf,
    -math.inf,
    -1.0,
    -0.0,
    0.0,
    0.5,
    0.7,
    1.0,
    1.5,
    2.0,
    1e300,
]
_wholes = [None, -2, -1, 0, 1, 2, 3, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, -(2**63)]


@settings(max_examples=100)
@given(st.lists(_conditions, min_size=1, max_size=8), st.data())
def test_intervals_tell_what_the_conditions_tell(conditions, data):
    """The signature of every row is what its conditions say one by one; so it is later on."""
    values, kind = data.draw(
        st.sampled_from([(_decimals, pa.float64()), (_wholes, pa.int64())])
    )
    rows = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=20))
    table = pa.table(
        {"x": pa.array(rows, kind), "name": data.draw(_names(len(rows)))},
        schema=pa.schema({"x": kind, "name": pa.string()}),
    )
    parts = ", ".join(
        f"e{i}.x = e{i}.x AND {c.replace('e.', f'e{i}.')}" for i, c in enumerate(conditions)
    )
    text = (
        f"SELECT e0.x WHERE AND({parts}) WITHIN 1 s"
        if len(conditions) > 1
        else f"SELECT e0.x WHERE {parts}"
    )
    pattern = parse_pattern(text, schema_of(table.schema)).pattern
    alphabet = build_vocabulary(elements(pattern.where)).alphabet
    types = EventTypes(alphabet)
    for start in (0, len(table) // 2):
        lookup = partial(row_column, table.slice(start))
        size = len(table) - start
        types, numbers = classify(types, size, lookup)
        truths = [is_true(evaluate(condition, size, lookup)) for condition in alphabet.open]
        flags = [np.broadcast_to(truth, size).astype(int) for truth in truths]
        for row, number in enumerate(numbers.tolist()):
            signature = types.signatures[number]
            assert signature[len(alphabet.closed) :] == tuple(f[row] for f in flags)


def _names(size):
    return st.lists(st.sampled_from(["a", "b", "c", None]), min_size=size, max_size=size)


def _operator(texts, table):
    schema = schema_of(table.schema)
    patterns = {f"P{i}": parse_pattern(text, schema).pattern for i, text in enumerate(texts)}
    return build_operator([(StreamInput("s", ("id",), "time"), table.schema)], patterns)


def _table(types, start=0):
    size = len(types)
    return pa.table(
        {
            "type": pa.array(types, pa.int64()),
            "time": np.arange(start, start + size) * 1_000_000,
            "id": np.arange(start, start + size),
        }
    )


def test_states_of_patterns_that_a_batch_does_not_concern_are_shared():
    """Only the pattern of type 1 is visited, and the one whose window ends."""
    texts = [
        f"SELECT a.type WHERE SEQ(a.type = {i}, b.type = 9) WITHIN {w} s"
        for i, w in ((0, 100), (1, 100), (2, 3))
    ]
    before, operator = _table([0, 1, 2, 7]), _operator(texts, _table([0]))
    state, _ = step_operator(operator, new_operator_state(operator), {0: before})

    after, result = step_operator(operator, state, {0: _table([1, 7, 7, 7], 4)})

    assert after.states[0] is state.states[0]
    assert after.states[1] is not state.states[1]
    assert count_partial_matches(after.states[2]).expired == 1
    assert result.complex_events["P0"].schema == result.complex_events["P1"].schema


def test_thresholds_of_their_own_make_a_type_each_and_not_a_product():
    """A hundred conditions on an attribute cut it into 101 types, named as before."""
    rng = np.random.default_rng(1)
    table = pa.table(
        {"x": rng.random(2000) * 100, "time": np.arange(2000), "id": np.arange(2000)}
    )
    texts = [f"SELECT a.x WHERE SEQ(a.x > {i}, b.x > {i}) WITHIN 1 s" for i in range(100)]
    operator = _operator(texts, table)
    assert len(operator.alphabet.intervals) == 1
    types, numbers = classify(operator.no_types, 2000, lambda node: row_column(table, node))

    assert len(types.signatures) == len({math.ceil(x) for x in table["x"].to_pylist()})
    row = int(np.flatnonzero(table["x"].to_numpy() < 2)[0])
    whole = [f"x > {i}" for i in range(100) if table["x"][row].as_py() > i]
    assert types.label(int(numbers[row])) == " & ".join(whole)
