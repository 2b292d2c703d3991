"""Large states of shards: files with the whole state and with what changed since.

A small state is a value in Spark's row. A large one would be carried from Spark to Python and
back, and be rewritten, in each micro-batch; so from a size on the row only names files, and a
micro-batch adds one with its change. Now and then the whole state is written again. A file is
complete before Spark commits the row that names it, and each has a name of its own, so that
attempts of a task do not meet; what no row names is removed with the others of its age.

The worker keeps the state of a shard. It counts only if Spark's row names the file that the
worker wrote last, and a name has a random token: tasks are repeated, and shards go from one
worker to another. A worker that has an earlier state of the shard reads what changed since, and
one that has none reads all.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shedlight.engines.spark.step.chain import ChainRuntime, ChainState, new_chain_state
from shedlight.engines.spark.step.filed_state import FiledState, read_filed_state
from shedlight.engines.spark.step.held_states import HeldState, HeldStates
from shedlight.engines.spark.step.saved import (
    from_bytes,
    from_sections,
    shrink_chain,
    to_bytes,
    to_sections,
)
from shedlight.errors import StateError
from shedlight.matching.state.changes import apply_change, write_change
from shedlight.matching.state.container import Section, read_container, write_container

MIN_FILE_BYTES = 1 << 20
"""From how many bytes on a state is large."""
MAX_CHANGES = 64
"""So many changes a worker that begins has to apply at most."""
_MAX_SHARE = 0.5  # so large may all changes be, as a share of the whole state


@dataclass(frozen=True, slots=True)
class StateFiles:
    """Where large states are, and what is kept of them."""

    folder: Path  # of a node, or of one of its shards
    min_bytes: int = MIN_FILE_BYTES  # from how many bytes on a state is large
    max_changes: int = MAX_CHANGES  # how many there are until the whole state is written again
    retained: int = 10  # how many micro-batches back a state can be read

    def of_shard(self, shard: int) -> "StateFiles":
        """Give those of a shard of a node."""
        return replace(self, folder=self.folder / str(shard))


def read_state(
    chain: ChainRuntime, files: StateFiles, held_states: HeldStates, row: bytes | None
) -> HeldState:
    """Read the state of a shard, given what Spark's row has, if there is one.

    Raises:
        StateError: It is damaged, of another version or of other operators, or a file is gone.
    """
    if row is None:
        return HeldState(chain, new_chain_state(chain))
    filed = read_filed_state(row)
    if filed is None:
        return HeldState(chain, from_bytes(chain, row))
    held = held_states.get(files.folder)
    if held and held.chain is chain and held.last_file == filed.files[-1]:
        return held
    if held and held.last_file in filed.files:
        sections = held.sections
        for name in filed.files[filed.files.index(held.last_file) + 1 :]:
            sections = apply_change(sections, _read_file(files.folder / name))
    else:
        sections = _read_sections(files, filed.files)
    return HeldState(chain, from_sections(chain, sections), filed, sections)


def read_whole(files: StateFiles, row: bytes) -> bytes:
    """Read the state of a shard as bytes, whole.

    Raises:
        StateError: It is of another version, or a file is gone.
    """
    filed = read_filed_state(row)
    return row if filed is None else write_container(_read_sections(files, filed.files))


def _read_sections(files: StateFiles, names: Sequence[str]) -> Sequence[Section]:
    """Read a whole state and what changed since."""
    sections: Sequence[Section] = read_container(_read_file(files.folder / names[0]))
    for name in names[1:]:
        sections = apply_change(sections, _read_file(files.folder / name))
    return sections


def write_state(
    files: StateFiles, held_states: HeldStates, before: HeldState, state: ChainState
) -> tuple[bytes, int]:
    """Write the state of a shard; give what Spark's row is to have, and how large it is.

    A state that was large once is written to files from then on.
    """
    chain, filed = before.chain, before.filed
    if filed is None:
        saved = to_bytes(chain, state)
        if len(saved) < files.min_bytes:
            return saved, len(saved)
        filed, held = _write_whole(chain, files, FiledState(), state)
    else:
        filed, held = _write_change(files, filed, before, state)
    held_states.hold(files.folder, held)
    return filed.to_bytes(), sum(filed.sizes)


def _write_change(
    files: StateFiles, filed: FiledState, before: HeldState, state: ChainState
) -> tuple[FiledState, HeldState]:
    chain, (whole, *changes) = before.chain, filed.sizes
    if len(changes) >= files.max_changes:
        return _write_whole(chain, files, filed, state)
    sections = to_sections(chain, state, with_gaps=True)
    change = write_change(before.sections, sections)
    if sum(changes) + len(change) > _MAX_SHARE * whole:
        return _write_whole(chain, files, filed, state)
    sequence = filed.sequence + 1
    name = _write_file(files.folder, sequence, change)
    new = FiledState(sequence, (*filed.files, name), (*filed.sizes, len(change)), filed.wholes)
    return new, HeldState(chain, state, new, sections)


def _write_whole(
    chain: ChainRuntime, files: StateFiles, filed: FiledState, state: ChainState
) -> tuple[FiledState, HeldState]:
    sequence = filed.sequence + 1
    state = shrink_chain(state)
    sections: Sequence[Section] = to_sections(chain, state, with_gaps=True)
    data = write_container(sections)
    name = _write_file(files.folder, sequence, data)
    wholes = (*filed.wholes, sequence)
    retained = sequence - files.retained
    oldest = max((each for each in wholes if each <= retained), default=wholes[0])
    _remove_before(files.folder, oldest)
    kept = tuple(each for each in wholes if each >= oldest)
    new = FiledState(sequence, (name,), (len(data),), kept)
    return new, HeldState(chain, state, new, sections)


def _write_file(folder: Path, sequence: int, data: bytes) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{sequence:012}-{secrets.token_hex(8)}"
    try:
        (folder / name).write_bytes(data)
    except OSError:  # a full disk: attempts to come need the room
        (folder / name).unlink(missing_ok=True)
        raise
    return name


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StateError(
            f"{path} cannot be read ({error.strerror}); put it back as it was, "
            "or start with a new checkpoint"
        ) from error


def _remove_before(folder: Path, sequence: int) -> None:
    """Remove files that no state needs that can still be read."""
    for path in _files_before(folder, sequence):
        path.unlink(missing_ok=True)


def _files_before(folder: Path, sequence: int) -> Iterator[Path]:
    for path in folder.iterdir():
        number, dash, _ = path.name.partition("-")
        if dash and number.isdigit() and int(number) < sequence:
            yield path
