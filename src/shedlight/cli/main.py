"""The command line: each command calls one function and prints its result.

Results go to standard output, everything else to standard error. The exit status is 0, 1 if it
could not be done, 2 if the call was not understood.
"""

import os
import sys
from collections import UserDict
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from shedlight import __version__
from shedlight.cli.usage_errors import Command
from shedlight.errors import ShedlightError, missing_extra

COMMANDS = {  # in the order of use; each is a function in a module of its name
    "new": "Write a small application that works, to start from.",
    "check": "Check an application file, and explain it.",
    "match": "Find the matches in files of events, without Spark.",
    "why": "Say why a pattern did not match, from files of events.",
    "simulate": "Simulate an application under a load.",
    "plan": "Plan what to keep, from rates and processing times.",
    "doctor": "Check that Spark can work here.",
    "run": "Run an application on Spark, shedding if it must.",
    "control": "Plan for the nodes of an application that run by themselves.",
    "recover": "Write what shedding lost, from the stored events of a run.",
    "serve": "Show a run in a browser, live or from its log.",
    "report": "Write a report about a run, from its log.",
    "completion": "Print the script by which a shell completes commands.",
}


class _LazyCommands(UserDict[str, Any]):
    """The commands by name, each imported when it is first asked for."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COMMANDS))  # not loaded yet

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # a command of click
        if name in self.data and self.data[name] is None:
            function = getattr(import_module(f"shedlight.cli.{name}"), name)
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command(name, short_help=COMMANDS[name], cls=Command)(function)
            self.data[name] = typer.main.get_command(alone)
        return self.data[name]


class _Group(TyperGroup):
    """All commands; their list needs none of them."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  # those of click
        super().__init__(**settings)
        self.commands = _LazyCommands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    name="shedlight",
    cls=_Group,
    add_completion=False,  # there is a command for it, which does not guess the shell
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Run the command line."""
    if "_SHEDLIGHT_COMPLETE" in os.environ:  # a shell asks how a command may go on
        import_module("shedlight.cli.completion")
    try:
        app()
    except ShedlightError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        _fail(missing)


def _fail(error: ShedlightError) -> NoReturn:
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
