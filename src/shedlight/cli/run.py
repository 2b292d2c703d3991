"""`shedlight run`: an application on Spark, until it is stopped."""

import json
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from shedlight.cli.console import announce_compiling, load_with_warnings, patterns_of, say
from shedlight.cli.options import ApplicationFile, seconds_of
from shedlight.cli.serve import Host, Port, Token, announce, open_server
from shedlight.cli.simulate import simulate
from shedlight.engines.spark.session.brokers import check_brokers
from shedlight.engines.spark.session.paths import check_paths
from shedlight.graph import Application, SideOutput, Sink, Source
from shedlight.report.summary import summary_json, summary_text
from shedlight.runlog.aggregate import RunTotals

if TYPE_CHECKING:  # Spark takes a second to import
    from shedlight.engines.spark.run.streaming import Live, Options


RunShedder = Literal["global", "local", "none"]

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
    once: Annotated[
        bool,
        typer.Option("--once", help="Process what the sources have, to its end, and stop."),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="The folder of this run's state; it goes on from there.  "
            "[default: state/NAME where the application file is, with --once state/NAME-once]"
        ),
    ] = None,
    shedder: Annotated[RunShedder, typer.Option(help="Which shedder.")] = "global",
    log: Annotated[
        Path | None,
        typer.Option(help="Where to write the log of the run.  [default: in the checkpoint]"),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A setting of Spark: NAME=VALUE; may be repeated.")
    ] = None,
    record_retention: Annotated[
        str, typer.Option(help="How long to keep on record what was shed, e.g. '30 days'.")
    ] = "7 days",
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    page: Annotated[bool, typer.Option("--page", help="Serve the web UI of the run.")] = False,
    host: Host = None,
    port: Port = None,
    token: Token = None,
) -> None:
    """Run an application on Spark; it sheds what its nodes cannot match within their bounds."""
    seconds = None if duration is None else seconds_of("--duration", duration)
    if once and duration is not None:
        raise typer.BadParameter("--once ends by itself; leave out --duration")
    if not page and (host is not None or port is not None):
        raise typer.BadParameter("--host and --port are for the web UI; add --page")
    if engine == "simulator":
        if page:
            raise typer.BadParameter("the simulator has no web UI; leave out --page")
        simulate(application, duration=duration, as_json_=as_json)
        return
    loaded = load_with_warnings(application)
    announce_compiling(patterns_of(loaded))
    # a run that sheds cannot go on from the state of one that does not
    name = loaded.name + ("-once" if once else "")
    state = checkpoint or application.parent / "state" / name
    settings = dict(map(_setting, conf or ()))
    absolute = _with_absolute_paths(loaded, application)
    retention = seconds_of("--record-retention", record_retention)
    job = _Job(absolute, state, shedder, seconds, log or state / "log.jsonl", retention)
    check_paths(absolute, str(state), job.log)
    check_brokers(absolute)
    with _serving(job, host, port, token) if page else nullcontext():
        totals = _run_on_spark(job, master, settings, once=once)
    print(json.dumps(summary_json(totals), indent=2) if as_json else summary_text(totals))


_Location = TypeVar("_Location", Source, Sink, SideOutput)


def _with_absolute_paths(application: Application, file: Path) -> Application:
    """Make paths absolute; they are relative to the application file."""
    folder = file.absolute().parent

    def absolute(location: _Location) -> _Location:
        path = location.path
        if path is None or "://" in path or path.startswith("file:"):
            return location
        return replace(location, path=str(folder / path))

    sources = {
        name: replace(
            absolute(source),
            late=source.late and absolute(source.late),
            malformed=source.malformed and absolute(source.malformed),
        )
        for name, source in application.sources.items()
    }
    sinks = {name: absolute(sink) for name, sink in application.sinks.items()}
    return replace(application, sources=sources, sinks=sinks)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--conf takes NAME=VALUE, got {text!r}")
    return name.strip(), value.strip()


@dataclass(frozen=True, slots=True)
class _Job:
    """What to run, with which shedder, how long, and where its state and log are."""

    application: Application
    checkpoint: Path
    shedder: RunShedder
    seconds: float | None
    log: Path
    record_retention: float


def _run_on_spark(job: _Job, master: str, settings: dict[str, str], *, once: bool) -> RunTotals:
    from shedlight.engines.spark.session.session import close_session, open_session  # noqa: PLC0415

    application, checkpoint = job.application, str(job.checkpoint)
    if once:  # all of its micro-batches are looked at when it is over
        settings = {"spark.sql.streaming.numRecentProgressUpdates": "100000"} | settings
    if sys.stderr.isatty():
        say("starting Spark ...")
    _silence_foreign_logs()
    session = open_session(f"shedlight {application.name}", master=master, settings=settings)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark's own fails in a call
    try:
        from shedlight.cli.run_view import LiveView, shown  # noqa: PLC0415
        from shedlight.engines.spark.run.finite import run_on_spark  # noqa: PLC0415
        from shedlight.engines.spark.run.streaming import Live, RunListener  # noqa: PLC0415
        from shedlight.engines.spark.support.spark_errors import translating_spark_errors  # noqa: PLC0415

        view = LiveView(application, job.log, timed=not once)
        with translating_spark_errors():
            if once:
                run_on_spark(
                    application,
                    session,
                    checkpoint=checkpoint,
                    deliver=True,
                    on_micro_batch=view.batch,
                )
                return view.totals
            view.running = running = Live(
                application,
                session,
                checkpoint=checkpoint,
                options=_options(job),
                listener=RunListener(view.batch, view.decision, view.override),
            )
            view.begin()
            with _stopping_on_signals(running), running, shown(view):
                running.wait(job.seconds)
            return view.totals
    finally:
        close_session(session)


def _silence_foreign_logs() -> None:
    """Log only our own warnings: py4j logs stacks of exceptions that are raised anyway."""
    ours = logging.getLogger("shedlight")
    ours.addHandler(logging.StreamHandler())
    ours.propagate = False
    logging.getLogger().setLevel(logging.CRITICAL + 1)
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)


def _options(job: _Job) -> "Options":
    from shedlight.engines.spark.control.loop import micro_batch_settings  # noqa: PLC0415
    from shedlight.engines.spark.run.streaming import Options  # noqa: PLC0415

    if job.shedder == "none":
        return Options(shares={})
    settings = micro_batch_settings()
    plan_settings = replace(settings.plan_settings, local=job.shedder == "local")
    return Options(
        settings=replace(settings, plan_settings=plan_settings),
        record_retention=job.record_retention,
    )


@contextmanager
def _serving(
    job: _Job, host: str | None, port: int | None, token: str | None
) -> Iterator[None]:
    """Serve the web UI during the run; a port that is taken is an error before Spark starts."""
    server = open_server(job.log, job.checkpoint, host, port, token)
    with server.in_background():
        announce(server, was_given=token is not None)
        yield


@contextmanager
def _stopping_on_signals(running: "Live") -> Iterator[None]:
    """Stop after the micro-batch at Ctrl-C or SIGTERM; at the second one at once."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        for received in _STOP_SIGNALS:
            signal.signal(received, signal.default_int_handler)
        say("stopping after this micro-batch ...")
        running.ask_to_stop()

    before = {number: signal.signal(number, stop) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
