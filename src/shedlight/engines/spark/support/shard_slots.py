"""Slots of shards: the numbers by which Spark groups their rows, one partition after the other.

Spark sends the rows of a group to the partition that the hash of its number says. Numbers that
follow each other often meet in one partition, 0 and 1 of two do, and then one core has the work
of both. So a shard is grouped by a number of its own, whose hash is where it is to be.

A checkpoint goes on where there are more or fewer cores, so that slots must not depend on how
many partitions there are: the hash of a slot leaves the number of its shard when divided by any
number up to 8, and by the number of shards of a chain.
"""

from math import lcm

import numpy as np

from shedlight.matching.jit import Array

_COMMON = lcm(*range(1, 9))
_TRIED = 1 << 16  # so many numbers are looked at together
_SEED = 42  # of Spark's `hash`


def shard_slots(shards: int, partitions: int) -> tuple[int, ...]:
    """Choose the slot of each shard, one partition after the other."""
    common = lcm(_COMMON, partitions)
    divisor = common * max(1, -(-shards // common))  # at least as many as there are shards
    slots: dict[int, int] = {}
    start = 0
    while len(slots) < shards:
        found = partitions_of(np.arange(start, start + _TRIED), divisor)
        for at in np.flatnonzero(found < shards):
            slots.setdefault(int(found[at]), start + int(at))
        start += _TRIED
    return tuple(slots[shard] for shard in range(shards))


def partitions_of(numbers: Array, partitions: int) -> Array:
    """Say to which partition Spark sends the rows of each group."""
    return _hash_ints(numbers).astype(np.int64) % partitions


def _hash_ints(numbers: Array) -> Array:
    """Hash integers of 32 bits as Spark does: MurmurHash3, as signed numbers."""
    mixed = _rotate(numbers.astype(np.uint32) * np.uint32(0xCC9E_2D51), 15)
    value = _rotate(np.uint32(_SEED) ^ mixed * np.uint32(0x1B87_3593), 13)
    value = value * np.uint32(5) + np.uint32(0xE654_6B64)
    value ^= np.uint32(4)  # how many bytes each has
    value = (value ^ value >> np.uint32(16)) * np.uint32(0x85EB_CA6B)
    value = (value ^ value >> np.uint32(13)) * np.uint32(0xC2B2_AE35)
    value ^= value >> np.uint32(16)
    signed: Array = value.view(np.int32)
    return signed


def _rotate(values: Array, bits: int) -> Array:
    return values << np.uint32(bits) | values >> np.uint32(32 - bits)
