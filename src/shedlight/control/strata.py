"""What the controller learns of strata of keys: their rates, and what patterns yield of them.

Averages forget: an observation counts a tenth less with each that follows, so a stratum whose
share of the work or whose yield moves is seen as it is now. What few results say of the yield
of a stratum is drawn to what the pattern yields of all keys. So a stratum that is shed, and of
which nothing is learned, is in the end taken for one as any other, and tried again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from shedlight.control.observation import Observation, StratumObservation
from shedlight.graph.application import Stream
from shedlight.model.model import Model, PatternModel
from shedlight.model.quantity import FACTOR
from shedlight.model.selectivity.flow_lp import match_rate
from shedlight.model.snapshot import ByType, StratumRates
from shedlight.model.stratum_split import REST
from shedlight.planning.trial import Trial
from shedlight.shedding.shares import Shares


@dataclass(frozen=True, slots=True, kw_only=True)
class StrataSettings:
    """Whether keys are shed in strata, and how these are learned.

    Attributes:
        enabled: Whether they are; if not, all keys of a pattern are alike.
        memory: What an observation counts for yields after one more, 0 to 1.
        rate_memory: The same for rates, which follow keys from stratum to stratum.
        prior: By how many results the yield of a stratum is drawn to that of all keys.
        review: After how many observations a plan that sheds is tried anew with what was
            learned of strata since.
        new_work: What part of the work new heavy hitters must have to be planned for at once.
    """

    enabled: bool = False
    memory: float = 0.9
    rate_memory: float = 0.5
    prior: float = 30.0
    review: int = 3
    new_work: float = 0.05


@dataclass(frozen=True, slots=True)
class StratumAverage:
    """The averages of a stratum: sums in which earlier observations count less."""

    seconds: float = 0.0  # of the observations that count for rates
    arrivals: ByType = field(default_factory=dict)  # events
    kept: Mapping[str, ByType] = field(default_factory=dict)  # events, by pattern
    outputs: Mapping[str, float] = field(default_factory=dict)  # complex events, by pattern
    factors: Mapping[str, float] = field(default_factory=dict)  # what patterns yield of it

    @property
    def rates(self) -> ByType:
        """Events per second."""
        return {label: count / self.seconds for label, count in self.arrivals.items()}


StrataAverages = Mapping[str, Mapping[str, StratumAverage]]
"""By operator, and by the name of the stratum."""


def update_strata(
    averages: StrataAverages, observation: Observation, model: Model, settings: StrataSettings
) -> StrataAverages:
    """Add an observation; a stratum that it does not have is forgotten."""
    updated: dict[str, Mapping[str, StratumAverage]] = {}
    for name, observed in observation.strata.items():
        old, operator = averages.get(name, {}), model.operators[name]
        updated[name] = {
            stratum: _learn(
                _add(old.get(stratum, StratumAverage()), seen, observation, settings),
                operator.types,
                operator.patterns,
                settings,
            )
            for stratum, seen in observed.items()
        }
    return updated


def _add(
    average: StratumAverage,
    seen: StratumObservation,
    observation: Observation,
    settings: StrataSettings,
) -> StratumAverage:
    length, part, rate_part = observation.interval, settings.memory, settings.rate_memory

    def add(old: ByType, new: ByType, part: float) -> ByType:
        names = {**old, **new}
        return {n: part * old.get(n, 0.0) + length * new.get(n, 0.0) for n in names}

    kept = {name: average.kept.get(name, {}) for name in seen.kept}
    return StratumAverage(
        rate_part * average.seconds + length,
        add(average.arrivals, seen.arrivals, rate_part),
        {name: add(kept[name], rates, part) for name, rates in seen.kept.items()},
        add(average.outputs, seen.outputs, part),
    )


def _learn(
    average: StratumAverage,
    types: tuple[str, ...],
    patterns: tuple[PatternModel, ...],
    settings: StrataSettings,
) -> StratumAverage:
    """Fill in what patterns yield of a stratum."""
    factors = {}
    for pattern in patterns:
        kept = average.kept.get(pattern.stream.name, {})
        counts = np.array([kept.get(types[use], 0.0) for use in pattern.demand.uses])
        modelled = pattern.emits * match_rate(pattern.demand, counts)
        measured = average.outputs.get(pattern.stream.name, 0.0)
        usual, prior = pattern.calibration, settings.prior
        factor = (measured + prior * usual) / (modelled + prior)
        most = max(1.0, usual) if pattern.emits == 1 else FACTOR.most
        factors[pattern.stream.name] = float(np.clip(factor, FACTOR.least, most))
    return StratumAverage(
        average.seconds, average.arrivals, average.kept, average.outputs, factors
    )


def strata_rates(averages: StrataAverages) -> Mapping[str, Mapping[str, StratumRates]]:
    """Give what a snapshot has of strata: of operators that have more than the rest."""
    return {
        name: {
            stratum: StratumRates(average.rates, average.factors)
            for stratum, average in strata.items()
        }
        for name, strata in averages.items()
        if len(strata) > 1
    }


def list_trials(trials: Mapping[Stream, Trial]) -> str:
    """Say what came of the ways to shed keys of each pattern; empty if none was tried."""
    return "; ".join(f"{stream} by {trial}" for stream, trial in trials.items())


def find_strata_reason(
    averages: StrataAverages, shares: Shares, since: int, settings: StrataSettings
) -> str:
    """Say why strata ask for another plan; empty if they do not."""
    for stream, mine in shares.items():
        strata = averages.get(str(stream.operator), {})
        if len(strata) <= 1 or all(share >= 1 for share in mine.shares.values()):
            continue
        work = {name: sum(average.rates.values()) for name, average in strata.items()}
        new = [name for name in work if name != REST and name not in mine.strata]
        share = sum(work[name] for name in new) / (sum(work.values()) or 1.0)
        if share > settings.new_work:
            return f"{len(new)} heavy hitters with {share:.0%} of the work are new"
        if since > settings.review:
            return f"strata of keys were learned for {since} observations"
    return ""
