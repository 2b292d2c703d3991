"""`shedlight control`: the controller of nodes that run by themselves, until it is stopped."""

import os
import signal
import threading
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shedlight.cli.console import load_with_warnings, say
from shedlight.cli.options import ApplicationFile, Conf, seconds_of
from shedlight.cli.run import read_setting, serving, silence_foreign_logs
from shedlight.cli.serve import Host, Port, TlsCert, TlsKey, Token, page_address
from shedlight.engines.spark.session.brokers import check_brokers
from shedlight.engines.spark.session.paths import is_local, local_folder
from shedlight.engines.spark.session.preflight import check_java
from shedlight.engines.spark.support.checkpoint import lock_checkpoint
from shedlight.errors import InputError
from shedlight.graph.part import without_ends

if TYPE_CHECKING:  # Spark takes a second to import
    from shedlight.control.controller import ControlSettings
    from shedlight.engines.spark.control.central import CentralController
    from shedlight.engines.spark.run.control_run import ControlRun

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def control(  # noqa: PLR0913  # one argument per option
    application: ApplicationFile,
    *,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="The local folder of its log and of overrides.  "
            "[default: state/NAME-control where the application file is]"
        ),
    ] = None,
    shedder: Annotated[
        Literal["global", "local"], typer.Option(help="Which shedder.")
    ] = "global",
    duration: Annotated[
        str | None, typer.Option(help="Stop after this time, e.g. '10 min'.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Where to write the log.  [default: in the checkpoint]")
    ] = None,
    conf: Conf = None,
    page: Annotated[bool, typer.Option("--page", help="Serve the web UI.")] = False,
    host: Host = None,
    port: Port = None,
    token: Token = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Plan for the nodes of an application, each of which runs with `shedlight run --node`."""
    seconds = None if duration is None else seconds_of("--duration", duration)
    if not page and (host, port, tls_cert, tls_key) != (None,) * 4:
        raise typer.BadParameter(
            "--host, --port, --tls-cert and --tls-key are for the web UI; add --page"
        )
    loaded = load_with_warnings(application)
    state = _find_folder(checkpoint, application.parent / "state" / f"{loaded.name}-control")
    settings = dict(map(read_setting, conf or ()))
    log = log or state / "log.jsonl"
    address = page_address(host, port, token, tls_cert, tls_key) if page else None
    from shedlight.cli.run_view import LiveView  # noqa: PLC0415
    from shedlight.engines.spark.control.central import ControllerListener  # noqa: PLC0415
    from shedlight.engines.spark.run.control_run import ControlRun, check_apart  # noqa: PLC0415

    check_apart(loaded)
    check_brokers(without_ends(loaded))
    check_java(os.environ)
    silence_foreign_logs()
    view = LiveView(loaded, log, timed=True)

    def begin(controller: "CentralController") -> None:
        view.controller = controller
        view.begin()
        last = controller.last
        say(f"in control of {loaded.name}: epoch {last.epoch}, the last plan is {last.number}")

    listener = ControllerListener(view.decision, view.override, view.report)
    run = ControlRun(loaded, state, _settings(shedder), listener, begin)
    with (
        nullcontext() if address is None else serving(log, state, address),
        lock_checkpoint(run.checkpoint) as lock,
    ):
        _control(run, settings, lock, seconds)


def _find_folder(given: str | None, own: Path) -> Path:
    if given is None:
        return own.absolute()
    if not is_local(given):
        raise InputError(
            f"--checkpoint {given} is in no local folder, and the controller has its log and "
            "overrides in one; name a folder of the computer where it runs"
        )
    return local_folder(given)


def _settings(shedder: str) -> "ControlSettings":
    from shedlight.engines.spark.control.loop import micro_batch_settings  # noqa: PLC0415

    settings = micro_batch_settings()
    plan_settings = replace(settings.plan_settings, local=shedder == "local")
    return replace(settings, plan_settings=plan_settings)


def _control(
    run: "ControlRun", settings: dict[str, str], lock: int, seconds: float | None
) -> None:
    from shedlight.engines.spark.run import control_run  # noqa: PLC0415
    from shedlight.engines.spark.session.session import (  # noqa: PLC0415
        close_session,
        open_session,
    )

    session = open_session(
        f"shedlight control {run.application.name}",
        master="local[1]",
        settings=settings,
        inherited=(lock,),
    )
    stopping = threading.Event()
    for number in _STOP_SIGNALS:
        signal.signal(number, partial(_stop, stopping))
    if seconds is not None:
        timer = threading.Timer(seconds, stopping.set)
        timer.daemon = True
        timer.start()
    try:
        control_run.control(session, run, stopping)
    finally:
        close_session(session)


def _stop(stopping: threading.Event, number: int, frame: object) -> None:  # noqa: ARG001
    stopping.set()
