"""Which share of which type each pattern keeps, as engines want it: by name, not by number.

A share that is *exempt* is not lowered by pressure: that of a type that is never to be shed.
One that is *spared* belongs to what must be whole: pressure leaves it, or takes all of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from shedlight.graph.application import Application, ShedBy, Stream
from shedlight.graph.closures import Closures, find_closures
from shedlight.model.arrays import Floats
from shedlight.model.model import Keep, Model, OperatorModel, PatternModel
from shedlight.model.strata import StratumPlan
from shedlight.shedding.stratum_shares import StratumShares


@dataclass(frozen=True, slots=True)
class PatternShares:
    """What one pattern keeps.

    Attributes:
        shares: The share of each type that it uses, by label, from 0 to 1.
        by_key: Whether whole keys are kept or shed, and not single events.
        pressure_exempt: The labels that pressure does not touch.
        spared: The labels that are whole for a watcher, which pressure sheds last and at once.
        spares_unknown: Whether the same holds for types that the shares do not have.
        default_share: What is kept of all types if no share of any is known.
        strata: What is kept of each stratum of the keys, by name; empty: of all keys alike.
            The shares are the mean over strata then.
    """

    shares: Mapping[str, float]
    by_key: bool = False
    pressure_exempt: frozenset[str] = frozenset()
    spared: frozenset[str] = frozenset()
    spares_unknown: bool = False
    default_share: float = 1.0
    strata: Mapping[str, StratumShares] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for label, share in self.shares.items():
            if not 0 <= share <= 1:
                raise ValueError(f"the share of {label} must be from 0 to 1, got {share}")

    @property
    def mean(self) -> float:
        """What is kept of a type that the plan does not know."""
        return float(np.mean(list(self.shares.values()))) if self.shares else self.default_share

    def whole_share(self, labels: Iterable[str] | None) -> float:
        """Say for which share of keys all is kept; without a key 1 or 0, for some types.

        If the types are too many to list, all that the shares have counts.
        """
        if self.by_key:
            return min(self.shares.values(), default=self.default_share)
        if labels is None:
            labels = self.shares or ("",)
        return float(all(self.shares.get(label, self.mean) >= 1 for label in labels))

    def lower_by(self, pressure: float) -> "PatternShares":
        """Lower all shares that are not exempt by a factor."""
        if pressure >= 1:
            return self
        held = self.pressure_exempt | (self.spared if pressure > 0 else frozenset())
        lowered = {
            label: share if label in held else share * pressure
            for label, share in self.shares.items()
        }
        factor = 1.0 if self.spares_unknown and pressure > 0 else pressure
        strata = {key: each.scale_by(pressure, held) for key, each in self.strata.items()}
        share = self.default_share * factor
        return replace(self, shares=lowered, default_share=share, strata=strata)


Shares = Mapping[Stream, PatternShares]
"""What all patterns keep; a pattern that is not in it keeps everything."""


def shares_by_label(
    model: Model,
    keep: Keep,
    strata: Mapping[Stream, tuple[StratumPlan, ...]] | None = None,
) -> Shares:
    """Name the types of a plan's shares, of all keys and of their strata."""
    planned = strata or {}
    return {
        pattern.stream: replace(
            _pattern_shares(operator, pattern, keep[pattern.stream]),
            strata={
                each.name: _stratum_shares(operator, pattern, each)
                for each in planned.get(pattern.stream, ())
            },
        )
        for operator in model.operators.values()
        for pattern in operator.patterns
        if pattern.stream in keep
    }


def _stratum_shares(
    operator: OperatorModel, pattern: PatternModel, plan: StratumPlan
) -> StratumShares:
    keeps = (plan.keep, plan.keep_open, plan.keep_others)
    return StratumShares(plan.way, *(_labelled(operator, pattern, keep) for keep in keeps))


def _labelled(
    operator: OperatorModel, pattern: PatternModel, keep: Floats
) -> Mapping[str, float]:
    if not len(keep):
        return {}
    labels = (operator.types[number] for number in pattern.demand.uses)
    return dict(zip(labels, keep.tolist(), strict=True))


def _pattern_shares(
    operator: OperatorModel, pattern: PatternModel, keep: Floats
) -> PatternShares:
    labels = [operator.types[number] for number in pattern.demand.uses]
    exempt = [label for label, flag in zip(labels, pattern.protected, strict=False) if flag]
    shares = dict(zip(labels, keep.tolist(), strict=True))
    spared: list[str] = []
    if pattern.is_switched:
        under = zip(labels, pattern.demand.watched, strict=True)
        spared = [label for label, watched in under if watched and shares[label] >= 1]
    elif pattern.switches and not pattern.key and keep.min(initial=1.0) >= 1:
        spared = labels
    return PatternShares(shares, bool(pattern.key), frozenset(exempt), frozenset(spared))


def sheddable(application: Application) -> Shares:
    """Say which patterns may shed before there is a plan: all on nodes with a bound."""
    closures = find_closures(application)
    return {
        stream: PatternShares({}, is_shed_by_key(application, closures, stream))
        for spec in application.operators.values()
        if application.nodes[spec.node].bound is not None
        for stream in spec.outputs
    }


def sheddable_by_pressure(application: Application) -> Shares:
    """Say which of them may be shed by pressure alone, which knows no types."""
    switched = find_closures(application).switches
    return {
        stream: replace(shares, spares_unknown=stream in switched)
        for stream, shares in sheddable(application).items()
        if not application.operators[str(stream.operator)].never_shed
    }


def is_shed_by_key(application: Application, closures: Closures, stream: Stream) -> bool:
    """Whether a pattern is shed by key; a watcher that is on or off is not."""
    closure = closures.by_watcher.get(stream)
    if closure is not None:
        return closure.by_key
    spec = application.operators[str(stream.operator)]
    return bool(spec.patterns[stream.name].partition_by) and spec.shed_by is not ShedBy.EVENT
