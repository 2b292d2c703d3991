"""`python -m experiments`: each experiment as a table, a CSV file and a figure."""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from experiments import latency, quality, strata
from experiments.data_sets import describe_data_sets, with_trace
from experiments.pool import map_jobs
from experiments.scalability import FIGURE, QUICK, TimedSolve
from experiments.scalability_text import check_optima, scalability_lines
from experiments.strata_text import strata_lines
from experiments.text import quality_lines, steady_state_lines, timeline_lines
from experiments.timing import measure
from shedlight.cli.console import progress_bar, say
from shedlight.cli.options import Json
from shedlight.engines.simulator.csv_rows import provenance, to_json_values, write_results
from shedlight.errors import ShedlightError

app = typer.Typer(
    name="experiments",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

_Row = TypeVar("_Row")
_Output = Annotated[Path, typer.Option(help="The folder for the CSV files and the figures.")]
_Quick = Annotated[bool, typer.Option("--quick", help="A small version: seconds, not minutes.")]
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


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of the command line."""

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
class _Results:
    """The rows of an experiment, what they were made with, and what to print of them."""

    made_with: Mapping[str, str]
    rows: Mapping[str, Sequence[Any]]
    lines: Sequence[str]


def main() -> None:
    """Run the command line."""
    try:
        app()
    except ShedlightError as error:
        print(f"experiments: {error}", file=sys.stderr)
        sys.exit(1)


@app.callback()
def _describe() -> None:
    """Run an experiment of the paper: rows as CSV, and the figure made from them."""


@app.command("scalability")
def _scalability(
    output: _Output = _RESULTS, *, quick: _Quick = False, as_json: Json = False
) -> None:
    """Time planning by types, queries and share of queries per type (a few minutes)."""
    _print(_run_scalability(_Options(output, quick)), as_json=as_json)


@app.command("quality")
def _quality(  # options
    output: _Output = _RESULTS,
    data: _Data = None,
    jobs: _Jobs = _PROCESSORS,
    *,
    strict: _Strict = False,
    quick: _Quick = False,
    as_json: Json = False,
) -> None:
    """Count the results that are left, by shedder, on seven data sets (some minutes)."""
    _print(_run_quality(_Options(output, quick, data, strict, jobs)), as_json=as_json)


@app.command("latency")
def _latency(  # options
    output: _Output = _RESULTS,
    data: _Data = None,
    jobs: _Jobs = _PROCESSORS,
    *,
    strict: _Strict = False,
    quick: _Quick = False,
    as_json: Json = False,
) -> None:
    """Compare busy time with its limit and latency with its bound (a few minutes)."""
    _print(_run_latency(_Options(output, quick, data, strict, jobs)), as_json=as_json)


@app.command("strata")
def _strata(
    output: _Output = _RESULTS,
    data: _Data = None,
    jobs: _Jobs = _PROCESSORS,
    *,
    quick: _Quick = False,
    as_json: Json = False,
) -> None:
    """Count the results that are left where keys are not alike (half an hour)."""
    _print(_run_strata(_Options(output, quick, data, jobs=jobs)), as_json=as_json)


@app.command("all")
def _all(  # options
    output: _Output = _RESULTS,
    data: _Data = None,
    jobs: _Jobs = _PROCESSORS,
    *,
    strict: _Strict = False,
    quick: _Quick = False,
    as_json: Json = False,
) -> None:
    """Run all three."""
    options = _Options(output, quick, data, strict, jobs)
    runs = {
        "quality": _run_quality,
        "latency": _run_latency,
        "scalability": _run_scalability,
    }
    if as_json:
        results = {name: _as_json(run(options)) for name, run in runs.items()}
        print(json.dumps(results, indent=2))
        return
    for number, run in enumerate(runs.values()):
        if number:
            print()
        _print(run(options), as_json=False)


def _print(results: _Results, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(_as_json(results), indent=2))
        return
    for line in results.lines:
        print(line)


def _as_json(results: _Results) -> dict[str, Any]:
    rows = {name: [*map(to_json_values, table)] for name, table in results.rows.items()}
    return {"made_with": dict(results.made_with), **rows}


def _run_quality(options: _Options) -> _Results:
    from experiments.figures.quality_figure import draw_quality  # noqa: PLC0415  # slow

    began = time.perf_counter()
    experiment = quality.QUICK if options.quick else quality.FIGURE
    data = with_trace(experiment.data, options.data, strict=options.strict)
    data_lines = describe_data_sets(data)
    experiment = replace(experiment, data=data)
    made_with = _made_with(experiment.name, experiment.seeds, options)
    csv, image = _files(options.output, experiment.name)
    jobs = experiment.jobs
    outcomes = map_jobs(quality.run_job, jobs, options.processes)
    done = _with_progress(outcomes, len(jobs), experiment.name)
    rows = write_results(csv, chain.from_iterable(done), quality.QualityRow, made_with)
    draw_quality(csv, image)
    _announce(experiment.name, len(rows), began, csv, image)
    return _Results(made_with, {"rows": rows}, [*data_lines, "", *quality_lines(rows)])


def _run_latency(options: _Options) -> _Results:
    from experiments.figures.latency_figure import (  # noqa: PLC0415  # slow to import
        draw_steady_state,
        draw_timelines,
    )

    began = time.perf_counter()
    experiment = latency.QUICK if options.quick else latency.FIGURE
    data = with_trace(experiment.data, options.data, strict=options.strict)
    data_lines = describe_data_sets(data)
    experiment = replace(experiment, data=data)
    made_with = _made_with(experiment.name, experiment.seeds, options)
    timeline_jobs, steady_jobs = experiment.timeline_jobs, experiment.steady_state_jobs
    csv, image = _files(options.output, experiment.name)
    steady_csv, steady_image = _files(options.output, f"{experiment.name}-steady-state")
    timelines = _with_progress(
        map_jobs(latency.run_timeline, timeline_jobs, options.processes),
        len(timeline_jobs),
        csv.stem,
    )
    intervals = write_results(
        csv, chain.from_iterable(timelines), latency.IntervalRow, made_with
    )
    runs = _with_progress(
        map_jobs(latency.run_steady_state, steady_jobs, options.processes),
        len(steady_jobs),
        steady_csv.stem,
    )
    steady = write_results(steady_csv, runs, latency.SteadyStateRow, made_with)
    draw_timelines(csv, image)
    draw_steady_state(steady_csv, steady_image)
    number = len(intervals) + len(steady)
    _announce(experiment.name, number, began, csv, image, steady_csv, steady_image)
    lines = [*data_lines, "", *timeline_lines(intervals), "", *steady_state_lines(steady)]
    return _Results(made_with, {"rows": intervals, "steady_state": steady}, lines)


def _run_strata(options: _Options) -> _Results:
    began = time.perf_counter()
    experiment = strata.QUICK if options.quick else strata.FIGURE
    experiment = replace(experiment, folder=options.data)
    made_with = _made_with(experiment.name, experiment.seeds, options)
    csv, _ = _files(options.output, experiment.name)
    outcomes = map_jobs(strata.run_job, experiment.jobs, options.processes)
    done = _with_progress(outcomes, len(experiment.jobs), experiment.name)
    rows = write_results(csv, chain.from_iterable(done), strata.StrataRow, made_with)
    _announce(experiment.name, len(rows), began, csv)
    return _Results(made_with, {"rows": rows}, [*strata_lines(rows)])


def _run_scalability(options: _Options) -> _Results:
    from experiments.figures.scalability_figure import draw_scalability  # noqa: PLC0415  # slow to import

    grid = QUICK if options.quick else FIGURE
    made_with = {
        "experiment": grid.name,
        "seed": str(grid.seed),
        "time_limit": f"{grid.time_limit:g}",
        **provenance(),
    }
    csv, image = _files(options.output, grid.name)
    began = time.perf_counter()
    rows = _with_progress(measure(grid), grid.points, grid.name)
    points = write_results(csv, rows, TimedSolve, made_with)
    draw_scalability(csv, image)
    _announce(grid.name, len(points), began, csv, image)
    check_optima(points)
    return _Results(made_with, {"rows": points}, [*scalability_lines(points, grid.time_limit)])


def _made_with(name: str, seeds: Sequence[int], options: _Options) -> dict[str, str]:
    return {
        "experiment": name,
        "seed": ", ".join(map(str, seeds)),
        "trace": "streams like it" if options.data is None else "as read",
        **provenance(),
    }


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.csv", folder / f"{name}.png"


def _announce(name: str, rows: int, began: float, *files: Path) -> None:
    seconds = time.perf_counter() - began
    say(f"{name}: {rows:,} rows in {seconds:.0f} s -> {', '.join(map(str, files))}")


def _with_progress(rows: Iterator[_Row], number: int, name: str) -> Iterator[_Row]:
    with progress_bar(name, number) as advance:
        for row in rows:
            advance()
            yield row


if __name__ == "__main__":
    main()
