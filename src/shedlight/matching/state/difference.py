"""What changed from one run of bytes to the next: which stretches are copied, and the rest.

Rows of arrays are changed where they are, added at the end, and removed from the front or in
between. So both runs of bytes are walked through side by side; where they differ, the walk goes
on at the next place where they agree again: a little further in both, further in the old one
(something was removed) or in the new one (something was added). A difference is exact whatever
was found; a place that was missed makes it larger.
"""

import struct

import numpy as np

from shedlight.errors import StateError
from shedlight.matching.jit import Array, compiled, jit_inline

_SIZES = struct.Struct("<qqq")  # of the old bytes, of the new ones, how many stretches
_MIN_COPY = 48  # bytes of a stretch; a shorter one is not worth naming
_AGREE = 24  # so many equal bytes are a place where both agree again
_NEAR = 512  # how far both are walked on before something is taken for removed or added
_FAR = 1 << 22  # how far is looked for that
_BLOCK = 256  # so many bytes are compared together


def difference(old: bytes, new: bytes) -> bytes:
    """Say how new bytes are made of old ones."""
    before, after = np.frombuffer(old, np.uint8), np.frombuffer(new, np.uint8)
    stretches = np.empty((len(after) // _MIN_COPY + 1, 3), np.int64)
    stretches = stretches[: _find_copies(before, after, stretches, len(after))]
    added = np.empty(len(after) - int(stretches[:, 2].sum()), np.uint8)
    _leave_out(stretches, after, added)
    sizes = _SIZES.pack(len(old), len(new), len(stretches))
    return b"".join([sizes, stretches.tobytes(), added.tobytes()])


def apply_difference(old: bytes, change: bytes) -> bytes:
    """Make the new bytes of the old ones.

    Raises:
        StateError: It is a difference to other bytes.
    """
    old_size, new_size, number = _SIZES.unpack_from(change)
    if old_size != len(old):
        raise StateError(
            f"a change to a saved state is of {old_size} bytes, but there are {len(old)}; "
            "take an older copy of the checkpoint, or start with a new one"
        )
    stretches = np.frombuffer(change, np.int64, 3 * number, _SIZES.size).reshape(-1, 3)
    added = np.frombuffer(change, np.uint8, offset=_SIZES.size + stretches.nbytes)
    new = np.empty(new_size, np.uint8)
    _copy(np.frombuffer(old, np.uint8), added, stretches, new)
    return new.tobytes()


@compiled
def _find_copies(old: Array, new: Array, stretches: Array, budget: int) -> int:
    """List stretches that are copied: where in the old bytes, where in the new, how long."""
    number = at = i = 0
    while at < len(new) and i < len(old):
        length = _equal_bytes(old, i, new, at)
        if length >= _MIN_COPY:
            stretches[number] = i, at, length
            number += 1
        i, at = i + length, at + length
        if at >= len(new) or i >= len(old):
            break
        near = _look_near(old, i, new, at)
        if near:
            i, at = i + near, at + near
            continue
        far = min(_FAR, budget)
        removed, added = _look_far(old, i, new, at, far)
        budget -= max(removed, added) or far
        if removed or added:
            i, at = i + removed, at + added
        else:
            i, at = i + _NEAR, at + _NEAR
    return number


@jit_inline
def _equal_bytes(old: Array, i: int, new: Array, at: int) -> int:
    """Count equal bytes from two places on."""
    size, length = min(len(old) - i, len(new) - at), 0
    while length + _BLOCK <= size:
        before, after = old[i + length :], new[at + length :]
        differ = np.uint8(0)
        for k in range(np.uint64(_BLOCK)):  # all at once, as vectors: no sign, no early end
            differ |= before[k] ^ after[k]
        if differ:
            break
        length += _BLOCK
    while length < size and old[i + length] == new[at + length]:
        length += 1
    return length


@jit_inline
def _agree(old: Array, i: int, new: Array, at: int, size: int) -> bool:
    if i + size > len(old) or at + size > len(new):
        return False
    for k in range(size):  # noqa: SIM110  # compiled
        if old[i + k] != new[at + k]:
            return False
    return True


@jit_inline
def _look_near(old: Array, i: int, new: Array, at: int) -> int:
    for step in range(1, _NEAR):
        if _agree(old, i + step, new, at + step, _AGREE):
            return step
    return 0


@jit_inline
def _look_far(old: Array, i: int, new: Array, at: int, far: int) -> tuple[int, int]:
    """Say how many bytes were removed from the old ones here, and how many added to the new.

    As many of both: they were written over, a long stretch of them; to believe that takes more
    than a few equal bytes. 0 and 0: nothing of the sort is to be seen.
    """
    for step in range(1, far):
        if _agree(old, i + step, new, at, _AGREE):
            return step, 0
        if _agree(old, i, new, at + step, _AGREE):
            return 0, step
        if _agree(old, i + step, new, at + step, _BLOCK):
            return step, step
    return 0, 0


@compiled
def _leave_out(stretches: Array, new: Array, added: Array) -> None:
    """Give what is between stretches."""
    end = taken = 0
    for number in range(len(stretches)):
        at, length = stretches[number, 1], stretches[number, 2]
        added[taken : taken + at - end] = new[end:at]
        taken += at - end
        end = at + length
    added[taken:] = new[end:]


@compiled
def _copy(old: Array, added: Array, stretches: Array, new: Array) -> None:
    end = taken = 0
    for number in range(len(stretches)):
        start, at, length = stretches[number]
        new[end:at] = added[taken : taken + at - end]
        taken += at - end
        new[at : at + length] = old[start : start + length]
        end = at + length
    new[end:] = added[taken:]
