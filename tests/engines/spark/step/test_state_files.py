"""Large states of shards: whatever worker goes on, from whatever it holds, all is the same."""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.spark.step import state_files
from shedlight.engines.spark.step.advance import WatermarkUpdate, advance
from shedlight.engines.spark.step.chain import new_chain_state
from shedlight.engines.spark.step.saved import from_bytes, to_bytes
from shedlight.engines.spark.step.state_files import read_state, write_state
from shedlight.errors import StateError
from shedlight.matching.operators.reorder import FOREVER
from tests.engines.spark.step.test_chain import JOINED, LAST, READ, build_two, rows_table

_CHAIN = build_two()
_EVERY = range(40)


def _advance(state, number):
    """Send four events; of the stream's two origins the second is three events behind."""
    rows = [(10 * i, f"e{i}", i % 5 % 3) for i in range(4 * number, 4 * number + 4)]
    times = [WatermarkUpdate(READ, origin, rows[-1][0] - 30 * origin) for origin in (0, 1)]
    state, result = advance(_CHAIN, state, {READ: rows_table(rows)}, times)
    return state, [result.outputs[stream].to_pylist() for stream in (JOINED, LAST)]


def _undisturbed():
    found, state = [], new_chain_state(_CHAIN)
    for number in _EVERY:
        state, outputs = _advance(state, number)
        found.append(outputs)
    return found


_FOUND = _undisturbed()


@dataclass
class _Workers:
    """Two processes, as far as what they hold goes; the module holds that of one at a time."""

    held: list[dict[Path, state_files.HeldState]] = field(default_factory=lambda: [{}, {}])

    def run(self, worker, folder, row, number, min_bytes):
        """Run a micro-batch in a worker; give the row it would have Spark commit."""
        state_files.HELD.clear()
        state_files.HELD.update(self.held[worker])
        before = read_state(_CHAIN, folder, row)
        state, outputs = _advance(before.state, number)
        row, _ = write_state(_CHAIN, folder, before, state, min_bytes)
        self.held[worker] = dict(state_files.HELD)
        return row, outputs


_steps = st.lists(
    st.tuples(
        st.integers(0, 1),  # the worker that runs it
        st.integers(0, 2),  # attempts that are lost before, by the other worker
        st.booleans(),  # whether the worker was just started
        st.integers(0, 3),  # how many micro-batches Spark goes back after it
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(_steps, st.sampled_from([0, 1500, 4000]), st.sampled_from([1, 3, 64]))
def test_matches_are_those_of_an_undisturbed_run(steps, min_bytes, changes):
    """Workers change, start anew, hold what was not committed; tasks and runs are repeated."""
    before, state_files.MAX_CHANGES = state_files.MAX_CHANGES, changes
    try:
        with TemporaryDirectory() as name:
            _run(steps, Path(name) / "0", min_bytes)
    finally:
        state_files.MAX_CHANGES = before


def _run(steps, folder, min_bytes):
    workers, rows = _Workers(), [None]
    for worker, lost, is_new, back in steps:
        number = len(rows) - 1
        if number == len(_EVERY):
            return
        for _ in range(lost):
            workers.run(1 - worker, folder, rows[-1], number, min_bytes)
        if is_new:
            workers.held[worker] = {}
        row, outputs = workers.run(worker, folder, rows[-1], number, min_bytes)
        assert outputs == _FOUND[number]
        rows.append(row)
        del rows[max(1, len(rows) - back) :]


def test_a_state_that_is_read_again_is_the_state_that_was_written(tmp_path):
    """Byte by byte, without its gaps, after any number of changes."""
    row = None
    for number in _EVERY:
        before = read_state(_CHAIN, tmp_path / "0", row)
        state, _ = _advance(before.state, number)
        row, _ = write_state(_CHAIN, tmp_path / "0", before, state, 0)
        state_files.HELD.clear()
        again = read_state(_CHAIN, tmp_path / "0", row).state
        once_more = from_bytes(_CHAIN, to_bytes(_CHAIN, again))
        assert _rest(again) == _rest(once_more) == _rest(state)


def _rest(state):
    rows = rows_table([(10_000 + i, f"r{i}", i % 3) for i in range(9)])
    ends = [WatermarkUpdate(READ, origin, FOREVER) for origin in (0, 1)]
    _, done = advance(_CHAIN, state, {READ: rows}, ends)
    return [done.outputs[stream].to_pylist() for stream in (JOINED, LAST)]


def test_old_files_are_removed(tmp_path, monkeypatch):
    """Ten micro-batches back can be read; what is older than the whole state before is gone."""
    monkeypatch.setattr(state_files, "MAX_CHANGES", 3)
    row, rows = None, []
    for number in _EVERY:
        before = read_state(_CHAIN, tmp_path / "0", row)
        state, _ = _advance(before.state, number)
        row, _ = write_state(_CHAIN, tmp_path / "0", before, state, 0)
        rows.append(row)
        state_files.HELD.clear()
    assert len(list((tmp_path / "0").iterdir())) < 10 + 2 * 4
    for old in rows[-10:]:
        read_state(_CHAIN, tmp_path / "0", old)


def test_a_file_that_is_gone_is_named(tmp_path):
    """A user may have a copy of it."""
    state, _ = _advance(new_chain_state(_CHAIN), 0)
    before = read_state(_CHAIN, tmp_path / "0", None)
    row, _ = write_state(_CHAIN, tmp_path / "0", before, state, 0)
    state_files.HELD.clear()
    (gone,) = (tmp_path / "0").iterdir()
    gone.unlink()
    with pytest.raises(StateError, match=f"{gone.name} cannot be read"):
        read_state(_CHAIN, tmp_path / "0", row)
