"""Results of the experiment on the runtime of the solver, as lines of text."""

from collections.abc import Iterable, Iterator

from experiments.scalability import (
    ProgramForm,
    Size,
    Status,
    TimedSolve,
    disagreements,
    median_points,
)
from shedlight.errors import PlanError
from shedlight.text_table import align_columns

_HEADER = ("types", "queries", "share", "paper's, s", "reduced, s", "ratio", "whole plan, s")


def scalability_lines(points: Iterable[TimedSolve], limit: float) -> Iterator[str]:
    """Write a line per size, with the medians of each program."""
    middle = median_points(points)
    rows: list[tuple[str, ...]] = [_HEADER]
    for size in sorted({size for _, size in middle}):
        paper, reduced, plan = (middle[program, size] for program in ProgramForm)
        times = [_seconds(one, limit) for one in (paper, reduced, plan)]
        rows.append((*_size(size), *times[:2], _ratio(paper, reduced, limit), times[2]))
    yield from align_columns(rows, left=0)
    if any(one.status is Status.SKIPPED for one in middle.values()):
        yield "* not tried: smaller ones took too long; the CSV file has the reason"


def _size(size: Size) -> tuple[str, str, str]:
    return f"{size.types:,}", f"{size.queries:,}", f"{size.share:g}"


def _seconds(point: TimedSolve, limit: float) -> str:
    if point.seconds is None:
        return f"{'*' if point.status is Status.SKIPPED else ''}> {limit:g}"
    return f"{point.seconds:.3f}"


def _ratio(paper: TimedSolve, reduced: TimedSolve, limit: float) -> str:
    if reduced.seconds is None:
        return "-"
    if paper.seconds is None:
        return f"> {limit / reduced.seconds:,.0f}"
    return f"{paper.seconds / reduced.seconds:,.1f}"


def check_optima(points: Iterable[TimedSolve]) -> None:
    """Check that all programs found the same optima.

    Raises:
        PlanError: They did not.
    """
    unlike = disagreements(points)
    if unlike:
        types, queries, share = _size(unlike[0])
        raise PlanError(
            f"the programs found different optima at {types} types, {queries} queries and a "
            f"share of {share} ({len(unlike)} sizes in all); this is a fault in Shedlight"
        )
