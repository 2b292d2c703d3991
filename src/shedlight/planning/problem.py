"""What a plan is for: the application, the limits of its nodes, and which nodes it plans."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from shedlight.graph.application import Stream
from shedlight.model.arrays import Floats, LazyArrays, of_uses
from shedlight.model.latency import Limit
from shedlight.model.link import LinkLoad, link_loads
from shedlight.model.load import LoadAccumulator, NodeLoad
from shedlight.model.model import Keep, Model, PatternModel, SinkModel
from shedlight.model.rates import ChooseShares, Rates, changeable, propagate_rates


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

    def evaluate_at(self, node: str, keep: Keep, before: CandidatePlan) -> CandidatePlan:
        """Find out what comes of shares that are others than before at one node alone.

        What is not behind the node stays as it was, unless keys or watchers go through it all.
        """
        if self._has_keys:
            return self.evaluate(keep)
        part = self._parts.get(node) or self._parts.setdefault(node, self._behind(node))
        limits = {name: self.limits[name] for name in part.nodes if name in self.limits}
        loads = LoadAccumulator(limits)
        rates = propagate_rates(
            part,
            lambda pattern, _arrivals: keep.get(pattern.stream),
            self.nodes,
            unshed=self.unshed,
            on_kept=loads.add,
            changed=self._changed,
            outside=before.rates.outputs,
        )
        merged = self._merge(before.rates, rates, keep)
        links = link_loads(self.model, merged, self.aim) if self.model.links else {}
        return CandidatePlan(keep, merged, {**before.loads, **loads.loads(part, rates)}, links)

    def _merge(self, before: Rates, after: Rates, keep: Keep) -> Rates:
        """Put the rates of a part in the place of those that were there before."""
        arrivals, patterns = {**before.arrivals, **after.arrivals}, self._patterns

        def kept_of(stream: Stream) -> Floats:
            offered = of_uses(arrivals[str(stream.operator)], patterns[stream].demand.uses)
            return offered * keep[stream] if stream in keep else offered

        return Rates(
            arrivals,
            LazyArrays(patterns, kept_of),
            {**before.outputs, **after.outputs},
            {**before.sinks, **after.sinks},
        )

    def _behind(self, node: str) -> Model:
        """Give the part of the application that a node can change: itself, and who reads it."""
        nodes = {node} | self.nodes_behind(node)
        operators = [o for name in nodes for o in self.model.operators_on(name)]
        operators.sort(key=lambda operator: self._places[operator.name])
        own = {pattern.stream for operator in operators for pattern in operator.patterns}
        return replace(
            self.model,
            nodes={name: self.model.nodes[name] for name in nodes},
            operators={operator.name: operator for operator in operators},
            sinks=dict(self._sinks(own)),
            links=(),
        )

    def nodes_behind(self, node: str) -> set[str]:
        """Name the nodes that read a node, or who reads it; with itself, if it reads itself."""
        nodes, ahead = set[str](), [node]
        while ahead:
            new = self._readers.get(ahead.pop(), set()) - nodes
            nodes |= new
            ahead += new
        return nodes

    def _sinks(self, streams: Collection[Stream]) -> Iterator[tuple[str, SinkModel]]:
        for stream in streams:
            yield from self._sinks_of.get(stream, ())

    @cached_property
    def _sinks_of(self) -> Mapping[Stream, list[tuple[str, SinkModel]]]:
        found: dict[Stream, list[tuple[str, SinkModel]]] = {}
        for name, sink in self.model.sinks.items():
            found.setdefault(sink.stream, []).append((name, sink))
        return found

    @cached_property
    def _parts(self) -> dict[str, Model]:
        return {}

    @cached_property
    def _patterns(self) -> Mapping[Stream, PatternModel]:
        return self.model.patterns

    @cached_property
    def _has_keys(self) -> bool:
        return any(p.key or p.switches for p in self._patterns.values())

    @cached_property
    def _changed(self) -> frozenset[Stream]:
        return changeable(self.model, self.nodes)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self.model.operators)}

    @cached_property
    def _readers(self) -> Mapping[str, set[str]]:
        """The nodes that read each node."""
        found: dict[str, set[str]] = {}
        operators = self.model.operators
        for operator in operators.values():
            for stream in operator.feeds:
                written_by = operators[str(stream.operator)].node
                found.setdefault(written_by, set()).add(operator.node)
        return found

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
