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

_MOST_TRIES = 100
"""How many plans are tried at most."""
_MOST_ALONE = 8
"""With more patterns than this on the planned nodes none of them is tried on or off."""
_MOST_USES = 12
"""A pattern of more types than this is changed as a whole only."""
_FACTORS = (2.0, 1.4, 1.15, 1.05)
"""By how much shares are changed, step after step."""
_FEW = 15.0
"""With more events per window than this the program is nearly right: one step is enough."""
_PAYS = 1.001
"""How much better a plan must be to be taken for better."""


@dataclass(slots=True, eq=False)
class _Trial:
    """What has been tried so far.

    Attributes:
        problem: What the plan is for.
        sample: The events that plans are tried on.
        best: The best plan so far.
        value: What it brings.
        tries: How many were tried.
    """

    problem: PlanningProblem
    sample: WindowSample
    best: CandidatePlan
    value: float
    tries: int = 1

    def offer(self, candidate: CandidatePlan) -> bool:
        """Try a plan; keep it if it is better."""
        if self.tries >= _MOST_TRIES or not candidate.fits:
            return False
        self.tries += 1
        value = sampled_value(self.sample, candidate.keep)
        if value <= self.value * _PAYS:
            return False
        self.best, self.value = candidate, value
        return True


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Shares that are changed together.

    Attributes:
        stream: The pattern.
        node: Where it runs.
        uses: Which of its uses they are of.
    """

    stream: Stream
    node: str
    uses: Flags


def sample_problem(
    problem: PlanningProblem, history: RateHistory | None = None
) -> WindowSample | None:
    """Draw events to try plans on, if windows matter and there are no wishes to mind."""
    wishes = any(sink.min_rate or sink.min_share for sink in problem.model.sinks.values())
    if problem.local or wishes:
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
    others: tuple[CandidatePlan, ...] = (),
) -> CandidatePlan:
    """Look for a plan that is better than the program's.

    Args:
        problem: What the plan is for.
        sample: The events to try plans on.
        candidate: The program's plan.
        others: More plans to begin with, such as the one in force.
    """
    trial = _Trial(problem, sample, candidate, sampled_value(sample, candidate.keep))
    for other in (*others, *_candidates(problem)):
        trial.offer(other)
    places = _places(problem)
    for factor in _FACTORS if sample.per_window < _FEW else _FACTORS[2:3]:
        while _ascended(trial, places, factor):
            pass
    return trial.best


def _ascended(trial: _Trial, places: list[_Place], factor: float) -> bool:
    """Change every place once, up or down; whether any change paid."""
    paid = False
    for place in places:
        for change in (factor, 1 / factor):
            while (candidate := _changed(trial, place, change)) and trial.offer(candidate):
                paid = True
    return paid


def _candidates(problem: PlanningProblem) -> Iterator[CandidatePlan]:
    """Make plans by other programs: the local one, and ones with patterns on or off."""
    yield from _solved(problem, problem.model, local=True)
    streams = [p.stream for node in problem.nodes for p in problem.patterns_on(node)]
    if not 1 < len(streams) <= _MOST_ALONE:
        return
    for stream in streams:
        yield from _solved(problem, _worthless(problem.model, {stream}))
        if len(streams) > 2:  # noqa: PLR2004  # of two, one is off if the other is alone
            yield from _solved(problem, _worthless(problem.model, set(streams) - {stream}))


def _solved(
    problem: PlanningProblem, model: Model, *, local: bool = False
) -> Iterator[CandidatePlan]:
    optimum = solve_reduced(model, problem.planned, local=local, unshed=problem.unshed)
    if optimum is not None:
        on = frozenset(stream for stream, is_on in optimum.on.items() if is_on)
        yield spend_budget(problem, to_shares(problem, optimum), on)


def _worthless(model: Model, streams: set[Stream]) -> Model:
    """Let matches of some patterns bring nothing."""
    operators = {
        name: replace(
            operator,
            patterns=tuple(
                replace(one, emits=0.0) if one.stream in streams else one
                for one in operator.patterns
            ),
        )
        for name, operator in model.operators.items()
    }
    return replace(model, operators=operators)


def _places(problem: PlanningProblem) -> list[_Place]:
    """List what can be changed: whole patterns, then single types."""
    whole, single = [], []
    for node in problem.nodes:
        for pattern in problem.patterns_on(node):
            free = scalable(pattern)
            if not free.any():
                continue
            whole.append(_Place(pattern.stream, node, free))
            if free.sum() > 1 and free.sum() <= _MOST_USES:
                for use in np.flatnonzero(free):
                    one = np.zeros_like(free)
                    one[use] = True
                    single.append(_Place(pattern.stream, node, one))
    return whole + single


def _changed(trial: _Trial, place: _Place, factor: float) -> CandidatePlan | None:
    """Multiply some shares; all others of the node rise or fall by what that costs."""
    problem, candidate = trial.problem, trial.best
    limit, load = problem.limits[place.node], candidate.loads[place.node]
    shares = candidate.keep[place.stream].copy()
    before = shares[place.uses]
    least = 0.02 if factor > 1 else 0.0  # what is off can only be turned on by hand
    shares[place.uses] = np.minimum(1.0, np.maximum(before, least) * factor)
    if np.array_equal(shares[place.uses], before):
        return None
    costs = limit.costs[place.stream][place.uses]
    arrivals = candidate.rates.kept[place.stream][place.uses]
    offered = np.divide(arrivals, before, out=np.zeros_like(before), where=before > 0)
    unseen = before == 0
    if unseen.any():
        pattern = problem.model.patterns[place.stream]
        types = pattern.demand.uses[place.uses][unseen]
        offered[unseen] = candidate.rates.arrivals[str(place.stream.operator)][types]
    more = dot(offered * (shares[place.uses] - before), costs)
    mine = dot(arrivals, costs)
    rest = _rest(problem, candidate, place) if load.cost > mine else {}
    keep = {**candidate.keep, place.stream: shares}
    loose = sum(
        dot(candidate.rates.kept[s][free], limit.costs[s][free]) for s, free in rest.items()
    )
    left = load.limit - load.cost - more + loose
    if loose > 0:
        scale = max(0.0, left / loose)
        for stream, free in rest.items():
            scaled = keep[stream].copy()
            scaled[free] = np.minimum(1.0, scaled[free] * scale)
            keep[stream] = scaled
    return scale_into_limits(problem, problem.evaluate(keep))


def _rest(
    problem: PlanningProblem, candidate: CandidatePlan, place: _Place
) -> Mapping[Stream, Flags]:
    """Find all shares of a node that may be scaled, but for those of a place."""
    rest = {}
    for pattern in problem.patterns_on(place.node):
        free = scalable(pattern)
        if pattern.stream == place.stream:
            free = free & ~place.uses
        free = free & (candidate.keep[pattern.stream] > 0)
        if free.any():
            rest[pattern.stream] = free
    return rest
