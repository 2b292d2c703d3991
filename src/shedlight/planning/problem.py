"""What a plan is for: the application, the limits of its nodes, and which nodes it plans."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from shedlight.model.latency import Limit
from shedlight.model.link import LinkLoad, link_loads
from shedlight.model.load import LoadAccumulator, NodeLoad
from shedlight.model.model import Keep, Model, PatternModel
from shedlight.model.rates import ChooseShares, Rates, propagate_rates


@dataclass(frozen=True, slots=True, eq=False)
class CandidatePlan:
    """Shares, and what comes of them."""

    keep: Keep  # the shares
    rates: Rates  # the rates with them
    loads: Mapping[str, NodeLoad]  # how busy each node that has a limit is with them
    links: Mapping[str, LinkLoad] = field(default_factory=dict)  # what goes over each link

    @property
    def fits(self) -> bool:
        """Whether all limits are kept."""
        are_kept = (load.fits for load in self.loads.values())
        return all(are_kept) and all(link.fits for link in self.links.values())


@dataclass(frozen=True, eq=False)
class PlanningProblem:
    """What a plan is for."""

    model: Model  # the application
    limits: Mapping[str, Limit]  # of every node that has one
    nodes: tuple[str, ...]  # the nodes that are planned, each with a limit
    local: bool = False  # whether the output of these nodes counts, and not that of the sinks
    aim: float = 1.0  # the share of the capacity of links to aim at

    @cached_property
    def everything(self) -> CandidatePlan:
        """What comes of it if nothing is shed."""
        return self._propagate({}, lambda _pattern, _arrivals: None, None)

    @property
    def unshed(self) -> Rates:
        """The rates if nothing is shed."""
        return self.everything.rates

    @property
    def planned(self) -> Mapping[str, Limit]:
        """The limits of the nodes that are planned."""
        return {name: self.limits[name] for name in self.nodes}

    def patterns_on(self, node: str) -> tuple[PatternModel, ...]:
        """List the patterns of a node."""
        return tuple(p for each in self.model.operators_on(node) for p in each.patterns)

    def evaluate(self, keep: Keep, choose: ChooseShares | None = None) -> CandidatePlan:
        """Find out what comes of shares; they may be chosen on the way, by what arrives."""
        choose = choose or (lambda pattern, _arrivals: keep.get(pattern.stream))
        return self._propagate(keep, choose, self.unshed)

    def _propagate(
        self, keep: Keep, choose: ChooseShares, unshed: Rates | None
    ) -> CandidatePlan:
        loads = LoadAccumulator(self.limits)
        rates = propagate_rates(
            self.model, choose, self.nodes, unshed=unshed, on_kept=loads.add
        )
        links = link_loads(self.model, rates, self.aim)
        return CandidatePlan(keep, rates, loads.loads(self.model, rates), links)

    def over(self, candidate: CandidatePlan) -> list[str]:
        """List the nodes with a limit that are over it, or send more than a link takes."""
        full = {link.node for link in self.model.links if not candidate.links[link.name].fits}
        loads = candidate.loads
        return [name for name in self.limits if name in full or not loads[name].fits]

    def value(self, rates: Rates) -> float:
        """Say what rates are worth: weighted at the sinks, or plainly where it is planned."""
        if self.local:
            streams = [p.stream for node in self.nodes for p in self.patterns_on(node)]
            return sum(rates.outputs[stream] for stream in streams)
        sinks = self.model.sinks.values()
        return sum(sink.weight * rates.sinks[sink.name] for sink in sinks)
