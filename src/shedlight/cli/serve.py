"""`shedlight serve`: the web UI of a run, from its log; `run --page` serves it live."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shedlight.cli.console import say
from shedlight.engines.spark.support.storage import StoredPath
from shedlight.errors import InputError
from shedlight.graph import load_application
from shedlight.runlog.follow import find_log

if TYPE_CHECKING:  # a web server takes half a second to import
    from shedlight.page.server import Address, PageServer

HOST, PORT = "127.0.0.1", 8321

Host = Annotated[
    str | None,
    typer.Option(
        help="The address of the web UI. At another than the default, other computers "
        f"reach it, and every request needs the token.  [default: {HOST}]"
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help=f"The port of the web UI; 0: any that is free.  [default: {PORT}]",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="SHEDLIGHT_TOKEN",
        show_envvar=False,
        help="The token for changes. Better in the environment, as SHEDLIGHT_TOKEN: others on "
        "this computer can read options.  [default: one is made and printed]",
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(help="A certificate in PEM: the web UI is served by TLS, as https."),
]
TlsKey = Annotated[Path | None, typer.Option(help="The key of --tls-cert, in PEM.")]


def serve(  # noqa: PLR0913  # one argument per option
    run: Annotated[Path, typer.Argument(help="The checkpoint of a run, or its log.")],
    *,
    host: Host = None,
    port: Port = None,
    token: Token = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    application: Annotated[
        Path | None,
        typer.Option(help="The application file of the run: the web UI can then be asked why."),
    ] = None,
) -> None:
    """Serve the web UI of a run, live or over: nodes, flows, latency, decisions, what-if."""
    from shedlight.page.run_view import run_paths  # noqa: PLC0415

    if not run.exists():
        raise InputError(
            f"{run}: there is nothing; give the checkpoint of a run, or the log that "
            "`shedlight run` wrote"
        )
    log = find_log(run)
    address = page_address(host, port, token, tls_cert, tls_key)
    if application is not None:
        load_application(application)  # what is wrong with it is said now
    server = open_server(log, run_paths(log).checkpoint, address, application)
    with closing(server):
        server.check()
        announce(server, was_given=token is not None)
        try:
            server.run()
        except KeyboardInterrupt:
            say("closed")


def page_address(
    host: str | None = None,
    port: int | None = None,
    token: str | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
) -> "Address":
    """Make the address of the web UI from the options of the command line."""
    from shedlight.page.server import Address  # noqa: PLC0415

    wanted = PORT if port is None else port
    return Address(host or HOST, wanted, token or "", tls_cert, tls_key)


def open_server(
    log: Path,
    checkpoint: StoredPath | None,
    address: "Address",
    application: Path | None = None,
) -> "PageServer":
    """Open the server of the web UI of a run, which takes its port."""
    from shedlight.page.run_view import RunPaths  # noqa: PLC0415
    from shedlight.page.server import PageServer  # noqa: PLC0415

    file = None if application is None else application.absolute()
    return PageServer(RunPaths(log, checkpoint, file), address)


def announce(server: "PageServer", *, was_given: bool) -> None:
    """Print the address of the web UI, and the token that lets it change the run."""
    say(f"web UI: {server.link}")
    if not was_given:
        say(f"token for changes: {server.access.token}")
