"""`shedlight serve`: the page of a run, from its log; `shedlight run --page` serves it too."""

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shedlight.errors import InputError
from shedlight.runlog import find_log

if TYPE_CHECKING:  # a web server takes half a second to import
    from shedlight.page.server import PageServer

HOST, PORT = "127.0.0.1", 8321

Host = Annotated[
    str | None,
    typer.Option(
        help="The address to serve the page at. Other machines reach it at another than the "
        f"default, and then every request needs the token.  [default: {HOST}]"
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, help=f"The port of the page; 0: any that is free.  [default: {PORT}]"
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="SHEDLIGHT_TOKEN",
        show_envvar=False,
        help="What to show for changes. Others on this machine see options; the environment "
        "variable SHEDLIGHT_TOKEN they do not.  [default: one is made and printed]",
    ),
]


def serve(
    run: Annotated[Path, typer.Argument(help="The checkpoint of a run, or its log.")],
    *,
    host: Host = None,
    port: Port = None,
    token: Token = None,
) -> None:
    """Serve the page of a run, under way or over: nodes, flows, latency, decisions, what if."""
    from shedlight.page.run_view import run_paths  # noqa: PLC0415

    if not run.exists():
        raise InputError(
            f"{run}: there is nothing; give the checkpoint of a run, or the log that "
            "`shedlight run` wrote"
        )
    log = find_log(run)
    served = served_at(log, run_paths(log).checkpoint, host, port, token)
    with closing(served):
        served.check()
        announce(served, was_given=token is not None)
        try:
            served.run()
        except KeyboardInterrupt:
            print("closed", file=sys.stderr)


def served_at(
    log: Path, checkpoint: Path | None, host: str | None, port: int | None, token: str | None
) -> "PageServer":
    """Take a port for the page of a run.

    Raises:
        InputError: It is taken, or the token is none.
    """
    from shedlight.page.run_view import RunPaths  # noqa: PLC0415
    from shedlight.page.server import Address, PageServer  # noqa: PLC0415

    address = Address(host or HOST, PORT if port is None else port, token or "")
    return PageServer(RunPaths(log, checkpoint), address)


def announce(served: "PageServer", *, was_given: bool) -> None:
    """Say where the page is, and with which token it can change the run."""
    print(f"page: {served.link}", file=sys.stderr)
    if not was_given:
        print(f"token for changes: {served.access.token}", file=sys.stderr)
