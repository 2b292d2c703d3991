"""Slots of shards: the numbers by which Spark groups their rows, one partition after the other.

Spark sends the rows of a group to the partition that the hash of its number says. Numbers that
follow each other often meet in one partition, 0 and 1 of two do, and then one core has the work
of both. So a shard is grouped by a number of its own, whose hash is where it is to be.
"""

from collections.abc import Iterator
from itertools import count

_MASK = 0xFFFF_FFFF
_SEED = 42  # of Spark's `hash`


def shard_slots(shards: int, partitions: int) -> tuple[int, ...]:
    """Choose the slot of each shard, one partition after the other."""
    free = [_slots_in(at, partitions) for at in range(partitions)]
    return tuple(next(free[shard % partitions]) for shard in range(shards))


def _slots_in(partition: int, partitions: int) -> Iterator[int]:
    return (n for n in count() if partition_of(n, partitions) == partition)


def partition_of(number: int, partitions: int) -> int:
    """Say to which partition Spark sends the rows of a group."""
    return _hash_int(number) % partitions


def _hash_int(number: int) -> int:
    """Hash an integer of 32 bits as Spark does: MurmurHash3, as a signed number."""
    mixed = _rotate(number * 0xCC9E_2D51 & _MASK, 15) * 0x1B87_3593 & _MASK
    value = _rotate(_SEED ^ mixed, 13) * 5 + 0xE654_6B64 & _MASK
    value ^= 4  # how many bytes it has
    value = (value ^ value >> 16) * 0x85EB_CA6B & _MASK
    value = (value ^ value >> 13) * 0xC2B2_AE35 & _MASK
    value ^= value >> 16
    return value - (1 << 32) if value >> 31 else value


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
