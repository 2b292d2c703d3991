"""How near plans come to the best that shares can do, found by brute force.

A workload is an application of one overloaded node with streams of known rates. Every point of
a grid of shares, scaled to the node's limit, is run over the same events; the best points are
improved share by share. That is the best that *any* plan of shares can do on these events, so
the winner is run again on others, and a plan's results there are a share of the winner's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import pyarrow as pa

from shedlight.engines.simulator import Service, simulate
from shedlight.graph import Stream
from shedlight.model.build import build_model
from shedlight.model.latency import node_limit
from shedlight.model.load import node_load
from shedlight.model.model import Keep, Model
from shedlight.model.rates import predict
from shedlight.model.snapshot import Snapshot
from shedlight.planning.plan import PlanSettings, make_plan
from shedlight.shedding.shares import shares_by_label
from tests.workloads import Workload

_MEASURED_ON, _SEARCHED_ON = 1, 2
_FRESH = (11, 12, 13)
"""The seeds of the events on which rates are measured, shares are searched, plans compared."""


@dataclass(frozen=True, slots=True)
class Nearness:
    """What plans bring on a workload, in results per second on fresh events.

    Attributes:
        workload: Its name.
        per_window: Events of the rarest needed type per window.
        best: By brute force.
        found: By the planner.
        local: By the local program.
        tried: How many plans brute force has tried.
    """

    workload: str
    per_window: float
    best: float
    found: float
    local: float
    tried: int

    @property
    def share(self) -> float:
        """What the planner reaches of the best."""
        return self.found / self.best


def nearness(workload: Workload, levels: int = 5, polish: int = 3) -> Nearness:
    """Compare the planner with brute force.

    Args:
        workload: What to plan.
        levels: How many shares of each type the grid has, from none to all.
        polish: How many of the best points are improved share by share.
    """
    model = build_model(workload.application, _snapshot(workload))
    search = _Search(workload, model, workload.events(_SEARCHED_ON))
    ranked = sorted(
        ((search.score(keep), i, keep) for i, keep in enumerate(search.grid(levels))),
        key=lambda one: (-one[0], one[1]),
    )
    winner = max(
        (search.polished(keep, score) for score, _, keep in ranked[:polish]),
        key=lambda one: one[0],
    )[1]
    settings = PlanSettings(bottleneck=workload.node)
    plans = [
        winner,
        make_plan(model, settings).keep,
        make_plan(model, PlanSettings(bottleneck=workload.node, local=True)).keep,
    ]
    fresh = [workload.events(seed) for seed in _FRESH]
    best, found, local = (
        sum(_results(workload, model, keep, events) for events in fresh) / len(fresh)
        for keep in plans
    )
    seconds = workload.seconds
    return Nearness(
        workload.name,
        workload.per_window,
        best / seconds,
        found / seconds,
        local / seconds,
        search.tried,
    )


def _snapshot(workload: Workload) -> Snapshot:
    """Measure the rates of a workload, as a monitor would."""
    done = simulate(
        workload.application,
        workload.events(_MEASURED_ON),
        Service(seconds={}),
        interval=workload.seconds,
    )
    outputs: dict[Stream, float] = {}
    for interval in done.intervals:
        for stream, number in interval.outputs.items():
            outputs[stream] = outputs.get(stream, 0.0) + number / workload.seconds
    return Snapshot(
        rates={
            Stream(name): {f"type={i}": rate for i, rate in enumerate(rates)}
            for name, rates in workload.rates.items()
        },
        output_rates={s: rate for s, rate in outputs.items() if s not in workload.changed},
        processing_time=workload.processing_time,
    )


def _results(
    workload: Workload, model: Model, keep: Keep, events: Mapping[str, pa.Table]
) -> float:
    """Count the results under shares, weighted, whenever they come."""
    done = simulate(
        workload.application,
        events,
        Service(seconds={}),
        interval=workload.seconds,
        shares=shares_by_label(model, keep),
    )
    sinks = workload.application.sinks.values()
    return sum(sink.weight * len(done.sinks[sink.name]) for sink in sinks)


class _Search:
    """A search over all shares of one node."""

    def __init__(
        self, workload: Workload, model: Model, events: Mapping[str, pa.Table]
    ) -> None:
        self._workload, self._model, self._events = workload, model, events
        limit = node_limit(model, model.nodes[workload.node], PlanSettings().target)
        if limit is None:
            raise ValueError(f"{workload.name}: node {workload.node} has no limit")
        self._limit = limit
        self._patterns = [
            pattern
            for operator in model.operators_on(workload.node)
            for pattern in operator.patterns
        ]
        self.tried = 0

    def score(self, keep: Keep) -> float:
        """Count the results under shares."""
        self.tried += 1
        return _results(self._workload, self._model, keep, self._events)

    def grid(self, levels: int) -> Iterator[Keep]:
        """Give every point of a grid, scaled to the limit; each direction once."""
        sizes = [len(pattern.demand.uses) for pattern in self._patterns]
        seen = set()
        for point in product(np.linspace(0, 1, levels), repeat=sum(sizes)):
            if not any(point):
                continue
            keep = self._fitted(np.array(point))
            mark = tuple(np.round(np.concatenate(list(keep.values())), 3))
            if mark not in seen:
                seen.add(mark)
                yield keep

    def polished(self, keep: Keep, score: float) -> tuple[float, Keep]:
        """Improve shares one by one as long as that brings more."""
        for factor in (1.5, 1.2, 1.07):
            better = True
            while better:
                better = False
                shares = np.concatenate([keep[p.stream] for p in self._patterns])
                for place, change in product(range(len(shares)), (factor, 1 / factor)):
                    changed = shares.copy()
                    changed[place] = min(1.0, max(changed[place], 0.03) * change)
                    other = self._fitted(changed)
                    value = self.score(other)
                    if value > score * 1.002:
                        keep, score, better = other, value, True
                        shares = np.concatenate([keep[p.stream] for p in self._patterns])
        return score, keep

    def _fitted(self, shares: np.ndarray) -> dict[Stream, np.ndarray]:
        """Scale shares so that they cost what the limit allows, none above 1."""
        for _ in range(len(shares) + 1):
            rates = predict(self._model, self._named(shares), [self._workload.node])
            load = node_load(self._model, self._limit, rates)
            if load.cost <= 0:
                break
            shares = np.minimum(1.0, shares * (load.limit / load.cost))
        return self._named(shares)

    def _named(self, shares: np.ndarray) -> dict[Stream, np.ndarray]:
        ends = np.cumsum([len(pattern.demand.uses) for pattern in self._patterns])[:-1]
        parts = np.split(shares, ends)
        return {p.stream: part for p, part in zip(self._patterns, parts, strict=True)}
