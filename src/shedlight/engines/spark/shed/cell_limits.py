"""What the patterns of an operator keep, as numbers that the JVM looks up, cell by cell.

A *cell* is an event type or, where keys are shed in strata, a stratum and a type. Limits are

    head      below which hash of its id the key of an event is looked at, and below which hash
              of its key all of it is
    cell      flags of the patterns that keep all of it; whether any other asks for hashes;
              flags of those that the unshed sample spares; then entries
    ...

An *entry* is for a pattern that keeps a share of a cell: its flag and the hash below which it
keeps an event; in strata that of a key, those of an event whose key is not open and is, and
where the bits of open keys are. A cell has as many entries as there are patterns that can take
one event type, at most: of a thousand patterns perhaps three. So neither what is looked up nor
the code that Spark makes of it grows with patterns that have nothing to do with a type. The JVM
never compiles a method of more than 8,000 bytes: it takes ten times as long.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from shedlight.engines.spark.shed.jvm_callback import Numbers
from shedlight.engines.spark.support.plan_store import WORD
from shedlight.matching.jit import Array
from shedlight.model.arrays import Flags
from shedlight.shedding.shedder import threshold

HEAD = 2  # how many numbers come before the first cell
LOOKED_AT, HISTORY = range(HEAD)
FLAG, BELOW = range(2)  # what an entry has, where keys are all alike
BY_KEY, OF_OTHERS, OF_OPEN, BITS = range(1, 5)  # what it has after the flag, in strata
NEVER = -(1 << 63)  # the hash below which nothing is kept


@dataclass(frozen=True, slots=True)
class EntryGroup:
    """Entries for patterns whose flags are in one word, and that ask for one hash."""

    word: int
    hashed: int  # the number of the hash
    patterns: tuple[int, ...]  # by the numbers of their flags
    count: int  # how many of them can take one event type, at most


@dataclass(frozen=True, slots=True)
class CellLayout:
    """Where the numbers of a cell are."""

    words: int  # how many words of flags
    samples: int  # how many words of flags are of the unshed sample
    groups: tuple[EntryGroup, ...]
    # where keys are shed in strata: by the number of a flag, where in what is known of keys the
    # bits of open ones begin; else empty
    bits: tuple[int, ...] = ()

    @property
    def undecided(self) -> int:
        """Whether hashes are asked for."""
        return self.words

    @property
    def sample(self) -> int:
        """Where the flags begin of patterns that the unshed sample spares."""
        return self.words + 1

    @property
    def entry_size(self) -> int:
        """How many numbers an entry has."""
        return BITS + 1 if self.bits else BELOW + 1

    @property
    def size(self) -> int:
        """How many numbers a cell has."""
        entries = sum(group.count for group in self.groups)
        return self.sample + self.samples + self.entry_size * entries

    def places(self) -> Iterator[tuple[EntryGroup, int]]:
        """Give the groups, and where in a cell their entries begin."""
        place = self.sample + self.samples
        for group in self.groups:
            yield group, place
            place += group.count * self.entry_size

    def entries(self) -> Iterator[tuple[EntryGroup, int]]:
        """Give the entries: the group of each, and where it begins."""
        for group, place in self.places():
            for number in range(group.count):
                yield group, place + number * self.entry_size


def group_entries(
    relevant: Sequence[Sequence[bool]], hashed: Sequence[Hashable]
) -> tuple[EntryGroup, ...]:
    """Group patterns by the words of their flags, and by what they hash."""
    numbers = {each: number for number, each in enumerate(dict.fromkeys(hashed))}

    def key(flag: int) -> tuple[int, int]:
        return flag // WORD, numbers[hashed[flag]]

    groups = []
    for (word, number), flags in groupby(sorted(range(len(hashed)), key=key), key):
        patterns = tuple(flags)
        uses = np.array([relevant[flag] for flag in patterns], np.bool_)
        if uses.any():
            groups.append(EntryGroup(word, number, patterns, int(uses.sum(axis=0).max())))
    return tuple(groups)


def write_cells(
    whole: Flags, below: Sequence[Array], spared: Sequence[Flags], layout: CellLayout
) -> Numbers:
    """Write the cells of an operator.

    Args:
        whole: Whether a pattern keeps all of a cell; a row for each flag.
        below: The hashes below which it keeps events; `NEVER` where it keeps all or nothing.
        spared: Which patterns the unshed sample spares in a cell, for each of its keys.
        layout: Where they go.
    """
    cells = np.zeros((whole.shape[1], layout.size), np.int64)
    asks = np.any([part > NEVER for part in below], axis=0)
    flags = [*_flag_words(whole), asks.any(axis=0)]
    flags += [word for each in spared for word in _flag_words(each)]
    cells[:, : len(flags)] = np.stack(flags, axis=1)
    for group, place in layout.places():
        numbers = np.array(group.patterns)
        which, cell = np.nonzero(asks[numbers])
        rank = (np.cumsum(asks[numbers], axis=0) - 1)[which, cell]
        first, number = place + rank * layout.entry_size, numbers[which]
        cells[cell, first + FLAG] = 1 << number % WORD
        for offset, part in enumerate(below, 1):
            cells[cell, first + offset] = part[number, cell]
        if layout.bits:
            cells[cell, first + BITS] = np.array(layout.bits)[number]
    return np.asarray(cells.reshape(-1))


def _flag_words(flags: Flags) -> list[Numbers]:
    """Put the flags of each cell together, as many as go into a word."""
    words = [flags[start : start + WORD] for start in range(0, len(flags), WORD)]
    return [(1 << np.arange(len(word))) @ word for word in words]


def with_head(cells: Numbers, looked_at: float = 0.0, history: float = 0.0) -> Numbers:
    """Put shares of events and keys that are looked at before the cells."""
    return np.concatenate([[threshold(looked_at), threshold(history)], cells])
