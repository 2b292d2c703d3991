"""What a plan is for: the application, the limits of its nodes, and which nodes it plans."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from shedlight.model.latency import Limit
from shedlight.model.load import Work, work_of
from shedlight.model.model import Keep, Model, PatternModel
from shedlight.model.rates import Rates, predict


@dataclass(frozen=True, eq=False)
class Scope:
    """What a plan is for.

    Attributes:
        model: The application.
        limits: Of every node that has one.
        nodes: The nodes that are planned, each with a limit.
        local: Whether the output of these nodes counts, and not that of the sinks.
    """

    model: Model
    limits: Mapping[str, Limit]
    nodes: tuple[str, ...]
    local: bool = False

    @cached_property
    def unshed(self) -> Rates:
        """The rates if nothing is shed."""
        return predict(self.model, None, self.nodes)

    @property
    def planned(self) -> Mapping[str, Limit]:
        """The limits of the nodes that are planned."""
        return {name: self.limits[name] for name in self.nodes}

    def patterns_on(self, node: str) -> tuple[PatternModel, ...]:
        """List the patterns of a node."""
        return tuple(p for one in self.model.operators_on(node) for p in one.patterns)

    def rates(self, keep: Keep) -> Rates:
        """Predict the rates under a plan."""
        return predict(self.model, keep, self.nodes)

    def works(self, rates: Rates) -> Mapping[str, Work]:
        """Find out how busy each node that has a limit is."""
        return {name: work_of(self.model, limit, rates) for name, limit in self.limits.items()}

    def fits(self, keep: Keep) -> bool:
        """Whether all limits are kept under a plan."""
        return all(work.fits for work in self.works(self.rates(keep)).values())

    def value(self, rates: Rates) -> float:
        """Say what rates are worth: weighted at the sinks, or plainly where it is planned."""
        if self.local:
            streams = [p.stream for node in self.nodes for p in self.patterns_on(node)]
            return sum(rates.outputs[stream] for stream in streams)
        sinks = self.model.sinks.values()
        return sum(sink.weight * rates.sinks[sink.name] for sink in sinks)
