"""What a plan does with each watcher: on, off, or a share of the keys; and why.

A watcher is a pattern with a protected closure: all that goes into what it watches is whole, or
it emits nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from shedlight.graph.application import Stream
from shedlight.graph.shedding_notes import name_streams
from shedlight.graph.topology import key_name
from shedlight.model.arrays import Floats
from shedlight.model.load import NodeLoad
from shedlight.model.model import Keep, PatternModel
from shedlight.planning.problem import CandidatePlan, PlanningProblem

_WHOLE = 1 - 1e-9  # a share from which on nothing is shed, but for rounding
_MAX_LISTED = 3  # how many watchers a sentence names


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherPlan:
    """What a plan does with a watcher."""

    stream: Stream  # the pattern
    keep: float  # the share of keys for which it is on; without a key 1 if it is on, or 0
    key: str = ""  # the key by which it is shed; empty: it is on or off
    reason: str = ""  # why not all is kept; empty if it is

    @property
    def state(self) -> str:
        """On, off, or the share of keys, in words."""
        if self.keep <= 0 or self.keep >= 1:
            return "on" if self.keep else "off"
        return f"{self.keep:.1%} of all {self.key}"

    def __str__(self) -> str:
        verb = "keeps" if 0 < self.keep < 1 else "is"
        return f"{self.stream} {verb} {self.state}" + f": {self.reason}" * bool(self.reason)


def plan_watchers(
    problem: PlanningProblem, candidate: CandidatePlan
) -> tuple[WatcherPlan, ...]:
    """Say what shares mean for each watcher."""
    return tuple(
        _watcher_plan(problem, pattern, _whole_share(pattern, candidate.keep))
        for operator in problem.model.operators.values()
        for pattern in operator.patterns
        if pattern.watches
    )


def list_watchers(watchers: Iterable[WatcherPlan]) -> str:
    """Write what is not all on as part of a sentence; empty if all is."""
    texts = [str(watcher) for watcher in watchers if watcher.keep < 1]
    if len(texts) > _MAX_LISTED:
        texts[_MAX_LISTED:] = [f"{len(texts) - _MAX_LISTED:,} more are not all on"]
    return "; ".join(texts)


def closure_loads(problem: PlanningProblem, watcher: PatternModel) -> Mapping[str, NodeLoad]:
    """Find out how busy nodes are if a closure is whole and nothing else is kept there."""
    closure = {watcher.stream, *watcher.members}
    keep: dict[Stream, Floats] = {}
    for node in problem.limits:
        for pattern in problem.patterns_on(node):
            uses = len(pattern.demand.uses)
            keep[pattern.stream] = np.full(uses, float(pattern.stream in closure))
    if watcher.is_switched and watcher.stream in keep:
        keep[watcher.stream] = watcher.demand.watched.astype(np.float64)
    loads = problem.evaluate(keep).loads
    return {name: load for name, load in loads.items() if load.cost > 0}


def describe_closure(watcher: PatternModel, loads: Mapping[str, NodeLoad]) -> str:
    """Say what a closure takes at the node where that is most for its limit; empty: nothing."""
    if not loads:
        return ""
    name = max(loads, key=lambda node: loads[node].cost / max(loads[node].limit, 1e-12))
    load = loads[name]
    whole = f"with {name_streams(watcher.members)} whole" if watcher.members else "whole"
    takes = f"{whole}, it takes {load.busy:.3g} s of work a second at {name}"
    return f"{takes}, which has {load.busy_limit:.3g}"


def _whole_share(watcher: PatternModel, keep: Keep) -> float:
    """Find the share of keys for which a watcher and its closure are whole."""
    streams = (watcher.stream, *watcher.members)
    if not watcher.is_switched:
        shares = (float(keep[s].min(initial=1.0)) for s in streams if s in keep)
        share = min(shares, default=1.0)
        return 1.0 if share >= _WHOLE else share
    needed = {stream: keep[stream] for stream in watcher.members if stream in keep}
    if watcher.stream in keep:
        needed[watcher.stream] = keep[watcher.stream][watcher.demand.watched]
    return float(all(shares.min(initial=1.0) >= _WHOLE for shares in needed.values()))


def _watcher_plan(problem: PlanningProblem, watcher: PatternModel, share: float) -> WatcherPlan:
    key = "" if watcher.is_switched else watcher.key
    if key and watcher.pattern:
        key = key_name(watcher.pattern.partition_by)
    reason = ""
    if share < 1:
        loads = closure_loads(problem, watcher)
        is_possible = all(load.fits for load in loads.values())
        reason = describe_closure(watcher, loads) + ", and others bring more" * is_possible
    return WatcherPlan(stream=watcher.stream, keep=share, key=key, reason=reason)
