"""The state of a shard as bytes: it goes on where it stopped, or says why not."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.spark.step.advance import advance
from shedlight.engines.spark.step.chain import new_chain_state
from shedlight.engines.spark.step.parts import WatermarkUpdate
from shedlight.engines.spark.step.saved import from_bytes, to_bytes
from shedlight.errors import StateError
from shedlight.matching.operators.reorder import FOREVER
from shedlight.matching.state.container import VERSION, read_container
from tests.engines.spark.step.test_chain import JOINED, LAST, READ, build_two, rows_table

PINNED = Path(__file__).parents[3] / "fixtures" / "states" / f"chain-v{VERSION}.state"


def _state():
    """Six events of one origin of two; so some wait, and partial matches are open."""
    chain = build_two()
    rows = rows_table([(10 * i, f"e{i}", i % 2) for i in range(6)])
    watermarks = [WatermarkUpdate(READ, 0, 60), WatermarkUpdate(READ, 1, 35)]
    return chain, advance(chain, new_chain_state(chain), {READ: rows}, watermarks)[0]


def _rest(chain, state):
    rows = rows_table([(60, "e6", 0), (61, "e7", 2)])
    watermarks = [WatermarkUpdate(READ, origin, FOREVER) for origin in (0, 1)]
    _, done = advance(chain, state, {READ: rows}, watermarks)
    return [done.outputs[stream].to_pylist() for stream in (JOINED, LAST)]


def test_a_pinned_state_goes_on():
    """The file was saved once; a new format has a new version and another file."""
    chain, state = _state()
    pinned = from_bytes(chain, PINNED.read_bytes())
    found = _rest(chain, pinned)
    assert found == _rest(chain, state)
    assert all(found)


def test_all_is_in_one_container():
    """One section for the chain, one for each operator, each pattern and its events."""
    chain, state = _state()
    kinds = [(each.kind, each.operator) for each in read_container(to_bytes(chain, state))]
    assert kinds[:5] == [
        ("chain", ""),
        ("operator", "w"),
        ("pattern", "w"),
        ("operator", "v"),
        ("pattern", "v"),
    ]
    assert {kind for kind, _ in kinds[5:]} <= {"events"}


@settings(max_examples=100)
@given(st.data())
def test_damaged_bytes_are_always_found_out(data):
    """Cut off or changed anywhere."""
    chain, state = _state()
    good = bytearray(to_bytes(chain, state))
    place = data.draw(st.integers(0, len(good) - 1))
    if data.draw(st.booleans()):
        bad = bytes(good[:place])
    else:
        good[place] ^= data.draw(st.integers(1, 255))
        bad = bytes(good)
    with pytest.raises(StateError, match="saved state"):
        from_bytes(chain, bad)
