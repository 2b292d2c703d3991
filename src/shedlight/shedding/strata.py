"""Which events a pattern keeps whose keys are shed in strata.

It is a pure function of the hash of an event's key, the hash of its id, the table of strata and
the plan: so the simulator, Spark and a replay decide alike.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from shedlight.matching.jit import Array
from shedlight.matching.operators.classify import EventTypes
from shedlight.model.model import SheddingWay
from shedlight.model.stratum_split import REST
from shedlight.shedding.key_bitmap import KeyBitmap
from shedlight.shedding.shares import PatternShares
from shedlight.shedding.shedder import KeepDecision, kept_events
from shedlight.shedding.stratum_shares import StrataTable, StratumShares


@dataclass(frozen=True, slots=True, eq=False)
class EventHashes:
    """The hashes by which the events of a batch are decided about."""

    keys: Array  # of their keys alone, by which strata are found
    salted: Array  # of their keys and an epoch of event time, by which whole keys are shed
    events: Array  # of their ids
    # the keys that had an open partial match before the batch
    open: KeyBitmap = field(default_factory=KeyBitmap)


def kept_by_strata(
    shares: PatternShares,
    table: StrataTable,
    types: EventTypes,
    numbers: Array,
    hashes: EventHashes,
) -> KeepDecision:
    """Say which events of a batch a pattern keeps whose shares have strata.

    A stratum that the plan does not know is as the rest.
    """
    strata = table.find(hashes.keys)
    mask, unknown = np.zeros(len(numbers), np.bool_), dict[str, None]()
    for stratum, name in enumerate(table.names):
        rows = np.flatnonzero(strata == stratum)
        if not len(rows):
            continue
        mine = shares.strata.get(name) or shares.strata[REST]
        by_key = mine.way is SheddingWay.WHOLE_KEYS
        used = hashes.salted if by_key else hashes.events
        for part, by_label in _parts(mine, rows, hashes):
            decided = kept_events(PatternShares(by_label), types, numbers[part], used[part])
            mask[part] = decided.mask
            unknown |= dict.fromkeys(decided.unknown)
    return KeepDecision(mask, tuple(unknown))


def _parts(
    shares: StratumShares, rows: Array, hashes: EventHashes
) -> Iterator[tuple[Array, Mapping[str, float]]]:
    """Tell rows of open keys from others, if their shares are not the same."""
    if shares.way is not SheddingWay.OPENERS:
        yield rows, shares.shares
        return
    is_open = hashes.open.has(hashes.keys[rows])
    yield rows[is_open], shares.of_open
    yield rows[~is_open], shares.of_others
