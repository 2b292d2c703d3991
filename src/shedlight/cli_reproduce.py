"""`shedlight reproduce`: figures of the paper, each as a table, a CSV file and a picture."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from shedlight.errors import PlanError
from shedlight.evaluation.results import plain, versions_and_machine, write_results
from shedlight.evaluation.scalability import (
    FIGURE,
    QUICK,
    Point,
    Program,
    Size,
    Status,
    disagreements,
    medians,
)
from shedlight.evaluation.timing import measure

reproduce = typer.Typer(
    help="Run an experiment of the paper: rows as CSV, and the figure made from them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_PATIENCE = 3.0
"""Seconds without a progress bar."""
_HEADER = ("types", "queries", "share", "paper's, s", "reduced, s", "ratio", "whole plan, s")


@reproduce.callback()
def _options() -> None:
    """Run an experiment of the paper: rows as CSV, and the figure made from them."""


@reproduce.command()
def scalability(
    output: Annotated[
        Path, typer.Option(help="The folder for the CSV file and the figure.")
    ] = Path("results"),
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes only: seconds, not minutes.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for machines to read.")
    ] = False,
) -> None:
    """Time planning by types, queries and share of queries per type (a few minutes)."""
    from shedlight.evaluation.figures import draw_scalability  # noqa: PLC0415  # slow to import

    grid = QUICK if quick else FIGURE
    made_with = {
        "experiment": grid.name,
        "seed": str(grid.seed),
        "time_limit": f"{grid.time_limit:g}",
        **versions_and_machine(),
    }
    results, image = (output / f"{grid.name}.{ending}" for ending in ("csv", "png"))
    began = time.perf_counter()
    rows = _watched(measure(grid), grid.points, grid.name)
    points = write_results(results, rows, Point, made_with)
    draw_scalability(results, image)
    seconds = time.perf_counter() - began
    if as_json:
        print(json.dumps({"made_with": made_with, "rows": [*map(plain, points)]}, indent=2))
    else:
        for line in _table(points, grid.time_limit):
            print(line)
    print(
        f"{grid.name}: {len(points)} rows in {seconds:.0f} s -> {results}, {image}",
        file=sys.stderr,
    )
    _check(points)


def _watched(points: Iterator[Point], number: int, name: str) -> Iterator[Point]:
    """Show a progress bar in a terminal, if it takes long."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task(name, total=number)
    began, shown = time.perf_counter(), False
    with ExitStack() as stack:
        for point in points:
            bar.advance(task)
            yield point
            if not shown and time.perf_counter() - began > _PATIENCE:
                stack.enter_context(bar)
                shown = True


def _table(points: Iterable[Point], limit: float) -> Iterator[str]:
    """Write a line per size, with the medians of each program."""
    middle = medians(points)
    rows: list[tuple[str, ...]] = [_HEADER]
    for size in sorted({size for _, size in middle}):
        paper, reduced, plan = (middle[program, size] for program in Program)
        times = [_seconds(one, limit) for one in (paper, reduced, plan)]
        rows.append((*_size(size), *times[:2], _ratio(paper, reduced, limit), times[2]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
    if any(one.status is Status.SKIPPED for one in middle.values()):
        yield "* not tried: smaller ones took too long; the CSV file has the reason"


def _size(size: Size) -> tuple[str, str, str]:
    return f"{size.types:,}", f"{size.queries:,}", f"{size.share:g}"


def _seconds(point: Point, limit: float) -> str:
    if point.seconds is None:
        return f"{'*' if point.status is Status.SKIPPED else ''}> {limit:g}"
    return f"{point.seconds:.3f}"


def _ratio(paper: Point, reduced: Point, limit: float) -> str:
    if reduced.seconds is None:
        return "-"
    if paper.seconds is None:
        return f"> {limit / reduced.seconds:,.0f}"
    return f"{paper.seconds / reduced.seconds:,.1f}"


def _check(points: Iterable[Point]) -> None:
    unlike = disagreements(points)
    if unlike:
        types, queries, share = _size(unlike[0])
        raise PlanError(
            f"the programs found different optima at {types} types, {queries} queries and a "
            f"share of {share} ({len(unlike)} sizes in all); this is a fault in Shedlight"
        )
