"""`shedlight run`: an application on Spark, until it is stopped."""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shedlight.cli import run_options as ro
from shedlight.cli.console import announce_compiling, load_with_warnings, patterns_of, say
from shedlight.cli.options import ApplicationFile, Conf, seconds_of
from shedlight.cli.restarts import run_with_restarts
from shedlight.cli.serve import (
    Host,
    Port,
    TlsCert,
    TlsKey,
    Token,
    announce,
    open_server,
    page_address,
)
from shedlight.cli.simulate import simulate
from shedlight.cli.source_files import with_absolute_paths
from shedlight.cli.watch import FileWatch
from shedlight.engines.spark.session.brokers import check_brokers
from shedlight.engines.spark.session.paths import check_paths, is_local, local_folder
from shedlight.engines.spark.session.preflight import check_java
from shedlight.engines.spark.support.checkpoint import lock_checkpoint
from shedlight.engines.spark.support.storage import StoredPath, stored_path
from shedlight.graph import Application
from shedlight.graph.part import alone, part_of
from shedlight.report.summary import summary_json, summary_text
from shedlight.runlog.aggregate import RunTotals

if TYPE_CHECKING:  # Spark takes a second to import
    from shedlight.cli.run_view import LiveView
    from shedlight.engines.spark.run.streaming import Options
    from shedlight.page.server import Address


RunShedder = Literal["global", "local", "none"]

_RESTARTS = 5  # how often in a row Spark is started again


def run(  # noqa: PLR0913  # one argument per option
    application: ApplicationFile,
    *,
    master: Annotated[
        str, typer.Option(help="Where Spark runs, e.g. spark://host:7077.")
    ] = "local[*,4]",
    engine: Annotated[
        Literal["spark", "simulator"],
        typer.Option(help="What it runs on; the simulator takes the files of the sources."),
    ] = "spark",
    duration: Annotated[
        str | None, typer.Option(help="Stop after this time, e.g. '10 min'.")
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            help="Run this node alone; the others and `shedlight control` run elsewhere."
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option("--once", help="Process what the sources have, to its end, and stop."),
    ] = False,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="The folder of this run's state, or its address, e.g. hdfs://host:8020/state; "
            "it goes on from there.  "
            "[default: state/NAME where the application file is, with --once state/NAME-once]"
        ),
    ] = None,
    shedder: Annotated[RunShedder, typer.Option(help="Which shedder.")] = "global",
    log: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the log of the run.  [default: in the checkpoint, or where "
            "it would be if that is an address]"
        ),
    ] = None,
    conf: Conf = None,
    trigger: ro.Trigger = None,
    shards: ro.Shards = None,
    delivery_interval: ro.DeliveryInterval = None,
    watermark_interval: ro.WatermarkInterval = None,
    idle_timeout: ro.IdleTimeout = None,
    restarts: ro.Restarts = None,
    retention: ro.Retention = None,
    record_retention: ro.RecordRetention = None,
    on_start: ro.OnStartOption = None,
    strata: ro.Strata = False,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="When the application file changes, go on with what is unchanged in it.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    page: Annotated[bool, typer.Option("--page", help="Serve the web UI of the run.")] = False,
    host: Host = None,
    port: Port = None,
    token: Token = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> None:
    """Run an application on Spark; it sheds what its nodes cannot match within their bounds."""
    seconds = None if duration is None else seconds_of("--duration", duration)
    ro.check_end(once=once, duration=duration, watch=watch)
    if node is not None and (once or page or engine == "simulator"):
        raise typer.BadParameter(
            "--node is for a run that goes on, on Spark, and its web UI is that of `shedlight "
            "control`; leave out --once, --page and --engine"
        )
    if not page and (host, port, tls_cert, tls_key) != (None,) * 4:
        raise typer.BadParameter(
            "--host, --port, --tls-cert and --tls-key are for the web UI; add --page"
        )
    if engine == "simulator":
        if page:
            raise typer.BadParameter("the simulator has no web UI; leave out --page")
        simulate(application, duration=duration, as_json_=as_json, strata=strata)
        return
    times = {
        "trigger": trigger,
        "delivery_interval": delivery_interval,
        "watermark_interval": watermark_interval,
        "idle_timeout": idle_timeout,
        "retention": retention,
        "record_retention": record_retention,
    }
    if once:
        ro.check_once(**times, on_start=on_start)
    read = partial(
        _read_file,
        application,
        lambda loaded: ro.with_strata(
            ro.with_on_start(ro.with_run_options(loaded, shards, restarts, **times), on_start),
            strata=strata,
            plans=not once and node is None and shedder != "none",
        ),
    )
    if watch:
        ro.check_watch(checkpoint)
    watched = FileWatch(application, read) if watch else None
    loaded = read()
    # a run that sheds cannot go on from the state of one that does not
    name = loaded.name + ("-once" if once else f"-{node}" if node else "")
    state, here = _find_state(application, checkpoint, name)
    settings = dict(map(read_setting, conf or ()))
    job = _Job(loaded, state, shedder, seconds, log or here / "log.jsonl", node, watched)
    own = part_of(alone(loaded, node), node)
    check_paths(own, state, job.log)
    check_brokers(own)
    address = page_address(host, port, token, tls_cert, tls_key) if page else None
    with (
        nullcontext()
        if address is None
        else serving(job.log, stored_path(job.checkpoint), address, application)
    ):
        totals = _run_locked(job, master, settings, once=once)
    print(json.dumps(summary_json(totals), indent=2) if as_json else summary_text(totals))


def _read_file(file: Path, with_options: Callable[[Application], Application]) -> Application:
    """Read an application file to run it; paths in it are from where it is."""
    loaded = with_absolute_paths(with_options(load_with_warnings(file)), file)
    announce_compiling(patterns_of(loaded))
    return loaded


def read_setting(text: str) -> tuple[str, str]:
    """Read a setting of Spark."""
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--conf takes NAME=VALUE, got {text!r}")
    return name.strip(), value.strip()


def _find_state(application: Path, given: str | None, name: str) -> tuple[str, Path]:
    """Find the checkpoint of a run, and the local folder of its log."""
    own = application.parent / "state" / name
    state = str(own) if given is None else given
    return state, local_folder(state) if is_local(state) else own


@dataclass(frozen=True, slots=True)
class _Job:
    """What to run, with which shedder, how long, and where its state and log are."""

    application: Application
    checkpoint: str
    shedder: RunShedder
    seconds: float | None
    log: Path
    node: str | None = None  # the only one to run; None: all
    watch: FileWatch | None = None  # of the application file, if it is watched


def _run_locked(job: _Job, master: str, settings: dict[str, str], *, once: bool) -> RunTotals:
    """Run with the lock of the checkpoint, which the JVM has too, as often as it takes."""
    from shedlight.cli.run_view import LiveView  # noqa: PLC0415

    check_java(os.environ)  # before there is a checkpoint
    if once:  # all of its micro-batches are looked at when it is over
        settings = {"spark.sql.streaming.numRecentProgressUpdates": "100000"} | settings
    silence_foreign_logs()
    view = LiveView(job.application, job.log, timed=not once)
    restarts = job.application.run.restarts
    with _lock(job.checkpoint) as locks:
        attempt = partial(_run_on_spark, job, _Start(master, settings, locks), view, once=once)
        run_with_restarts(attempt, _RESTARTS if restarts is None else restarts)
    return view.totals


@contextmanager
def _lock(checkpoint: str) -> Iterator[tuple[int, ...]]:
    """Take the lock of a checkpoint, if it is local: elsewhere the run does, by its session."""
    if not is_local(checkpoint):
        yield ()
        return
    with lock_checkpoint(local_folder(checkpoint)) as lock:
        yield (lock,)


@dataclass(frozen=True, slots=True)
class _Start:
    """How to start Spark: where, with which settings, and the locks that the JVM inherits."""

    master: str
    settings: dict[str, str]
    locks: tuple[int, ...]


def _run_on_spark(job: _Job, start: _Start, view: "LiveView", *, once: bool) -> None:
    from shedlight.engines.spark.session.session import (  # noqa: PLC0415
        close_session,
        detecting_lost_session,
        open_session,
    )

    changed = None if job.watch is None else job.watch.application
    application, checkpoint = changed or job.application, job.checkpoint
    locked = bool(start.locks)
    if sys.stderr.isatty():
        say("starting Spark ...")
    session = open_session(
        f"shedlight {application.name}",
        master=start.master,
        settings=start.settings,
        inherited=start.locks,
    )
    try:
        from shedlight.cli.run_loop import run_until_over  # noqa: PLC0415
        from shedlight.engines.spark.run.finite import run_on_spark  # noqa: PLC0415
        from shedlight.engines.spark.run.streaming import Live, RunListener  # noqa: PLC0415
        from shedlight.engines.spark.support.spark_errors import translating_spark_errors  # noqa: PLC0415

        with _interruptible(), detecting_lost_session(), translating_spark_errors():
            if once:
                run_on_spark(
                    application,
                    session,
                    checkpoint=checkpoint,
                    deliver=True,
                    on_micro_batch=view.batch,
                    locked=locked,
                )
                return
            listener = RunListener(view.batch, view.decision, view.override)

            def begin(application: Application) -> Live:
                view.running = Live(
                    application,
                    session,
                    checkpoint=checkpoint,
                    options=_options(job, application),
                    listener=listener,
                    locked=locked,
                    node=job.node,
                )
                view.controller = view.running.loop
                return view.running

            run_until_over(application, begin, view, job.seconds, job.watch)
    finally:
        close_session(session)


def silence_foreign_logs() -> None:
    """Log only our own warnings: py4j logs stacks of exceptions that are raised anyway."""
    ours = logging.getLogger("shedlight")
    ours.addHandler(logging.StreamHandler())
    ours.propagate = False
    ours.setLevel(logging.WARNING)  # else that of the root
    logging.getLogger().setLevel(logging.CRITICAL + 1)
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)


def _options(job: _Job, application: Application) -> "Options":
    from shedlight.engines.spark.control.loop import micro_batch_settings  # noqa: PLC0415
    from shedlight.engines.spark.run.streaming import Options  # noqa: PLC0415

    options = Options(**application.run.given)
    if job.shedder == "none":
        return replace(options, shares={})
    settings = micro_batch_settings()
    plan_settings = replace(settings.plan_settings, local=job.shedder == "local")
    return replace(options, settings=replace(settings, plan_settings=plan_settings))


@contextmanager
def serving(
    log: Path, checkpoint: StoredPath, address: "Address", application: Path | None = None
) -> Iterator[None]:
    """Serve the web UI during the run; a port that is taken is an error before Spark starts."""
    server = open_server(log, checkpoint, address, application)
    with server.in_background():
        announce(server, was_given=bool(address.token))
        yield


@contextmanager
def _interruptible() -> Iterator[None]:
    """Be interrupted by Ctrl-C: what fails after it, failed because of it."""
    interrupts: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)  # Spark's own handler fails within a call of Spark
    try:
        yield
    except Exception:
        if interrupts:
            raise KeyboardInterrupt from None
        raise
