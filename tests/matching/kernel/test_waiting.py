"""Indexes change nothing: long streams with many partial matches, with and without them."""

from dataclasses import replace

import numpy as np
import pytest

from shedlight.language import parse_pattern
from shedlight.matching.kernel import tables
from shedlight.matching.kernel.match_state import cancel, open_keys
from shedlight.matching.kernel.ordered import ENTRIES
from shedlight.matching.operators.cep_operator import new_operator_state
from shedlight.matching.operators.step import count_partial_matches
from tests.kernel import from_bytes, listed, operator_for, step, to_bytes
from tests.reference import Event

PAIR, NEVER, FEW = "SEQ(a.kind = 0, b.kind = 1)", 1 << 40, tables.FEW
PATTERNS = {
    "range": f"{PAIR} AND abs(b.y - a.y) < 0.01 WITHIN 1 s",
    "order": f"{PAIR} AND b.y > a.y * 1.02 WITHIN 300 us",
    "rest": f"{PAIR} AND b.y > a.y AND (b.x + a.x) % 7 = 3 WITHIN 500 us",
    "equality": f"{PAIR} AND b.x = a.key WITHIN 400 EVENTS",
    "reuse": f"{PAIR} AND abs(b.y - a.y) < 0.003 WITHIN 400 us REUSE",
    "not": "SEQ(a.kind = 0, NOT(n.kind = 2), b.kind = 1) AND abs(n.y - a.y) < 0.01 "
    "AND b.y > a.y WITHIN 600 us",
    "absence": "SEQ(a.kind = 0, NOT(n.kind = 1)) AND abs(n.y - a.y) < 0.01 WITHIN 200 us",
    "repetition": "SEQ(a.kind = 0, b.kind = 1 {2}, c.kind = 2) AND b.y > a.y AND "
    "abs(c.y - b.y) < 0.05 WITHIN 600 us",
    "parts": "AND(a.kind = 0, b.kind = 1, c.kind = 2) AND b.y > a.y AND c.y > b.y "
    "WITHIN 200 us",
    "choice": "SEQ(a.kind = 0, OR(b.kind = 1, SEQ(c.kind = 2, d.kind = 1))) AND b.y < a.y "
    "AND d.y > a.y WITHIN 300 us",
    "keys": f"{PAIR} AND abs(b.y - a.y) < 0.02 WITHIN 1 s PARTITION BY key",
    "text": f"{PAIR} AND b.name > a.name AND b.y < a.y WITHIN 300 us",
}


def _events(size):
    rng = np.random.default_rng(7)
    kinds, numbers = rng.choice(3, size, p=[0.5, 0.4, 0.1]), rng.integers(0, 50, size)
    special, others = (None, np.nan, -0.0, 0.0), rng.integers(0, 4, size)
    ordinary, values = rng.random(size) < 0.95, rng.random(size)
    return [
        Event(
            i,
            i % 2,
            (i,),
            {
                "kind": int(kinds[i]),
                "x": None if numbers[i] == 13 else int(numbers[i]),
                "y": float(values[i]) if ordinary[i] else special[others[i]],
                "key": int(numbers[-i]) % 3,
                "name": f"a common start {numbers[i]:02}"[: 4 + numbers[i] // 3],
            },
        )
        for i in range(size)
    ]


def _run(where, events, few, *, saved=False, cap=1 << 40, cancels=False):
    """Match events in three batches; gives matches, counts and the state before the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "FEW", few)
        return _match_all(where, events, saved=saved, cap=cap, cancels=cancels)


def _match_all(where, events, *, saved, cap, cancels):
    operator = operator_for(parse_pattern(f"SELECT a.x WHERE {where}").pattern)
    operator = replace(operator, matchers=(replace(operator.matchers[0], cap=cap),))
    state = opened = new_operator_state(operator)
    found = []
    for number, batch in enumerate(np.array_split(np.arange(len(events)), 3)):
        chosen = [events[i] for i in batch]
        state, matches = step(operator, state, chosen, ended=number == 2)
        found += listed(operator, matches)
        if number == 1:
            opened = state
        if cancels:
            keys = open_keys(state.states[0])[:1]
            state = replace(
                state, states=(cancel(operator.matchers[0], state.states[0], keys),)
            )
        if saved:
            state = from_bytes(operator, to_bytes(operator, state))
    return found, count_partial_matches(state.states[0]), opened.states[0]


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("name", PATTERNS)
def test_an_index_finds_what_a_scan_finds(name, saved):
    """Ids and order too; among the values are null, NaN and both zeros, and there are ties."""
    events = _events(1_500)
    expected = _run(PATTERNS[name], events, NEVER, saved=False)
    found = _run(PATTERNS[name], events, FEW if saved else 3, saved=saved)
    assert found[:2] == expected[:2]
    assert len(found[0]) > 20
    assert expected[2].index.facts[ENTRIES] == 0
    assert found[2].index.facts[ENTRIES] > 20


@pytest.mark.parametrize("name", ["range", "keys", "rest"])
def test_past_the_cap_the_oldest_goes(name):
    """It goes from the index, too."""
    events = _events(1_000)
    expected = _run(PATTERNS[name], events, NEVER, cap=40)
    found = _run(PATTERNS[name], events, 3, cap=40)
    assert found[:2] == expected[:2]
    assert found[1].evicted > 20


@pytest.mark.parametrize("name", ["range", "keys"])
def test_a_key_that_is_cancelled_leaves_the_index(name):
    """What comes later of it is matched as if it had not been seen before."""
    events = _events(1_000)
    expected = _run(PATTERNS[name], events, NEVER, cancels=True)
    found = _run(PATTERNS[name], events, 3, cancels=True)
    assert found[:2] == expected[:2]
    assert found[1].cancelled > 20


def test_an_implicit_key_is_nobodys_but_the_matchers():
    """Without PARTITION BY all partial matches are of one key, and are cancelled together."""
    where = f"{PAIR} AND b.x = a.x WITHIN 1 s"
    found, counts, opened = _run(where, _events(300), FEW, cancels=True)
    assert open_keys(opened).tolist() == [[0, 0]]
    assert counts.cancelled > 20
    assert len(found) > 20
