"""Better plans for sparse streams, by trying them on the window-aware model.

The program's optimum is one of min(A / 2, B), which promises as much for a plan that spreads
over two patterns as for one that concentrates. With few events per window it is not so. So a
few plans are tried: the program's own, those for which a pattern is worth nothing or is the
only one, and the local one. The best is improved share by share, as long as that pays.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Flags, dot
from shedlight.model.model import Keep, Model
from shedlight.model.sampled.draw import RateHistory
from shedlight.model.sampled.windows import WindowSample, sample_events, sampled_rates
from shedlight.planning.fill import spend_budget
from shedlight.planning.problem import CandidatePlan, PlanningProblem
from shedlight.planning.reduced_lp import solve_reduced
from shedlight.planning.shares import scalable, scale_into_limits, to_shares

_MAX_TRIES = 100  # how many plans are tried at most
_MAX_PATTERNS_SWITCHED = 8  # with more on the planned nodes none of them is tried on or off
_MAX_USES = 12  # a pattern of more types than this is changed as a whole only
_FACTORS = (2.0, 1.4, 1.15, 1.05)  # by how much shares are changed, step after step
_SPARSE_EVENTS_PER_WINDOW = 15.0  # with more the program is nearly right: one step is enough
MIN_IMPROVEMENT = 1.001  # how much better a plan must be to be taken for better


@dataclass(slots=True, eq=False)
class _Search:
    """The best plan so far on a sample of events, what it brings, and how many were tried."""

    problem: PlanningProblem
    sample: WindowSample
    best: CandidatePlan
    value: float
    tries: int = 1

    def offer(self, candidate: CandidatePlan) -> bool:
        """Try a plan; keep it if it is better."""
        if self.tries >= _MAX_TRIES or not candidate.fits:
            return False
        self.tries += 1
        value = sampled_value(self.sample, candidate.keep)
        if value <= self.value * MIN_IMPROVEMENT:
            return False
        self.best, self.value = candidate, value
        return True


@dataclass(frozen=True, slots=True, eq=False)
class _ShareGroup:
    """Shares that are changed together."""

    stream: Stream  # the pattern
    node: str  # where it runs
    uses: Flags  # which of its uses they are of


def sample_problem(
    problem: PlanningProblem, history: RateHistory | None = None
) -> WindowSample | None:
    """Draw events to try plans on, if windows matter and sinks have no constraints."""
    if any(each.group or each.switches for each in problem.model.patterns.values()):
        return None  # the window-aware model takes what is shed for absent
    sinks = problem.model.sinks.values()
    if problem.local or any(sink.min_rate or sink.min_share for sink in sinks):
        return None
    return sample_events(problem.model, problem.nodes, problem.unshed, history)


def sampled_value(sample: WindowSample, keep: Keep) -> float:
    """Say what a plan brings by the window-aware model."""
    rates = sampled_rates(sample, keep)
    return sum(sink.weight * rates[sink.name] for sink in sample.model.sinks.values())


def local_search(
    problem: PlanningProblem,
    sample: WindowSample,
    candidate: CandidatePlan,
    incumbent: CandidatePlan | None = None,
) -> CandidatePlan:
    """Look for a plan that is better on a sample than the program's plan and the incumbent."""
    search = _Search(problem, sample, candidate, sampled_value(sample, candidate.keep))
    if incumbent is not None:
        search.offer(incumbent)
    for other in _candidates(problem):
        search.offer(other)
    groups = _share_groups(problem, candidate.keep)
    is_sparse = sample.per_window < _SPARSE_EVENTS_PER_WINDOW
    for factor in _FACTORS if is_sparse else _FACTORS[2:3]:
        while _ascend(search, groups, factor):
            pass
    return search.best


def _ascend(search: _Search, groups: list[_ShareGroup], factor: float) -> bool:
    """Change every group of shares once, up or down; whether any change paid."""
    paid = False
    for group in groups:
        for change in (factor, 1 / factor):
            while (candidate := _change(search, group, change)) and search.offer(candidate):
                paid = True
    return paid


def _candidates(problem: PlanningProblem) -> Iterator[CandidatePlan]:
    """Make plans by other programs: the local one, and ones with patterns on or off."""
    yield from _solve(problem, problem.model, local=True)
    streams = [p.stream for node in problem.nodes for p in problem.patterns_on(node)]
    if not 1 < len(streams) <= _MAX_PATTERNS_SWITCHED:
        return
    for stream in streams:
        yield from _solve(problem, _without_worth(problem.model, {stream}))
        if len(streams) > 2:  # noqa: PLR2004  # of two, one is off if the other is alone
            others = set(streams) - {stream}
            yield from _solve(problem, _without_worth(problem.model, others))


def _solve(
    problem: PlanningProblem, model: Model, *, local: bool = False
) -> Iterator[CandidatePlan]:
    solution = solve_reduced(model, problem.planned, local=local, unshed=problem.unshed)
    if solution is not None:
        yield spend_budget(problem, to_shares(problem, solution), solution.on)


def _without_worth(model: Model, streams: set[Stream]) -> Model:
    """Let matches of some patterns bring nothing."""
    operators = {
        name: replace(
            operator,
            patterns=tuple(
                replace(pattern, emits=0.0) if pattern.stream in streams else pattern
                for pattern in operator.patterns
            ),
        )
        for name, operator in model.operators.items()
    }
    return replace(model, operators=operators)


def _share_groups(problem: PlanningProblem, keep: Keep) -> list[_ShareGroup]:
    """List what can be changed: whole patterns, then single types."""
    patterns, types = [], []
    for node in problem.nodes:
        for pattern in problem.patterns_on(node):
            free = scalable(pattern, keep[pattern.stream])
            if not free.any():
                continue
            patterns.append(_ShareGroup(pattern.stream, node, free))
            if free.sum() > 1 and free.sum() <= _MAX_USES:
                for use in np.flatnonzero(free):
                    single = np.arange(len(free)) == use
                    types.append(_ShareGroup(pattern.stream, node, single))
    return patterns + types


def _change(search: _Search, group: _ShareGroup, factor: float) -> CandidatePlan | None:
    """Multiply some shares; all others of the node rise or fall by what that costs."""
    problem, best = search.problem, search.best
    limit, load = problem.limits[group.node], best.loads[group.node]
    shares = best.keep[group.stream].copy()
    before = shares[group.uses]
    least = 0.02 if factor > 1 else 0.0  # what is off can only be turned on by hand
    after = shares[group.uses] = np.minimum(1.0, np.maximum(before, least) * factor)
    if np.array_equal(after, before):
        return None
    costs = limit.costs[group.stream][group.uses]
    kept = best.rates.kept[group.stream][group.uses]
    offered = np.divide(kept, before, out=np.zeros_like(before), where=before > 0)
    unseen = before == 0
    if unseen.any():
        pattern = problem.model.patterns[group.stream]
        types = pattern.demand.uses[group.uses][unseen]
        offered[unseen] = best.rates.arrivals[str(group.stream.operator)][types]
    more = dot(offered * (after - before), costs)
    free = _free_besides(problem, best, group) if load.cost > dot(kept, costs) else {}
    keep = {**best.keep, group.stream: shares}
    loose = sum(
        dot(best.rates.kept[stream][uses], limit.costs[stream][uses])
        for stream, uses in free.items()
    )
    if loose > 0:
        scale = max(0.0, (load.limit - load.cost - more + loose) / loose)
        for stream, uses in free.items():
            scaled = keep[stream].copy()
            scaled[uses] = np.minimum(1.0, scaled[uses] * scale)
            keep[stream] = scaled
    return scale_into_limits(problem, problem.evaluate(keep))


def _free_besides(
    problem: PlanningProblem, candidate: CandidatePlan, group: _ShareGroup
) -> Mapping[Stream, Flags]:
    """Find all shares of a node that may be scaled, but for those of a group."""
    free = {}
    for pattern in problem.patterns_on(group.node):
        shares = candidate.keep[pattern.stream]
        uses = scalable(pattern, shares) & (shares > 0)
        if pattern.stream == group.stream:
            uses = uses & ~group.uses
        if uses.any():
            free[pattern.stream] = uses
    return free
