"""Overrides: other bounds of nodes and other weights of sinks, while an application runs.

Only what no state depends on may be changed. A node that has no bound cannot be given one:
its patterns do not shed, and what waits for them does not say who keeps it.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from shedlight.errors import PlanError, known_names
from shedlight.graph.application import Application, bound_kind


@dataclass(frozen=True, slots=True)
class Override:
    """Bounds and weights that replace those of the application file.

    A bound stays of the mean, or of the percentile, that the file has.
    """

    # the time that an event may spend at nodes, in seconds
    bounds: Mapping[str, float] = field(default_factory=dict)
    # what a complex event is worth at sinks
    weights: Mapping[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.bounds or self.weights)

    def describe(self, percentiles: Mapping[str, int | None]) -> str:
        """Say what changes, given of which percentile the bound of each node is."""
        bounds = [
            f"the bound of node {name!r} is {bound:g} s {bound_kind(percentiles.get(name))}"
            for name, bound in self.bounds.items()
        ]
        weights = [f"the weight of sink {n!r} is {v:g}" for n, v in self.weights.items()]
        return ", ".join([*bounds, *weights])

    def over(self, before: "Override") -> "Override":
        """Add an older override; where both have a value this one stands."""
        return Override({**before.bounds, **self.bounds}, {**before.weights, **self.weights})


def apply_override(application: Application, override: Override) -> Application:
    """Give the application with the bounds and weights of an override.

    Raises:
        PlanError: It has no such node or sink, or a value is none.
    """
    if problem := unknown_name(override, application.nodes, application.sinks):
        raise PlanError(problem)
    for name, bound in override.bounds.items():
        if application.nodes[name].bound is None:
            raise PlanError(
                f"node {name!r} has no bound and cannot be given one while it runs; give it "
                "one in the application file, and start the run again"
            )
        if not 0 < bound < math.inf:
            raise PlanError(f"the bound of node {name!r} must be longer than zero: {bound}")
    for name, weight in override.weights.items():
        if application.sinks[name].timed_out:
            raise PlanError(
                f"sink {name!r} takes what timed out, which plans do not count; it cannot be "
                "given a weight"
            )
        if not 0 <= weight < math.inf:
            raise PlanError(f"the weight of sink {name!r} must be from 0 on: {weight}")
    nodes = {
        name: replace(node, bound=override.bounds.get(name, node.bound))
        for name, node in application.nodes.items()
    }
    sinks = {
        name: replace(sink, weight=override.weights.get(name, sink.weight))
        for name, sink in application.sinks.items()
    }
    return replace(application, nodes=nodes, sinks=sinks)


def current_values(application: Application) -> Override:
    """Give all bounds and weights of an application."""
    nodes, sinks = application.nodes.items(), application.sinks.items()
    bounds = {name: node.bound for name, node in nodes if node.bound is not None}
    return Override(bounds, {name: sink.weight for name, sink in sinks if not sink.timed_out})


def unknown_name(override: Override, nodes: Collection[str], sinks: Collection[str]) -> str:
    """Say what an override names that is not there; empty if all of it is."""
    named = (("node", override.bounds, nodes), ("sink", override.weights, sinks))
    for what, names, known in named:
        for name in names:
            if name not in known:
                hint = known_names(name[:60], known)
                return f"there is no {what} {name[:60]!r}; {hint}"
    return ""
