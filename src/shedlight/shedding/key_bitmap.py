"""Small numbers for keys, found by the lowest bits of their hashes: bitmaps, and wider ones.

A look-up is an index and a shift, in numpy as in the JVM. It has no false negatives: a key that
was put in has its number, and some that were not have the number of one of these. So it is
eight cells for a key, and more where others must not be taken for it.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shedlight.matching.jit import Array

MIN_BITS, MAX_BITS = 1 << 16, 1 << 24  # of a bitmap
BITS_PER_KEY = 8

_WORD = 64
_NO_WORDS = np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class KeyBitmap:
    """A set of keys: a bit for the lowest bits of a hash, from bit 0 of the first word on."""

    words: Array = field(default_factory=lambda: _NO_WORDS)  # as many as a power of two

    @classmethod
    def of(cls, hashes: Array, copies: int = 1) -> "KeyBitmap":
        """Put keys in by their hashes; `copies` such sets are to be joined.

        Example:
            >>> bitmap = KeyBitmap.of(np.array([5, -1]))
            >>> bitmap.has(np.array([5, -1, 6])).tolist()
            [True, True, False]
        """
        number = _power_of_two(len(hashes) * copies * BITS_PER_KEY, MIN_BITS, MAX_BITS)
        bits = np.zeros(number, np.bool_)
        bits[hashes & (number - 1)] = True
        return cls(np.packbits(bits, bitorder="little").view("<i8"))

    @property
    def mask(self) -> int:
        """The bits of a hash that are looked at."""
        return len(self.words) * _WORD - 1

    def has(self, hashes: Array) -> Array:
        """Say which keys are in it, and some that are not."""
        places = hashes & self.mask
        return np.asarray((self.words[places >> 6] >> (places & 63)) & 1, np.bool_)

    def join(self, other: "KeyBitmap") -> "KeyBitmap":
        """Give the keys of both; the smaller one is repeated to the size of the greater."""
        small, great = sorted((self.words, other.words), key=len)
        return KeyBitmap(np.tile(small, len(great) // len(small)) | great)


CODE_BITS = 2  # of a cell of a table of codes
_CELLS = _WORD // CODE_BITS  # in a word
_MIN_CELLS, _MAX_CELLS, _CELLS_PER_KEY = 1 << 16, 1 << 21, 16


@dataclass(frozen=True, slots=True, eq=False)
class KeyCodes:
    """A number from 0 to 3 for each key: a cell for the lowest bits of its hash."""

    words: Array = field(default_factory=lambda: _NO_WORDS)  # as many as a power of two

    @classmethod
    def of(cls, sets: "tuple[Array, ...]") -> "KeyCodes":
        """Number keys by the set they are in; of two in one cell the first set counts.

        Keys of no set have the number of sets, of which there are three at most.

        Example:
            >>> codes = KeyCodes.of((np.array([5]), np.array([7, 8])))
            >>> codes.find(np.array([5, 6, 7, 8])).tolist()
            [0, 2, 1, 1]
        """
        if not sets:
            return cls()
        least = sum(map(len, sets)) * _CELLS_PER_KEY
        number = _power_of_two(least, _MIN_CELLS, _MAX_CELLS)
        cells = np.full(number, len(sets), np.uint64)
        for code in reversed(range(len(sets))):
            cells[sets[code] & (number - 1)] = code
        shifts = np.arange(_CELLS, dtype=np.uint64) * np.uint64(CODE_BITS)
        words: Any = np.bitwise_or.reduce(cells.reshape(-1, _CELLS) << shifts, axis=1)
        return cls(words.view(np.int64))

    @property
    def mask(self) -> int:
        """The bits of a hash that are looked at."""
        return len(self.words) * _CELLS - 1

    def find(self, hashes: Array) -> Array:
        """Give the numbers of keys."""
        places = hashes & self.mask
        shifts = (places & (_CELLS - 1)) * CODE_BITS
        return np.asarray((self.words[places >> 5] >> shifts) & 3)


def _power_of_two(least: int, low: int, high: int) -> int:
    """Give the lowest power of two that is not less than a number, between two others."""
    return min(high, max(low, 1 << max(0, int(least) - 1).bit_length()))
