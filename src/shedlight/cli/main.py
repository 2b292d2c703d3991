"""The command line: each command calls one function and prints its result.

Results go to standard output, everything else to standard error. The exit status is 0, 1 if it
could not be done, 2 if the call was not understood.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from shedlight import __version__
from shedlight.cli.completion import completion
from shedlight.cli.doctor import doctor
from shedlight.cli.match import match
from shedlight.cli.new import new
from shedlight.cli.options import ApplicationFile, Json
from shedlight.cli.plan import plan
from shedlight.cli.report import report
from shedlight.cli.run import run
from shedlight.cli.serve import serve
from shedlight.cli.simulate import simulate
from shedlight.engines.first_events import first_times
from shedlight.errors import InputError, ShedlightError
from shedlight.graph import LoadResult, Source, explain, load_application
from shedlight.graph.closures import find_closures
from shedlight.graph.shedding_notes import closure_values, note_shedding
from shedlight.matching.event_time import TIME_FORMS
from shedlight.model.selectivity.formula import selectivities

app = typer.Typer(
    name="shedlight",
    add_completion=False,  # there is a command for it, which does not guess the shell
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except ShedlightError as error:
        print(f"shedlight: {error}", file=sys.stderr)
        sys.exit(1)


def _print_version(asked: bool) -> None:  # noqa: FBT001  # typer calls it so
    if asked:
        print(f"shedlight {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Find patterns of events, on Spark or in files, and keep a latency bound under overload.

    An application file says where events come from, what to look for, on which nodes, and where
    the results go. When a node has more to do than it can, it sheds the events that
    contribute least to the results.

    \b
    Start:      shedlight new shop && cd shop
    In files:   shedlight match app.yaml --limit 5
    What if:    shedlight simulate app.yaml --load 2
    On Spark:   shedlight run app.yaml

    Results go to standard output, all else to standard error. The exit status is 0, 1 if it
    could not be done, 2 if the call was not understood.
    """  # noqa: D301  # "\b" keeps the lines below it as they are


def check(application: ApplicationFile, *, as_json_: Json = False) -> None:
    """Check an application file and explain it: event types, automata, graph."""
    loaded = load_application(application)
    if as_json_:
        print(json.dumps(_as_json(loaded, application.parent), indent=2))
    else:
        print(explain(loaded.application, loaded.warnings, selectivities(loaded.application)))
        for line in _first_time_lines(loaded, application.parent):
            print(line)


def _first_time_lines(loaded: LoadResult, folder: Path) -> Iterator[str]:
    """Say what would be made of the times of the first events of each source, if any."""
    lines = []
    for name, source in loaded.application.sources.items():
        try:
            times = first_times(source, folder)
        except InputError as error:
            lines.append(f"  {name}: {error}")
            continue
        for written, read in times:
            shown = f"no time; {TIME_FORMS}" if read is None else read
            lines.append(f"  {name}: {source.time}: {written} -> {shown}")
    if lines:
        yield "\nfirst events"
        yield from lines


def _first_times(source: Source, folder: Path) -> list[dict[str, str | None]]:
    try:
        return [{"written": a, "read": b} for a, b in first_times(source, folder)]
    except InputError:
        return []


def _as_json(loaded: LoadResult, folder: Path) -> dict[str, object]:
    application, rates = loaded.application, selectivities(loaded.application)
    notes, closures = note_shedding(application), find_closures(application).by_watcher
    operators = {
        name: {
            "node": spec.node,
            "input": [str(stream) for stream in spec.inputs],
            "patterns": {
                stream.name: {
                    "pattern": str(spec.patterns[stream.name]),
                    "matches_per_second": str(rates[stream]),
                    "closure": closure_values(application, closures[stream])
                    if stream in closures
                    else None,
                    "notes": dict(notes.get(stream, {})),
                }
                for stream in spec.outputs
            },
        }
        for name, spec in application.operators.items()
    }
    sinks = {
        name: {"input": str(sink.input), "timed_out": sink.timed_out, "weight": sink.weight}
        for name, sink in application.sinks.items()
    }
    sources = {
        name: {
            "format": source.format,
            "path": source.path,
            "first_times": _first_times(source, folder),
        }
        for name, source in application.sources.items()
    }
    return {
        "application": application.name,
        "sources": sources,
        "nodes": {
            name: {"bound": node.bound, "percentile": node.percentile}
            for name, node in application.nodes.items()
        },
        "operators": operators,
        "sinks": sinks,
        "warnings": list(loaded.warnings),
    }


_COMMANDS: tuple[tuple[Callable[..., None], str], ...] = (  # in the order of use
    (new, "Write a small application that works, to start from."),
    (check, "Check an application file, and explain it."),
    (match, "Find the matches in files of events, without Spark."),
    (simulate, "Simulate an application under a load."),
    (plan, "Plan what to keep, from rates and processing times."),
    (doctor, "Check that Spark can work here."),
    (run, "Run an application on Spark, shedding if it must."),
    (serve, "Show a run in a browser, live or from its log."),
    (report, "Write a report about a run, from its log."),
    (completion, "Print the script by which a shell completes commands."),
)
for _command, _help in _COMMANDS:
    app.command(short_help=_help)(_command)
