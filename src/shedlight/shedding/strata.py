"""Which events a pattern keeps whose keys are shed in strata.

It is a pure function of the hash of an event's key, the hash of its id, the table of strata and
the plan: so the simulator, Spark and a replay decide alike.
"""

from dataclasses import dataclass

import numpy as np

from shedlight.matching.jit import Array
from shedlight.matching.operators.classify import EventTypes
from shedlight.model.model import SheddingWay
from shedlight.model.stratum_split import REST
from shedlight.shedding.shares import PatternShares
from shedlight.shedding.shedder import KeepDecision, kept_events
from shedlight.shedding.stratum_shares import StrataTable


@dataclass(frozen=True, slots=True, eq=False)
class EventHashes:
    """The hashes by which the events of a batch are decided about."""

    keys: Array  # of their keys alone, by which strata are found
    salted: Array  # of their keys and an epoch of event time, by which whole keys are shed
    events: Array  # of their ids


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
        used = (hashes.salted if by_key else hashes.events)[rows]
        alone = PatternShares(mine.shares)
        decided = kept_events(alone, types, numbers[rows], used)
        mask[rows] = decided.mask
        unknown |= dict.fromkeys(decided.unknown)
    return KeepDecision(mask, tuple(unknown))
