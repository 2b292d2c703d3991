"""What verbs of the command line have in common: words for a user, and an option."""

import sys
from typing import Annotated

import typer

from shedlight.matching.jit import is_first_run

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines to read.")]


def announce_compiling() -> None:
    """Say why the first run on a machine takes longer."""
    if is_first_run():
        say("compiling the matcher, once on this machine (about half a minute) ...")


def say(text: str) -> None:
    """Tell a user something that is no result."""
    print(text, file=sys.stderr)
