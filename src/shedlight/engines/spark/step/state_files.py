"""Large states of shards: files with the whole state and with what changed since.

A small state is a value in Spark's row. A large one would be carried from Spark to Python and
back, and be rewritten, in each micro-batch; so from a size on the row only names files, and a
micro-batch adds one with its change. Now and then the whole state is written again. A file is
complete before Spark commits the row that names it, and each has a name of its own, so that
attempts of a task do not meet; what no row names is removed with the others of its age.

The worker keeps the state of a shard. It counts only if Spark's row has the same token, which
is random in each write: tasks are repeated, and shards go from one worker to another. A worker
that has an earlier state of the shard reads what changed since.
"""

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from shedlight.engines.spark.step.chain import ChainRuntime, ChainState, new_chain_state
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
_RETAINED = 10  # how many micro-batches back a state can be read, as in Spark's own checkpoint
_PREFIX = b"SHEDLIGHT-STATE-FILES "
_VERSION = 1


@dataclass(frozen=True, slots=True)
class FiledState:
    """What Spark's row says of a large state."""

    sequence: int  # how many times it was written
    files: tuple[str, ...]  # the whole state, and its changes in order; each ends in its token
    sizes: tuple[int, ...]  # of each file, in bytes
    wholes: tuple[int, ...]  # when the whole state was written, as far as its files are there

    def to_bytes(self) -> bytes:
        """Write it for Spark's row."""
        return _PREFIX + json.dumps({"version": _VERSION, **asdict(self)}).encode()


def _read_row(data: bytes) -> FiledState | None:
    """Read what a row says; None: it has the state itself."""
    if not data.startswith(_PREFIX):
        return None
    given = json.loads(data[len(_PREFIX) :])
    if given.pop("version") != _VERSION:
        raise StateError(
            "the saved state was written by another version of Shedlight; "
            "start with a new checkpoint"
        )
    sequence = given.pop("sequence")
    return FiledState(sequence, **{name: tuple(value) for name, value in given.items()})


@dataclass(frozen=True, slots=True, eq=False)
class HeldState:
    """The state of a shard in a worker; `filed` and `sections` are those of a large one."""

    state: ChainState
    filed: FiledState | None = None
    sections: Sequence[Section] = ()  # what its files have


HELD: dict[Path, HeldState] = {}
"""The large states that this worker wrote last, by the folder of their shard."""


def read_state(chain: ChainRuntime, folder: Path, data: bytes | None) -> HeldState:
    """Read the state of a shard, given its folder and what Spark's row has, if there is one.

    Raises:
        StateError: It is damaged, of another version or of other operators, or a file is gone.
    """
    if data is None:
        return HeldState(new_chain_state(chain))
    filed = _read_row(data)
    if filed is None:
        return HeldState(from_bytes(chain, data))
    held = HELD.get(folder)
    known = None if held is None or held.filed is None else held.filed.files[-1]
    if held is not None and known == filed.files[-1]:
        return held
    if held is not None and known in filed.files:
        sections, changes = held.sections, filed.files[filed.files.index(known) + 1 :]
    else:
        sections, changes = read_container(_read_file(folder / filed.files[0])), filed.files[1:]
    for name in changes:
        sections = apply_change(sections, _read_file(folder / name))
    return HeldState(from_sections(chain, sections), filed, sections)


def write_state(
    chain: ChainRuntime, folder: Path, before: HeldState, state: ChainState, min_bytes: int
) -> tuple[bytes, int]:
    """Write the state of a shard; give what Spark's row is to have, and how large it is.

    A state of at least `min_bytes` is written to files, from then on.
    """
    if before.filed is None:
        saved = to_bytes(chain, state)
        if len(saved) < min_bytes:
            return saved, len(saved)
        held = _write_whole(chain, folder, FiledState(0, (), (), ()), state)
    else:
        held = _write_change(chain, folder, before.filed, before.sections, state)
    HELD[folder] = held
    filed = held.filed
    assert filed is not None  # noqa: S101  # of a state that was just written to a file
    return filed.to_bytes(), sum(filed.sizes)


def _write_change(
    chain: ChainRuntime,
    folder: Path,
    filed: FiledState,
    old: Sequence[Section],
    state: ChainState,
) -> HeldState:
    whole, *changes = filed.sizes
    if len(changes) >= MAX_CHANGES:
        return _write_whole(chain, folder, filed, state)
    sections = to_sections(chain, state, with_gaps=True)
    change = write_change(old, sections)
    if sum(changes) + len(change) > _MAX_SHARE * whole:
        return _write_whole(chain, folder, filed, state)
    sequence = filed.sequence + 1
    name = _write_file(folder, sequence, change)
    files, sizes = (*filed.files, name), (*filed.sizes, len(change))
    return HeldState(state, FiledState(sequence, files, sizes, filed.wholes), sections)


def _write_whole(
    chain: ChainRuntime, folder: Path, filed: FiledState, state: ChainState
) -> HeldState:
    sequence = filed.sequence + 1
    state = shrink_chain(state)
    sections = to_sections(chain, state, with_gaps=True)
    data = write_container(sections)
    name = _write_file(folder, sequence, data)
    wholes = (*filed.wholes, sequence)
    oldest = max((each for each in wholes if each <= sequence - _RETAINED), default=wholes[0])
    _remove_before(folder, oldest)
    kept = tuple(each for each in wholes if each >= oldest)
    return HeldState(state, FiledState(sequence, (name,), (len(data),), kept), sections)


def _write_file(folder: Path, sequence: int, data: bytes) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{sequence:012}-{secrets.token_hex(8)}"
    (folder / name).write_bytes(data)
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
    return (path for path in folder.iterdir() if int(path.name.partition("-")[0]) < sequence)
