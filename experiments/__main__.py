"""`python -m experiments`: figures of the paper, each as a table, a CSV file and a picture."""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from experiments import latency, quality
from experiments.data_sets import describe_data_sets, with_trace
from experiments.pool import each
from experiments.scalability import FIGURE, QUICK, TimedSolve
from experiments.scalability_text import check_optima, scalability_lines
from experiments.text import course_lines, quality_lines, rest_lines
from experiments.timing import measure
from shedlight.engines.simulator.csv_rows import plain, versions_and_machine, write_results

reproduce = typer.Typer(
    help="Run an experiment of the paper: rows as CSV, and the figure made from them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Row = TypeVar("_Row")
_Output = Annotated[Path, typer.Option(help="The folder for the CSV files and the figures.")]
_Quick = Annotated[bool, typer.Option("--quick", help="A small version: seconds, not minutes.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines to read.")]
_Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="The folder with the files of the Google cluster trace; without it, streams like "
        "the trace stand in.",
    ),
]
_Strict = Annotated[
    bool, typer.Option("--strict", help="Stop at a malformed row of the trace.")
]
_Jobs = Annotated[
    int,
    typer.Option(
        min=1,
        help="How many processes to use, but with --quick.",
        show_default="all processors",
    ),
]

_RESULTS = Path("results")
_PROCESSORS = os.cpu_count() or 1
_PATIENCE = 3.0
"""Seconds without a progress bar."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the command line asks for."""

    output: Path
    quick: bool
    data: Path | None = None
    strict: bool = False
    jobs: int = 1

    @property
    def processes(self) -> int:
        """How many processes to use: to start others takes longer than a small version."""
        return 1 if self.quick else self.jobs


@dataclass(frozen=True, slots=True)
class _Done:
    """An experiment that was run: what to print of it."""

    made_with: Mapping[str, str]
    rows: Mapping[str, Sequence[Any]]
    lines: Sequence[str]


@reproduce.callback()
def _options() -> None:
    """Run an experiment of the paper: rows as CSV, and the figure made from them."""


@reproduce.command("scalability")
def _scalability(
    output: _Output = _RESULTS, *, quick: _Quick = False, as_json: _Json = False
) -> None:
    """Time planning by types, queries and share of queries per type (a few minutes)."""
    _print(_run_scalability(_Asked(output, quick)), as_json=as_json)


@reproduce.command("quality")
def _quality(  # options
    output: _Output = _RESULTS,
    data: _Data = None,
    jobs: _Jobs = _PROCESSORS,
    *,
    strict: _Strict = False,
    quick: _Quick = False,
    as_json: _Json = False,
) -> None:
    """Count the results that are left by who sheds, on seven data sets (some minutes)."""
    _print(_run_quality(_Asked(output, quick, data, strict, jobs)), as_json=as_json)


@reproduce.command("latency")
def _latency(  # options
    output: _Output = _RESULTS,
    data: _Data = None,
    jobs: _Jobs = _PROCESSORS,
    *,
    strict: _Strict = False,
    quick: _Quick = False,
    as_json: _Json = False,
) -> None:
    """Hold busy time against its limit and latency against its bound (a few minutes)."""
    _print(_run_latency(_Asked(output, quick, data, strict, jobs)), as_json=as_json)


@reproduce.command("all")
def _all(  # options
    output: _Output = _RESULTS,
    data: _Data = None,
    jobs: _Jobs = _PROCESSORS,
    *,
    strict: _Strict = False,
    quick: _Quick = False,
    as_json: _Json = False,
) -> None:
    """Run all three."""
    asked = _Asked(output, quick, data, strict, jobs)
    runs = {
        "quality": _run_quality,
        "latency": _run_latency,
        "scalability": _run_scalability,
    }
    if as_json:
        print(json.dumps({name: _as_json(run(asked)) for name, run in runs.items()}, indent=2))
        return
    for number, run in enumerate(runs.values()):
        if number:
            print()
        _print(run(asked), as_json=False)


def _print(done: _Done, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(_as_json(done), indent=2))
        return
    for line in done.lines:
        print(line)


def _as_json(done: _Done) -> dict[str, Any]:
    rows = {name: [*map(plain, some)] for name, some in done.rows.items()}
    return {"made_with": dict(done.made_with), **rows}


def _run_quality(asked: _Asked) -> _Done:
    from experiments.figures.quality_figure import draw_quality  # noqa: PLC0415  # slow

    began = time.perf_counter()
    experiment = quality.QUICK if asked.quick else quality.FIGURE
    data = with_trace(experiment.data, asked.data, strict=asked.strict)
    told = describe_data_sets(data)
    experiment = replace(experiment, data=data)
    made_with = _made_with(experiment.name, experiment.seeds, asked)
    results, image = _files(asked.output, experiment.name)
    jobs = experiment.jobs
    done = _watched(each(quality.outcomes, jobs, asked.processes), len(jobs), experiment.name)
    rows = write_results(results, chain.from_iterable(done), quality.QualityRow, made_with)
    draw_quality(results, image)
    _say(experiment.name, len(rows), began, results, image)
    return _Done(made_with, {"rows": rows}, [*told, "", *quality_lines(rows)])


def _run_latency(asked: _Asked) -> _Done:
    from experiments.figures.latency_figure import (  # noqa: PLC0415  # slow to import
        draw_courses,
        draw_rests,
    )

    began = time.perf_counter()
    experiment = latency.QUICK if asked.quick else latency.FIGURE
    data = with_trace(experiment.data, asked.data, strict=asked.strict)
    told = describe_data_sets(data)
    experiment = replace(experiment, data=data)
    made_with = _made_with(experiment.name, experiment.seeds, asked)
    courses, rests = experiment.courses, experiment.rests
    results, image = _files(asked.output, experiment.name)
    bounds, bounds_image = _files(asked.output, f"{experiment.name}-at-rest")
    done = _watched(each(latency.moments, courses, asked.processes), len(courses), results.stem)
    moments = write_results(results, chain.from_iterable(done), latency.Moment, made_with)
    stays = _watched(each(latency.rest, rests, asked.processes), len(rests), bounds.stem)
    stayed = write_results(bounds, stays, latency.Rest, made_with)
    draw_courses(results, image)
    draw_rests(bounds, bounds_image)
    number = len(moments) + len(stayed)
    _say(experiment.name, number, began, results, image, bounds, bounds_image)
    lines = [*told, "", *course_lines(moments), "", *rest_lines(stayed)]
    return _Done(made_with, {"rows": moments, "at_rest": stayed}, lines)


def _run_scalability(asked: _Asked) -> _Done:
    from experiments.figures.scalability_figure import draw_scalability  # noqa: PLC0415  # slow to import

    grid = QUICK if asked.quick else FIGURE
    made_with = {
        "experiment": grid.name,
        "seed": str(grid.seed),
        "time_limit": f"{grid.time_limit:g}",
        **versions_and_machine(),
    }
    results, image = _files(asked.output, grid.name)
    began = time.perf_counter()
    rows = _watched(measure(grid), grid.points, grid.name)
    points = write_results(results, rows, TimedSolve, made_with)
    draw_scalability(results, image)
    _say(grid.name, len(points), began, results, image)
    check_optima(points)
    return _Done(made_with, {"rows": points}, [*scalability_lines(points, grid.time_limit)])


def _made_with(name: str, seeds: Sequence[int], asked: _Asked) -> dict[str, str]:
    return {
        "experiment": name,
        "seed": ", ".join(map(str, seeds)),
        "trace": "streams like it" if asked.data is None else "as read",
        **versions_and_machine(),
    }


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.csv", folder / f"{name}.png"


def _say(name: str, rows: int, began: float, *files: Path) -> None:
    seconds = time.perf_counter() - began
    names = ", ".join(map(str, files))
    print(f"{name}: {rows:,} rows in {seconds:.0f} s -> {names}", file=sys.stderr)


def _watched(points: Iterator[_Row], number: int, name: str) -> Iterator[_Row]:
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


if __name__ == "__main__":
    reproduce()
