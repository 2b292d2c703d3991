"""Times planning on a grid of sizes; what surely takes too long is skipped, with a remark.

Bounds are kept as in the paper: M/M/1, the whole limit. Every solve has a model of its own,
because models remember what was computed of them.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from experiments.instances import Arrays, draw_arrays, model_of
from experiments.scalability import Grid, ProgramForm, Size, Status, TimedSolve
from shedlight.errors import SolverError
from shedlight.model.latency import LatencyModel, Target, node_limit
from shedlight.planning.paper import solve_paper
from shedlight.planning.plan import PlanSettings, make_plan
from shedlight.planning.reduced_lp import solve_reduced

Clock = Callable[[], float]

_TARGET = Target(latency=LatencyModel.MM1, aim=1.0)
_TREND_FROM = 1.0
"""Seconds from which on time grows at least as the size does; below, fixed costs hide it."""
_SKIP_FACTOR = 5.0
"""How many times the limit the trend must promise for a size to be skipped."""


def measure(grid: Grid, clock: Clock = time.perf_counter) -> Iterator[TimedSolve]:
    """Measure everything on a grid, from small to large."""
    small = draw_arrays(10, 2, 1.0, grid.seed)
    for program in grid.repeats:  # what is done once per process is not to be in a row
        prepare_solve(program, small)()
    points: list[TimedSolve] = []
    for size in grid.sizes:
        arrays = draw_arrays(size.types, size.queries, size.share, grid.seed)
        for program, repeats in grid.repeats.items():
            reason = reason_to_skip(size, program, points, grid.time_limit)
            for repeat in range(repeats):
                point = TimedSolve(
                    program=program,
                    types=size.types,
                    queries=size.queries,
                    share=size.share,
                    seconds=None,
                    status=Status.SKIPPED,
                    objective=None,
                    seed=grid.seed,
                    repeat=repeat,
                    remark=reason,
                )
                if not reason:
                    point = _time_solve(point, arrays, grid.time_limit, clock)
                points.append(point)
                yield point


def reason_to_skip(
    size: Size, program: ProgramForm, points: Iterable[TimedSolve], time_limit: float
) -> str:
    """Say why a size surely takes longer than the limit; empty if it may not.

    A size that is not smaller in any respect than one without an answer has none either. And
    past a second, time grows at least as fast as the number of types in queries does.
    """
    smaller = [one for one in points if one.program is program and size.covers(one.size)]
    if any(one.status is Status.NO_ANSWER for one in smaller):
        return f"a smaller one had no answer within {time_limit:g} s"
    if any(one.status is Status.SKIPPED for one in smaller):
        return "a smaller one was skipped already"
    promised = max(
        (
            one.seconds * size.pairs / one.size.pairs
            for one in smaller
            if one.seconds is not None and one.seconds >= _TREND_FROM
        ),
        default=0.0,
    )
    if promised > _SKIP_FACTOR * time_limit:
        return f"a smaller one promises {promised:.0f} s or more; the limit is {time_limit:g} s"
    return ""


def _time_solve(
    point: TimedSolve, arrays: Arrays, time_limit: float, clock: Clock
) -> TimedSolve:
    """Solve and say how long it took and what came of it."""
    work = prepare_solve(point.program, arrays, time_limit)
    began = clock()
    try:
        objective = work()
    except SolverError:
        if clock() - began < time_limit:
            raise
        remark = f"no answer within {time_limit:g} s"
        return replace(point, status=Status.NO_ANSWER, remark=remark)
    seconds = clock() - began
    return replace(point, seconds=seconds, status=Status.OPTIMAL, objective=objective)


def prepare_solve(
    program: ProgramForm, arrays: Arrays, time_limit: float = 60.0
) -> Callable[[], float]:
    """Prepare a solve to be timed; it returns the optimum."""
    if program is ProgramForm.PLAN:
        settings = PlanSettings(target=_TARGET, time_limit=time_limit)
        return lambda: make_plan(model_of(arrays), settings).objective
    model = model_of(arrays)
    (node,) = model.nodes.values()
    limit = node_limit(model, node, _TARGET)
    if limit is None:
        raise RuntimeError("an instance has a bound and processing times")
    if program is ProgramForm.PAPER:
        return lambda: solve_paper(model, limit, time_limit=time_limit).objective

    def reduced() -> float:
        optimum = solve_reduced(model, {node.name: limit}, time_limit=time_limit)
        if optimum is None:
            raise RuntimeError("an instance has no constraints that could not be met")
        return optimum.objective

    return reduced
