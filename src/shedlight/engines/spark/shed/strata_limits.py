"""What the patterns of an operator keep of strata of keys, as numbers that the JVM looks up.

Where keys are shed in strata, there is a *cell* for each stratum and event type, and limits are
written cell by cell:

    head      where heavy hitters of the unshed sample begin; below which hash of its id the key
              of an event is looked at, and below which hash of its key all of it
    cell      flags of the patterns that keep all of it; whether any other asks for hashes; for
              each pattern the hash of a key below which it is kept, and those of an event, if
              its key is not open and if it is; flags of those that the unshed sample spares
    ...
    tail      the heavy hitters of the unshed sample

Another row of numbers says of which stratum a key is, by its hash: a table of heavy hitters
without collisions, one of classes, and for each pattern the bits of open keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shedlight.engines.spark.shed.jvm_callback import Numbers
from shedlight.engines.spark.support.plan_store import WORD
from shedlight.matching.jit import Array
from shedlight.model.arrays import Flags, Floats
from shedlight.model.model import SheddingWay
from shedlight.model.stratum_split import REST
from shedlight.shedding.found_keys import FoundKeys
from shedlight.shedding.heavy_hitters import MAX_HEAVY
from shedlight.shedding.key_yields import CLASSES
from shedlight.shedding.shares import PatternShares
from shedlight.shedding.shedder import threshold, thresholds
from shedlight.shedding.stratum_shares import StratumShares

HEAD = 3  # how many numbers come before the first cell
SAMPLE_AT, LOOKED_AT, HISTORY = range(HEAD)
MAX_STRATA = MAX_HEAVY + len(CLASSES)
BY_KEY, OF_OTHERS, OF_OPEN = range(3)  # the hashes below which a pattern keeps an event

ALWAYS = (1 << 63) - 1  # the hash below which all are kept, and itself
_NEVER = -(1 << 63)


@dataclass(frozen=True, slots=True)
class CellLayout:
    """Where the numbers of a cell are."""

    patterns: int  # how many, those of the unshed sample twice
    words: int  # how many words of flags
    samples: int  # how many words of flags are of the unshed sample

    @property
    def undecided(self) -> int:
        """Whether hashes are asked for."""
        return self.words

    def below(self, pattern: int) -> int:
        """Where the hashes begin below which a pattern keeps an event."""
        return self.words + 1 + 3 * pattern

    @property
    def sample(self) -> int:
        """Where the flags begin of patterns that the unshed sample spares."""
        return self.below(self.patterns)

    @property
    def size(self) -> int:
        """How many numbers a cell has."""
        return self.sample + self.samples


@dataclass(frozen=True, slots=True)
class CellShares:
    """What a pattern keeps, by stratum and type: three shares, of which one or two count."""

    by_key: Floats
    of_others: Floats
    of_open: Floats


def cell_shares(
    shares: PatternShares | None,
    names: Sequence[str],
    labels: Sequence[str],
    relevant: Sequence[bool],
) -> CellShares:
    """Say what a pattern keeps of each stratum and type; -1 where it has no use for a type."""
    parts = np.zeros((3, len(names), len(labels)))
    rows: dict[str, Floats] = {}
    for number, name in enumerate(names):
        if shares is None:
            parts[:, number] = 1.0
            continue
        known = name if name in shares.strata or not shares.strata else REST
        if known not in rows:
            rows[known] = _stratum_rows(shares, known, labels)
        parts[:, number] = rows[known]
    parts[:, :, ~np.array(relevant, np.bool_)] = -1.0
    return CellShares(*parts)


def _stratum_rows(shares: PatternShares, name: str, labels: Sequence[str]) -> Floats:
    way = SheddingWay.WHOLE_KEYS if shares.by_key else SheddingWay.EVENTS
    mine = StratumShares(way, shares.shares)
    default = shares.default_share
    if shares.strata:
        mine, default = shares.strata[name], 1.0
    rows = np.zeros((3, len(labels)))
    if mine.way is SheddingWay.OPENERS:
        rows[OF_OPEN] = _row(mine.of_open, default, labels)
        rows[OF_OTHERS] = _row(mine.of_others, default, labels)
    elif mine.way is SheddingWay.EVENTS:
        rows[OF_OPEN] = rows[OF_OTHERS] = _row(mine.shares, default, labels)
    else:
        rows[BY_KEY] = _row(mine.shares, default, labels)
    return rows


def _row(shares: Mapping[str, float], default: float, labels: Sequence[str]) -> list[float]:
    mean = PatternShares(shares, default_share=default).mean
    return [shares.get(label, mean if label else 0.0) for label in labels]


def cell_limits(
    shares: Sequence[CellShares],
    layout: CellLayout,
    sampled: Sequence[Sequence[int]] = (),
) -> Numbers:
    """Write the cells of an operator; those of the unshed sample are numbers of patterns."""
    twice = [shares[number] for number in sorted(n for each in sampled for n in each)]
    every = [*shares, *twice]
    by_key, others, opened = (
        np.stack([getattr(each, name) for each in every])
        for name in ("by_key", "of_others", "of_open")
    )
    whole = (by_key >= 1) | ((others >= 1) & (opened >= 1))
    below = [np.where(whole, _NEVER, _below(part)) for part in (by_key, others, opened)]
    undecided = np.any([(part > _NEVER).any(axis=0) for part in below], axis=0)
    rows = [*_flag_words(whole), undecided.astype(np.int64)]
    for number in range(len(every)):
        rows += [part[number] for part in below]
    for numbers in sampled:
        spared = (by_key >= 0) & ~whole
        spared[[n for n in range(len(every)) if n not in numbers]] = False
        rows += _flag_words(spared)
    cells = np.stack(rows, axis=-1).astype(np.int64)
    if cells.shape[-1] != layout.size:
        raise RuntimeError(f"a cell has {cells.shape[-1]} numbers, not {layout.size}")
    return np.asarray(cells.reshape(-1))


def _below(shares: Floats) -> Array:
    """Give the hashes below which events are kept; the greatest is for all."""
    return np.where(shares >= 1, ALWAYS, thresholds(shares))


def _flag_words(flags: Flags) -> list[Numbers]:
    words = [flags[start : start + WORD] for start in range(0, len(flags), WORD)]
    return [np.tensordot(1 << np.arange(len(word)), word, 1) for word in words]


def all_limits(
    cells: Numbers, looked_at: float, history: float, heavy: Sequence[int] | Array = ()
) -> Numbers:
    """Put head, cells and tail together."""
    head = [HEAD + len(cells), threshold(looked_at), threshold(history)]
    return np.concatenate([head, cells, np.array(heavy, np.int64)]).astype(np.int64)


# Which stratum a key is of

ANY, SHIFT, SLOTS, HEAVY, CODES, CODES_MASK, REST_NUMBER = range(7)
PATTERNS = 7  # where two numbers for each pattern begin: where its bits are, and their mask


def found_numbers(found: FoundKeys, patterns: Sequence[str]) -> Numbers:
    """Write of which strata keys are, and which are open."""
    table = found.table
    shift, keys, numbers = _slots(table.heavy)
    opened = [found.opened(name) for name in patterns]
    start = PATTERNS + 2 * len(patterns)
    codes_at = start + 2 * len(keys)
    at = codes_at + len(table.codes.words)
    is_any = bool(len(table.heavy) or table.classes or found.open)
    head = [is_any, shift, len(keys) - 1, len(table.heavy), codes_at, table.codes.mask]
    head.append(len(table.names) - 1)
    bits: dict[int, int] = {}  # by the identity of a bitmap, for many are the same
    parts: list[Array] = []
    for each in opened:
        if id(each) not in bits:
            bits[id(each)], at = at, at + len(each.words)
            parts.append(each.words)
        head += [bits[id(each)], each.mask]
    return np.concatenate([head, keys, numbers, table.codes.words, *parts]).astype(np.int64)


def _slots(heavy: Array) -> tuple[int, Array, Array]:
    """Find bits of their hashes in which all heavy hitters differ, and put them there."""
    size = 16
    while True:
        for shift in range(0, 48, 4):
            places = (heavy.view(np.uint64) >> np.uint64(shift)).view(np.int64) & (size - 1)
            if len(np.unique(places)) == len(heavy):
                keys, numbers = np.zeros(size, np.int64), np.full(size, -1, np.int64)
                keys[places], numbers[places] = heavy, np.arange(len(heavy))
                return shift, keys, numbers
        size *= 2
