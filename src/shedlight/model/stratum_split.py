"""How the events of an operator are split over the strata of its keys."""

from collections.abc import Mapping

import numpy as np

from shedlight.graph.application import OperatorSpec, Stream
from shedlight.model.arrays import Floats
from shedlight.model.model import OperatorStrata, SheddingWay
from shedlight.model.operator_types import OperatorTypes
from shedlight.model.snapshot import ByType, Snapshot, StratumRates

REST = "rest"  # the stratum of the keys that are in no other
HEAVY_PREFIX = "key "  # how the name of the stratum of a heavy hitter begins


def heavy_name(key: int) -> str:
    """Name the stratum of a heavy hitter by the hash of its key.

    Example:
        >>> heavy_name(-1)
        'key ffffffffffffffff'
    """
    return f"{HEAVY_PREFIX}{key % (1 << 64):016x}"


def build_strata(
    spec: OperatorSpec, snapshot: Snapshot, types: OperatorTypes
) -> OperatorStrata:
    """Say which share of each type is of each stratum; what is of no other is the rest."""
    given = snapshot.strata[spec.name]
    names = (*(name for name in given if name != REST), REST)
    rates = np.array([_by_type(types, given[n].rates) for n in names[:-1]])
    rates = rates.reshape(-1, len(types.labels))
    if REST in given:
        rest = _by_type(types, given[REST].rates)
    else:
        total = sum(types.sources.values(), np.zeros(len(types.labels)))
        rest = np.maximum(0.0, total - rates.sum(0))
    rates = np.vstack([rates, rest])
    rates[-1, rates.sum(0) <= 0] = 1.0
    return OperatorStrata(
        names,
        rates / rates.sum(0),
        tuple(_way(name, given.get(name)) for name in names),
        {
            stream: _factors(stream, names, given, snapshot.calibration.get(stream, 1.0))
            for stream in spec.outputs
        },
    )


def _way(name: str, given: StratumRates | None) -> SheddingWay:
    if given is not None and given.way is not None:
        return given.way
    is_heavy = name.startswith(HEAVY_PREFIX)
    return SheddingWay.EVENTS if is_heavy else SheddingWay.WHOLE_KEYS


def _factors(
    stream: Stream, names: tuple[str, ...], given: Mapping[str, StratumRates], usual: float
) -> Floats:
    factors = (given[n].calibration if n in given else {} for n in names)
    return np.array([by_name.get(stream.name, usual) for by_name in factors])


def _by_type(types: OperatorTypes, rates: ByType) -> Floats:
    """Put rates by label in the order of an operator's types."""
    numbers = {signature: number for number, signature in enumerate(types.signatures)}
    result = np.zeros(len(types.labels))
    for label, rate in rates.items():
        codes = types.vocabulary.parse(label)
        if codes is not None:
            number = numbers.get(types.vocabulary.signature(codes))
            if number is not None:
                result[number] += rate
    return result
