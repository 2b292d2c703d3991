"""Large states of shards: whatever worker goes on, from whatever it holds, all is the same."""

import errno
import resource
import signal
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.spark.step.advance import advance
from shedlight.engines.spark.step.chain import ChainRuntime, build_chain, new_chain_state
from shedlight.engines.spark.step.held_states import HeldStates
from shedlight.engines.spark.step.parts import WatermarkUpdate
from shedlight.engines.spark.step.saved import from_bytes, to_bytes
from shedlight.engines.spark.step.state_files import StateFiles, read_state, write_state
from shedlight.errors import StateError
from shedlight.matching.operators.reorder import FOREVER
from tests.engines.spark.step.test_chain import JOINED, LAST, READ, build_two, rows_table

_CHAIN = build_two()
_EVERY = range(40)
_RETAINED = 3


def _advance(state, number, chain=_CHAIN, other=0):
    """Send four events; of the stream's two origins the second is three events behind.

    If `other` is not 0 they are others: a state that must never be taken for the right one.
    """
    every = range(4 * number, 4 * number + 4)
    rows = [(10 * i, f"e{i + 1000 * other}", (i + other) % 5 % 3) for i in every]
    times = [WatermarkUpdate(READ, origin, rows[-1][0] - 30 * origin) for origin in (0, 1)]
    state, result = advance(chain, state, {READ: rows_table(rows)}, times)
    return state, [result.outputs[stream].to_pylist() for stream in (JOINED, LAST)]


def _rest(state, chain=_CHAIN):
    """Give what is found after a state; that of equal states is equal."""
    rows = rows_table([(10_000 + i, f"r{i}", i % 3) for i in range(9)])
    ends = [WatermarkUpdate(READ, origin, FOREVER) for origin in (0, 1)]
    _, done = advance(chain, state, {READ: rows}, ends)
    return [done.outputs[stream].to_pylist() for stream in (JOINED, LAST)]


def _kept_whole():
    """Run all micro-batches with a state that is never saved: outputs, and what comes after."""
    found, state = [], new_chain_state(_CHAIN)
    for number in _EVERY:
        state, outputs = _advance(state, number)
        found.append((outputs, _rest(state)))
    return found


_FOUND = _kept_whole()


class _Crash(Enum):
    """Where an attempt that is lost ends."""

    BEFORE_WRITING = 0
    WITHIN_THE_FILE = 1
    WHILE_REMOVING = 2
    AFTER_WRITING = 3


@dataclass
class _Worker:
    """A Python worker: the chain as it built it, and the states that it holds."""

    chain: ChainRuntime
    held: HeldStates

    def attempt(self, files, row, number, other=0):
        """Run a micro-batch; give the row that it would have Spark commit."""
        before = read_state(self.chain, files, self.held, row)
        state, outputs = _advance(before.state, number, self.chain, other)
        new, _ = write_state(files, self.held, before, state)
        return new, outputs, _rest(state, self.chain)

    def lose(self, files, row, number, crash, survives):
        """Run an attempt that ends before Spark hears of it."""
        before = _contents(files.folder)
        if crash is _Crash.BEFORE_WRITING:
            held = read_state(self.chain, files, self.held, row)
            _advance(held.state, number, self.chain, other=1)
            return
        self.attempt(files, row, number, other=1)
        if crash is _Crash.AFTER_WRITING:
            return
        for name in _contents(files.folder).keys() - before.keys():
            if crash is _Crash.WITHIN_THE_FILE:
                path = files.folder / name
                path.write_bytes(path.read_bytes()[:100])
        removed = sorted(before.keys() - _contents(files.folder).keys())
        for place, name in enumerate(removed):
            if crash is _Crash.WITHIN_THE_FILE or survives >> place & 1:
                (files.folder / name).write_bytes(before[name])


def _contents(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*")}


@dataclass
class _Run:
    """Shards whose micro-batches Spark gives to workers, with the rows that it committed."""

    files: StateFiles
    max_held: int
    workers: list[_Worker] = field(init=False)
    rows: list[list[bytes | None]] = field(init=False)
    newest: list[int] = field(init=False)

    def __post_init__(self):
        self.workers = [self.start(), self.start()]
        self.rows, self.newest = [[None], [None]], [0, 0]

    def start(self):
        """Start a worker, which builds the operators again."""
        return _Worker(build_chain(_CHAIN.definition), HeldStates(self.max_held))

    def step(self, step):
        """Run the next micro-batch of a shard, after attempts that are lost."""
        files, rows = self.files.of_shard(step.shard), self.rows[step.shard]
        number = len(rows) - 1
        if number == len(_EVERY):
            return
        for who, crash, survives, is_end in step.lost:
            self.workers[who].lose(files, rows[-1], number, crash, survives)
            if is_end:
                self.workers[who] = self.start()
        row, *found = self.workers[step.worker].attempt(files, rows[-1], number)
        assert tuple(found) == _FOUND[number]
        rows.append(row)
        self.newest[step.shard] = max(self.newest[step.shard], number + 1)
        least = max(self.newest[step.shard] - _RETAINED, 0)
        del rows[max(least, len(rows) - 1 - step.back) + 1 :]


@dataclass(frozen=True)
class _Step:
    """A micro-batch of a shard."""

    shard: int
    worker: int  # that runs it
    # attempts before it: by whom, where they end, which files stay, whether the worker ends
    lost: list[tuple[int, _Crash, int, bool]]
    back: int  # how many micro-batches Spark goes back after it


_steps = st.lists(
    st.builds(
        _Step,
        st.integers(0, 1),
        st.integers(0, 1),
        st.lists(
            st.tuples(
                st.integers(0, 1), st.sampled_from(_Crash), st.integers(0, 255), st.booleans()
            ),
            max_size=2,
        ),
        st.sampled_from([0, 0, 0, 1, 2, 3]),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(
    _steps,
    st.sampled_from([0, 1500, 4000]),
    st.sampled_from([1, 3, 64]),
    st.sampled_from([0, 5_000, 1 << 20]),
)
def test_matches_are_those_of_a_state_that_is_kept_whole(steps, min_bytes, changes, max_held):
    """Workers change, end, hold what was not committed, or have no room; Spark goes back.

    Attempts end before a file is written, in the middle of it, or while old ones are removed.
    """
    with TemporaryDirectory() as name:
        files = StateFiles(Path(name), min_bytes, changes, _RETAINED)
        run = _Run(files, max_held)
        for step in steps:
            run.step(step)


def _written_one_after_the_other(files):
    """Write the states of all micro-batches, each by a worker that holds nothing."""
    row, rows, states = None, [], []
    for number in _EVERY:
        before = read_state(_CHAIN, files, HeldStates(), row)
        state, _ = _advance(before.state, number)
        row, _ = write_state(files, HeldStates(), before, state)
        rows.append(row)
        states.append(state)
    return rows, states


def test_a_state_that_is_read_again_is_the_state_that_was_written(tmp_path):
    """With its gaps and without, after any number of changes."""
    files = StateFiles(tmp_path, 0, retained=1000)
    for row, state in zip(*_written_one_after_the_other(files), strict=True):
        again = read_state(_CHAIN, files, HeldStates(), row).state
        once_more = from_bytes(_CHAIN, to_bytes(_CHAIN, again))
        assert _rest(again) == _rest(once_more) == _rest(state)


@pytest.mark.parametrize("retained", [1, 10])
def test_old_files_are_removed_when_no_micro_batch_can_need_them(tmp_path, retained):
    """As many micro-batches back as Spark goes can be read; all else goes, but not others'."""
    (tmp_path / "notes").write_text("a user's own")
    files = StateFiles(tmp_path, 0, 3, retained)
    rows, states = _written_one_after_the_other(files)
    assert len(list(tmp_path.glob("0*"))) < retained + 2 * 4
    for row, state in list(zip(rows, states, strict=True))[-1 - retained :]:
        assert _rest(read_state(_CHAIN, files, HeldStates(), row).state) == _rest(state)
    assert (tmp_path / "notes").exists()


def test_a_worker_holds_the_states_that_it_wrote_last_as_far_as_there_is_room(tmp_path):
    """Any number of shards takes no more; the last one stays even if it is larger."""
    files = StateFiles(tmp_path, 0)
    before = read_state(_CHAIN, files, HeldStates(), None)
    state, _ = _advance(before.state, 0)
    row, _ = write_state(files.of_shard(0), HeldStates(), before, state)
    size = read_state(_CHAIN, files.of_shard(0), HeldStates(), row).size
    for room, expected in ((0, {7}), (2 * size + 1, {7, 8}), (3 * size, {6, 7, 8})):
        held = HeldStates(room)
        for shard in (*range(9), 7):
            write_state(files.of_shard(shard), held, before, state)
        found = {shard for shard in range(9) if held.get(files.of_shard(shard).folder)}
        assert found == expected


def test_a_file_that_is_gone_is_named(tmp_path):
    """A user may have a copy of it."""
    files = StateFiles(tmp_path, 0)
    before = read_state(_CHAIN, files, HeldStates(), None)
    row, _ = write_state(files, HeldStates(), before, _advance(before.state, 0)[0])
    (gone,) = tmp_path.iterdir()
    gone.unlink()
    with pytest.raises(StateError, match=f"{gone.name} cannot be read"):
        read_state(_CHAIN, files, HeldStates(), row)


def test_a_full_disk_keeps_no_half_of_a_file(tmp_path):
    """Attempts to come need the room; the state before can be read."""
    files, held = StateFiles(tmp_path, 0), HeldStates()
    before = read_state(_CHAIN, files, held, None)
    row, _ = write_state(files, held, before, _advance(before.state, 0)[0])
    there = _contents(tmp_path)
    before = read_state(_CHAIN, files, held, row)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError) as raised:  # noqa: PT011  # its number says it
            write_state(replace(files, max_changes=0), held, before, before.state)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert raised.value.errno == errno.EFBIG
    assert _contents(tmp_path) == there
    assert read_state(_CHAIN, files, held, row) is before
