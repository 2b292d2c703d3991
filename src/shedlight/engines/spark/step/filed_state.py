"""What Spark's row says of a large state of a shard: the names of its files."""

import json
from dataclasses import asdict, dataclass

from shedlight.errors import StateError

_PREFIX = b"SHEDLIGHT-STATE-FILES "
_VERSION = 1


@dataclass(frozen=True, slots=True)
class FiledState:
    """The files of a large state. No file was written yet of one that has none."""

    sequence: int = 0  # how many times it was written
    files: tuple[str, ...] = ()  # the whole state, and its changes in order
    sizes: tuple[int, ...] = ()  # of each file, in bytes
    wholes: tuple[int, ...] = ()  # when the whole state was written, as far as it is kept

    def to_bytes(self) -> bytes:
        """Write it for Spark's row."""
        return _PREFIX + json.dumps({"version": _VERSION, **asdict(self)}).encode()


def read_filed_state(row: bytes) -> FiledState | None:
    """Read the files that a row names; None: it has the state itself.

    Raises:
        StateError: It is of another version.
    """
    if not row.startswith(_PREFIX):
        return None
    given = json.loads(row[len(_PREFIX) :])
    if given.pop("version") != _VERSION:
        raise StateError(
            "the saved state was written by another version of Shedlight; "
            "start with a new checkpoint"
        )
    sequence = given.pop("sequence")
    return FiledState(sequence, **{name: tuple(value) for name, value in given.items()})
