"""The command line: each verb calls one function and prints its result.

Results go to standard output, everything else to standard error. The exit status is 0, 1 if it
could not be done, 2 if the call was not understood.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from shedlight import __version__
from shedlight.automaton.compiled import is_first_run
from shedlight.automaton.intake import Input
from shedlight.automaton.operator import schema_of
from shedlight.cli_completion import completion
from shedlight.cli_doctor import doctor
from shedlight.cli_new import new
from shedlight.cli_report import report
from shedlight.cli_reproduce import reproduce
from shedlight.cli_run import run
from shedlight.cli_serve import serve
from shedlight.cli_simulate import simulate
from shedlight.engines.application import run_application
from shedlight.engines.files import (
    flat,
    format_of,
    json_lines,
    numbered,
    read_events,
    stacked,
    write_events,
)
from shedlight.engines.finished import AT, UNITS, Result, match_tables, named, timed
from shedlight.errors import InputError, PlanError, ShedlightError, known_names
from shedlight.graph import Loaded, explain, load_application
from shedlight.graph.duration import read_duration
from shedlight.language import parse_pattern
from shedlight.language.window import read_window
from shedlight.model.build import build_model
from shedlight.model.functions import selectivities
from shedlight.model.latency import Latency, Target
from shedlight.model.model import Model
from shedlight.model.snapshot import read_snapshot
from shedlight.planning.plan import Wanted, make_plan
from shedlight.planning.report import as_json, as_text
from shedlight.planning.wishes import InfeasibleError

app = typer.Typer(
    name="shedlight",
    add_completion=False,  # there is a verb for it, which does not guess the shell
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ROW = "row"
"""The id of an event if no column is named: the number of its row, from 1 on."""


def main() -> None:
    """Run the command line."""
    try:
        app()
    except ShedlightError as error:
        print(f"shedlight: {error}", file=sys.stderr)
        sys.exit(1)


def _version(shown: bool) -> None:  # noqa: FBT001  # typer calls it so
    if shown:
        print(f"shedlight {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Find patterns of events, on Spark or in files, and keep a latency bound under overload.

    An application file says where events come from, what to look for, on which nodes, and where
    the results go. When a node is asked for more than it can do, it sheds the events that bring
    least at the end.

    \b
    Start:      shedlight new shop && cd shop
    In files:   shedlight match app.yaml --limit 5
    What if:    shedlight simulate app.yaml --load 2
    On Spark:   shedlight run app.yaml

    Results go to standard output, all else to standard error. The exit status is 0, 1 if it
    could not be done, 2 if the call was not understood.
    """  # noqa: D301  # "\b" keeps the lines below it as they are


_Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines to read.")]


def check(
    application: Annotated[Path, typer.Argument(help="An application file (YAML).")],
    *,
    as_json_: _Json = False,
) -> None:
    """Check an application file and explain what was understood: types, automata, graph."""
    loaded = load_application(application)
    if as_json_:
        print(json.dumps(_understood(loaded), indent=2))
    else:
        print(explain(loaded.application, loaded.warnings, selectivities(loaded.application)))


def _understood(loaded: Loaded) -> dict[str, object]:
    """Say what was understood, for machines."""
    application, rates = loaded.application, selectivities(loaded.application)
    return {
        "application": application.name,
        "sources": {
            n: {"format": s.format, "path": s.path} for n, s in application.sources.items()
        },
        "nodes": {name: {"bound": node.bound} for name, node in application.nodes.items()},
        "operators": {
            name: {
                "node": spec.node,
                "input": [str(stream) for stream in spec.inputs],
                "patterns": {
                    one.name: {
                        "pattern": str(spec.patterns[one.name]),
                        "matches_per_second": str(rates[one]),
                    }
                    for one in spec.outputs
                },
            }
            for name, spec in application.operators.items()
        },
        "sinks": {
            name: {
                "input": str(one.input),
                "timed_out": one.timed_out,
                "weight": one.weight,
            }
            for name, one in application.sinks.items()
        },
        "warnings": list(loaded.warnings),
    }


def match(  # noqa: PLR0913  # one argument per option
    application: Annotated[
        Path | None, typer.Argument(help="An application file (YAML), or give --pattern.")
    ] = None,
    *,
    pattern: Annotated[
        list[str] | None, typer.Option(help="A pattern; may be repeated.")
    ] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            help="A file or folder of events (Parquet, CSV, JSON lines); for an application "
            "with several sources NAME=FILE each. Without it, its own paths are read.",
        ),
    ] = None,
    time_column: Annotated[
        str, typer.Option("--time", help="The column with the time of an event.")
    ] = "time",
    time_unit: Annotated[
        str, typer.Option(help="Of a time column with numbers: us, ms or s.")
    ] = "us",
    id_: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="The columns that identify an event, COL,COL,... "
            "[default: the number of its row]",
        ),
    ] = None,
    lateness: Annotated[
        str, typer.Option(help="How far behind the latest an event may be, e.g. '5 s'.")
    ] = "0 s",
    output: Annotated[
        Path | None, typer.Option(help="Write the matches there (.parquet, .csv, .jsonl).")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Print at most so many matches.")] = 50,
    timed_out: Annotated[
        bool,
        typer.Option(
            "--timed-out",
            help="Give what timed out instead of the matches: events that the window of a "
            "pattern left without the others.",
        ),
    ] = False,
    as_json_: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each match, all of them.")
    ] = False,
) -> None:
    """Find the matches of patterns in a file of events, without Spark."""
    if (application is None) == (not pattern):
        raise typer.BadParameter("give an application file or --pattern, one of the two")
    if output:
        format_of(output)
    began = time.perf_counter()
    if application is None:
        results, table = _match_patterns(
            pattern or [], input_ or [], (time_column, time_unit), id_, lateness, timed_out
        )
    else:
        results, table = _match_application(application, input_ or [], timed_out)
    seconds = time.perf_counter() - began
    if output:
        write_events(table, output)
    if as_json_:
        for line in json_lines(table):
            print(line)
    elif not output:
        _show(table, limit)
    what = "timed out" if timed_out else "matches"
    _summarise(results, f"{len(table):,} {what}", seconds, output)


def _match_patterns(
    texts: list[str],
    inputs: list[str],
    told: tuple[str, str],
    ids: str | None,
    lateness: str,
    timed_out: bool,  # noqa: FBT001  # what the options say
) -> tuple[list[Result], pa.Table]:
    column, unit = told
    if len(inputs) != 1:
        raise typer.BadParameter("--pattern needs exactly one --input FILE")
    if unit not in UNITS:
        raise typer.BadParameter(f"unknown --time-unit {unit!r}; {known_names(unit, UNITS)}")
    path = Path(inputs[0])
    events = read_events(path)
    names = tuple(name.strip() for name in ids.split(",")) if ids else (ROW,)
    if not ids:
        events = numbered(events, ROW)
    for name in (column, *names):
        if name not in events.column_names:
            raise InputError(
                f"{path} has no column {name!r}; {known_names(name, events.column_names)}"
            )
    schema = schema_of(events.schema)
    patterns = {}
    for number, text in enumerate(texts, 1):
        parsed = parse_pattern(text, schema)
        patterns[f"P{number}"] = parsed.pattern
        for warning in parsed.warnings:
            _say(f"warning: {warning}")
    behind = 0 if lateness.split(maxsplit=1)[0] == "0" else read_window(lateness).length
    one = Input(str(path), names, AT, behind, column in names)
    _announce_compiling()
    table = timed(events, column, unit, str(path))
    result = match_tables([(one, table)], patterns, timed_out=timed_out)
    kind = events.schema.field(column).type
    return [result], named(result, kind, unit, timed_out=timed_out)


def _match_application(
    path: Path,
    inputs: list[str],
    timed_out: bool,  # noqa: FBT001  # what the option says
) -> tuple[list[Result], pa.Table]:
    application = load_application(path).application
    given = dict(_input_of(text, list(application.sources)) for text in inputs)
    tables = {}
    for name, source in application.sources.items():
        place = given.get(name) or (Path(path.parent, source.path) if source.path else None)
        if place is None:
            raise InputError(f"source {name} has no path; give --input {name}=FILE")
        tables[name] = read_events(place, None if name in given else source.format)
    _announce_compiling()
    results = list(run_application(application, tables, timed_out=timed_out).values())
    found = [named(result, timed_out=timed_out) for result in results]
    shown = [table for table in found if len(table)] or found[-1:]
    return results, stacked(shown)


def _input_of(text: str, sources: list[str]) -> tuple[str, Path]:
    name, separator, file = text.partition("=")
    if separator and name in sources:
        return name, Path(file)
    if len(sources) == 1:
        return sources[0], Path(text)
    raise InputError(
        f"--input {text!r} does not say which source it is for; write NAME=FILE; "
        f"{known_names(name, sources)}"
    )


class Objective(Enum):
    """What a plan maximises."""

    GLOBAL = "global"
    LOCAL = "local"


def plan(  # noqa: PLR0913, PLR0917  # one argument per option
    application: Annotated[Path, typer.Argument(help="An application file (YAML).")],
    snapshot: Annotated[
        Path, typer.Option(help="Rates and processing times (JSON).", show_default=False)
    ],
    bottleneck: Annotated[
        str | None,
        typer.Option(help="The node to plan.  [default: all overloaded ones, together]"),
    ] = None,
    objective: Annotated[
        Objective, typer.Option(help="Results at the sinks, or of the planned nodes.")
    ] = Objective.GLOBAL,
    bound: Annotated[
        str | None,
        typer.Option(help="Plan for this bound, e.g. '500 ms'.  [default: as in the file]"),
    ] = None,
    latency: Annotated[
        Latency, typer.Option(help="How a bound becomes a limit on busy time.")
    ] = Latency.MG1,
    aim: Annotated[float, typer.Option(help="The share of the limit to aim at.")] = 0.9,
    *,
    fill: Annotated[
        bool, typer.Option("--fill/--no-fill", help="Spend what is left of the budget.")
    ] = True,
    windows: Annotated[
        bool,
        typer.Option("--windows/--no-windows", help="Mind windows where streams are sparse."),
    ] = True,
    as_json_: _Json = False,
) -> None:
    """Plan which share of which type each pattern keeps, without a running system."""
    if not 0 < aim <= 1:
        raise typer.BadParameter("--aim must be above 0 and at most 1")
    loaded = load_application(application)
    for warning in loaded.warnings:
        _say(f"warning: {warning}")
    model = build_model(loaded.application, read_snapshot(snapshot, loaded.application))
    if bound is not None:
        model = _with_bound(model, bound, bottleneck)
    wanted = Wanted(
        target=Target(latency=latency, aim=aim),
        bottleneck=bottleneck,
        local=objective is Objective.LOCAL,
        fill=fill,
        windows=windows,
    )
    try:
        found = make_plan(model, wanted)
    except PlanError as error:
        if as_json_:
            print(json.dumps(_failure(error), indent=2))
        raise
    if as_json_:
        print(json.dumps(as_json(model, found), indent=2))
    else:
        print(as_text(model, found, wanted.target))


def _with_bound(model: Model, bound: str, bottleneck: str | None) -> Model:
    """Give the bottleneck another bound, or else every node that has one."""
    try:
        seconds = read_duration(bound) / 1e6
    except ValueError as error:
        raise typer.BadParameter(f"--bound {error}") from error
    if seconds <= 0:
        raise typer.BadParameter("--bound must be longer than zero")
    nodes = {
        name: replace(node, bound=seconds)
        if name == bottleneck or (bottleneck is None and node.bound is not None)
        else node
        for name, node in model.nodes.items()
    }
    return replace(model, nodes=nodes)


def _failure(error: PlanError) -> dict[str, object]:
    if isinstance(error, InfeasibleError):
        return {
            "status": "infeasible",
            "problem": error.problem,
            "remedies": list(error.remedies),
        }
    return {"status": "failed", "problem": str(error)}


def _announce_compiling() -> None:
    if is_first_run():
        _say("compiling the matcher, once on this machine (about half a minute) ...")


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _show(table: pa.Table, limit: int) -> None:
    """Print matches as a table, in a terminal with lines."""
    shown = flat(table.slice(0, limit))
    rows = [[_cell(value) for value in row.values()] for row in shown.to_pylist()]
    if sys.stdout.isatty():
        drawn = Table(*shown.column_names)
        for row in rows:
            drawn.add_row(*row)
        Console().print(drawn)
        return
    for line in _aligned([shown.column_names, *rows]):
        print(line)


def _cell(value: object) -> str:
    if value is None:
        return "null"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."  # noqa: PLR2004  # a screen's width


def _aligned(rows: list[list[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()


def _summarise(results: list[Result], found: str, seconds: float, output: Path | None) -> None:
    """Say how much was read and found, and what was lost and why."""
    first = results[0]
    where = f" -> {output}" if output else ""
    _say(f"{first.events:,} events, {found} in {seconds:.1f} s{where}")
    late = sum(one.late for one in results)
    if late:
        _say(
            f"{late:,} late events were not matched: they came behind later ones; "
            "sort the file by time, or allow for it by --lateness"
        )
    duplicates = sum(one.duplicates for one in results)
    if duplicates:
        _say(
            f"{duplicates:,} duplicates were left out: events with an id that was there before"
        )
    if any(one.evicted or one.dropped for one in results):
        _say(
            f"{sum(one.evicted for one in results):,} machines and "
            f"{sum(one.dropped for one in results):,} assignments were beyond the caps"
        )


_VERBS: tuple[tuple[Callable[..., None], str], ...] = (  # as a user meets them
    (new, "Write a small application that works, to start from."),
    (check, "Check an application file; explain what was understood."),
    (match, "Find the matches in files of events, without Spark."),
    (simulate, "Ask what happens under a load, in virtual time."),
    (plan, "Plan what to keep, from rates and processing times."),
    (doctor, "Check that Spark can work here."),
    (run, "Run an application on Spark, shedding if it must."),
    (serve, "Show how a run goes, in a browser."),
    (report, "Write a page about a run, from its log."),
    (completion, "Print what a shell needs to complete commands."),
)
for _verb, _told in _VERBS:
    app.command(short_help=_told)(_verb)
app.add_typer(reproduce, name="reproduce", short_help="Run the experiments of the paper.")


if __name__ == "__main__":
    main()
