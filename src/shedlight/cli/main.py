"""The command line: each verb calls one function and prints its result.

Results go to standard output, everything else to standard error. The exit status is 0, 1 if it
could not be done, 2 if the call was not understood.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from shedlight import __version__
from shedlight.cli.completion import completion
from shedlight.cli.console import Json
from shedlight.cli.doctor import doctor
from shedlight.cli.match import match
from shedlight.cli.new import new
from shedlight.cli.plan import plan
from shedlight.cli.report import report
from shedlight.cli.run import run
from shedlight.cli.serve import serve
from shedlight.cli.simulate import simulate
from shedlight.errors import ShedlightError
from shedlight.graph import LoadResult, explain, load_application
from shedlight.model.selectivity.formula import selectivities

app = typer.Typer(
    name="shedlight",
    add_completion=False,  # there is a verb for it, which does not guess the shell
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


def check(
    application: Annotated[Path, typer.Argument(help="An application file (YAML).")],
    *,
    as_json_: Json = False,
) -> None:
    """Check an application file and explain what was understood: types, automata, graph."""
    loaded = load_application(application)
    if as_json_:
        print(json.dumps(_understood(loaded), indent=2))
    else:
        print(explain(loaded.application, loaded.warnings, selectivities(loaded.application)))


def _understood(loaded: LoadResult) -> dict[str, object]:
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
