"""The shedder: whether an event is kept, by a hash of its id and never at random.

An event is kept for a pattern if the hash of its id is below the pattern's share of all hashes.
The hash is the same for all patterns, so an event that one keeps is likelier kept by another;
it is Spark's `xxhash64`, so that Spark and the simulator shed the very same events; and a
replay sheds them again.

Patterns that are shed by key hash the key, and an epoch that changes every ten windows: with
the same keys kept for good, the others would never be seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Attribute
from shedlight.language.eval.column import Column
from shedlight.matching.hashing import hash_rows
from shedlight.matching.jit import Array, compiled
from shedlight.matching.operators.classify import EventTypes, count_numbers
from shedlight.matching.permuted import PermutedTable, row_column
from shedlight.model.arrays import Floats
from shedlight.shedding.shares import PatternShares

EPOCH_WINDOWS = 10  # how many windows the same keys are kept

_LOWEST, _HASHES = -(1 << 63), 1 << 64


def threshold(share: float) -> int:
    """Find the hash below which an event is kept, as the signed number that Spark computes.

    Example:
        >>> threshold(0.5), threshold(0.0) == -(1 << 63)
        (0, True)
    """
    return _LOWEST + min(int(share * _HASHES), _HASHES - 1)


def thresholds(shares: Floats) -> Array:
    """Find the same for many shares below one at once."""
    hashes = np.clip(shares, 0.0, 1.0 - 2.0**-53) * float(_HASHES)
    return (hashes.astype(np.uint64) ^ np.uint64(1 << 63)).view(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class KeepDecision:
    """Which events of a batch a pattern keeps."""

    mask: Array  # whether each event is kept
    # labels of types that the plan does not know; they have its mean share
    unknown: tuple[str, ...]


def kept_events(
    shares: PatternShares, types: EventTypes, numbers: Array, hashes: Array
) -> KeepDecision:
    """Say which events of a batch a pattern keeps.

    Numbers are the types of the events, hashes those of their ids or of their keys.
    """
    thresholds = np.full(len(types.signatures), _LOWEST, np.int64)
    keep_all = np.zeros(len(types.signatures), np.bool_)
    unknown = []
    for number, label in _occurring(types, numbers):
        if label and label not in shares.shares:
            unknown.append(label)
        share = shares.shares.get(label, shares.mean if label else 0.0)
        thresholds[number], keep_all[number] = threshold(share), share >= 1
    mask = np.empty(len(numbers), np.bool_)
    _decide(numbers, hashes, thresholds, keep_all, mask)
    return KeepDecision(mask, tuple(unknown))


def keeps_all(shares: PatternShares, types: EventTypes, numbers: Array) -> bool:
    """Say whether a pattern keeps all events of a batch that are relevant to it."""
    labels = {label for _, label in _occurring(types, numbers) if label}
    return all(shares.shares.get(label, shares.mean) >= 1 for label in labels)


def _occurring(types: EventTypes, numbers: Array) -> list[tuple[int, str]]:
    """List the types that occur: their numbers and their labels."""
    occurring = np.flatnonzero(count_numbers(numbers, len(types.signatures))).tolist()
    return [(number, types.label(number)) for number in occurring]


@compiled
def _decide(
    numbers: Array, hashes: Array, thresholds: Array, keep_all: Array, mask: Array
) -> None:
    for i in range(numbers.shape[0]):
        number = numbers[i]
        mask[i] = keep_all[number] or hashes[i] < thresholds[number]


def event_hashes(table: pa.Table | PermutedTable, ids: Sequence[str]) -> Array:
    """Hash the ids of events."""
    return hash_rows([row_column(table, Attribute("", (name,))) for name in ids], len(table))


def key_hashes(
    table: pa.Table | PermutedTable, key: Sequence[Attribute], time: Array, window: int
) -> Array:
    """Hash the keys of events, with an epoch of event time.

    The window is the longest of all patterns of this key; both are in microseconds.
    """
    epochs = time // (EPOCH_WINDOWS * window)
    epoch = Column(DataType.BIGINT, epochs, np.ones(len(time), np.bool_))
    return hash_rows([*(row_column(table, column) for column in key), epoch], len(table))
