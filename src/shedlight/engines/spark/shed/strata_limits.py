"""What patterns keep of strata of keys, and of which stratum a key is, as numbers for the JVM.

What they keep is limits in cells, one for each stratum and event type (`cell_limits.py`).
Other numbers say of which stratum a key is, by its hash: a table of heavy hitters without
collisions, and one of classes; and others for each pattern the bits of open keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shedlight.engines.spark.shed.cell_limits import NEVER, CellLayout, write_cells
from shedlight.engines.spark.shed.jvm_callback import Numbers
from shedlight.matching.jit import Array
from shedlight.model.arrays import Floats
from shedlight.model.model import SheddingWay
from shedlight.model.stratum_split import REST
from shedlight.shedding.found_keys import FoundKeys
from shedlight.shedding.heavy_hitters import MAX_HEAVY
from shedlight.shedding.key_yields import CLASSES
from shedlight.shedding.shares import PatternShares
from shedlight.shedding.shedder import thresholds
from shedlight.shedding.stratum_shares import StratumShares

MAX_STRATA = MAX_HEAVY + len(CLASSES)
ALWAYS = (1 << 63) - 1  # the hash below which all are kept, and itself


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
    by_key, of_others, of_open = rows = np.zeros((3, len(labels)))
    if mine.way is SheddingWay.OPENERS:
        of_open[:] = _row(mine.of_open, default, labels)
        of_others[:] = _row(mine.of_others, default, labels)
    elif mine.way is SheddingWay.EVENTS:
        of_open[:] = of_others[:] = _row(mine.shares, default, labels)
    else:
        by_key[:] = _row(mine.shares, default, labels)
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
        np.stack([getattr(each, name).reshape(-1) for each in every])
        for name in ("by_key", "of_others", "of_open")
    )
    whole = (by_key >= 1) | ((others >= 1) & (opened >= 1))
    below = [np.where(whole, NEVER, _below(part)) for part in (by_key, others, opened)]
    spared = []
    for numbers in sampled:
        each = (by_key >= 0) & ~whole
        each[[n for n in range(len(every)) if n not in numbers]] = False
        spared.append(each)
    return write_cells(whole, below, spared, layout)


def _below(shares: Floats) -> Array:
    """Give the hashes below which events are kept; the greatest is for all."""
    return np.where(shares >= 1, ALWAYS, thresholds(shares))


# Which stratum a key is of, and whether it is open

ANY, SHIFT, SLOTS, HEAVY, CODES_MASK, REST_NUMBER = range(6)
SLOTS_AT = 6  # where the slots of heavy hitters begin, and after them their numbers and codes


def table_numbers(found: FoundKeys) -> Numbers:
    """Write of which strata keys are."""
    table = found.table
    shift, keys, numbers = _slots(table.heavy)
    is_any = bool(len(table.heavy) or table.classes or found.open)
    head = [is_any, shift, len(keys) - 1, len(table.heavy), table.codes.mask]
    head.append(len(table.names) - 1)
    return np.concatenate([head, keys, numbers, table.codes.words]).astype(np.int64)


def open_numbers(found: FoundKeys, patterns: Sequence[str]) -> Numbers:
    """Write which keys are open: where the bits of each pattern are, their mask, and bits."""
    opened = [found.opened(name) for name in patterns]
    at, head = bits_at(len(patterns)), list[int]()
    bits: dict[int, int] = {}  # by the identity of a bitmap, for many are the same
    parts: list[Array] = []
    for each in opened:
        if id(each) not in bits:
            bits[id(each)], at = at, at + len(each.words)
            parts.append(each.words)
        head += [bits[id(each)], each.mask]
    return np.concatenate([head, *parts]).astype(np.int64)


def bits_at(pattern: int) -> int:
    """Say where the numbers are that tell where the bits of a pattern's open keys are."""
    return 2 * pattern


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
