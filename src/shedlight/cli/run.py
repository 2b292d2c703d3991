"""`shedlight run`: an application on Spark, until it is told to stop."""

import json
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from shedlight.cli.console import announce_compiling
from shedlight.cli.run_view import LiveView, shown
from shedlight.cli.serve import Host, Port, Token, announce, served_at
from shedlight.cli.simulate_options import seconds_of
from shedlight.graph import Application, SideOutput, Sink, Source, load_application
from shedlight.runlog import RunTotals
from shedlight.runlog.summary import summary_json, summary_text

if TYPE_CHECKING:  # Spark takes a second to import
    from shedlight.engines.spark.run.streaming import Live, Options


class Engine(Enum):
    """What an application runs on."""

    SPARK = "spark"
    SIMULATOR = "simulator"


class RunShedder(Enum):
    """Who decides what is shed."""

    GLOBAL = "global"
    LOCAL = "local"
    NONE = "none"


def run(  # noqa: PLR0913  # one argument per option
    application: Annotated[Path, typer.Argument(help="An application file (YAML).")],
    *,
    master: Annotated[
        str, typer.Option(help="Where Spark runs, e.g. spark://host:7077.")
    ] = "local[*,4]",
    engine: Annotated[
        Engine,
        typer.Option(help="What it runs on; the simulator takes the files of the sources."),
    ] = Engine.SPARK,
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
            "[default: state/NAME beside the application file, with --once state/NAME-once]"
        ),
    ] = None,
    shedder: Annotated[
        RunShedder, typer.Option(help="Who decides what is shed.")
    ] = RunShedder.GLOBAL,
    log: Annotated[
        Path | None,
        typer.Option(help="Where to write the log of the run.  [default: in the checkpoint]"),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A setting of Spark: NAME=VALUE; may be repeated.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a summary for machines to read.")
    ] = False,
    page: Annotated[
        bool, typer.Option("--page", help="Serve a page that shows how it goes.")
    ] = False,
    host: Host = None,
    port: Port = None,
    token: Token = None,
) -> None:
    """Run an application on Spark; it sheds what its nodes cannot match within their bounds."""
    from shedlight.engines.spark.session.paths import check_places  # noqa: PLC0415

    seconds = None if duration is None else seconds_of("--duration", duration)
    if once and duration is not None:
        raise typer.BadParameter("--once ends by itself; leave out --duration")
    if not page and (host is not None or port is not None):
        raise typer.BadParameter("--host and --port are for the page; add --page")
    if page and engine is Engine.SIMULATOR:
        raise typer.BadParameter("the simulator has no page; leave out --page")
    if engine is Engine.SIMULATOR:
        _simulated(application, duration, as_json=as_json)
        return
    loaded = load_application(application)
    for warning in loaded.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    announce_compiling()
    own = loaded.application.name + ("-once" if once else "")  # what may shed is another thing
    state = checkpoint or application.parent / "state" / own
    settings = dict(map(_setting, conf or ()))
    placed = _placed(loaded.application, application)
    asked = _Asked(placed, state, shedder, seconds, log or state / "log.jsonl")
    check_places(placed, str(state), asked.log)
    with _paged(asked, host, port, token) if page else nullcontext():
        totals = _on_spark(asked, master, settings, once=once)
    print(json.dumps(summary_json(totals), indent=2) if as_json else summary_text(totals))


def _placed(application: Application, file: Path) -> Application:
    """Take paths to be relative to the application file."""
    folder = file.absolute().parent
    sources = {n: _with_sides(folder, one) for n, one in application.sources.items()}
    sinks = {n: _at(folder, one) for n, one in application.sinks.items()}
    return replace(application, sources=sources, sinks=sinks)


def _with_sides(folder: Path, source: Source) -> Source:
    late, malformed = source.late, source.malformed
    return replace(
        _at(folder, source),
        late=None if late is None else _at(folder, late),
        malformed=None if malformed is None else _at(folder, malformed),
    )


_Place = TypeVar("_Place", Source, Sink, SideOutput)


def _at(folder: Path, one: _Place) -> _Place:
    if one.path is None or "://" in one.path or one.path.startswith("file:"):
        return one
    return replace(one, path=str(folder / one.path))


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--conf takes NAME=VALUE, got {text!r}")
    return name.strip(), value.strip()


def _simulated(application: Path, duration: str | None, *, as_json: bool) -> None:
    from shedlight.cli.simulate import simulate  # noqa: PLC0415

    simulate(application, duration=duration, as_json_=as_json)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be run."""

    application: Application
    checkpoint: Path
    shedder: RunShedder
    seconds: float | None
    log: Path


def _on_spark(asked: _Asked, master: str, settings: dict[str, str], *, once: bool) -> RunTotals:
    from shedlight.engines.spark.session.session import close_session, open_session  # noqa: PLC0415

    application, checkpoint = asked.application, str(asked.checkpoint)
    if once:  # all of its micro-batches are looked at when it is over
        settings = {"spark.sql.streaming.numRecentProgressUpdates": "100000"} | settings
    if sys.stderr.isatty():
        print("starting Spark ...", file=sys.stderr)
    _keep_quiet()
    session = open_session(f"shedlight {application.name}", master=master, settings=settings)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark's own fails in a call
    try:
        from shedlight.engines.spark.run.finite import run_on_spark  # noqa: PLC0415
        from shedlight.engines.spark.run.streaming import Live, RunListener  # noqa: PLC0415
        from shedlight.engines.spark.support.spark_errors import translating_spark_errors  # noqa: PLC0415

        watch = LiveView(application, asked.log, timed=not once)
        with translating_spark_errors():
            if once:
                run_on_spark(
                    application,
                    session,
                    checkpoint=checkpoint,
                    deliver=True,
                    on_micro_batch=watch.batch,
                )
                return watch.totals
            watch.running = running = Live(
                application,
                session,
                checkpoint=checkpoint,
                options=_options(asked.shedder),
                listener=RunListener(watch.batch, watch.decision, watch.override),
            )
            watch.begin()
            with _until_told(running), running, shown(watch):
                running.wait(asked.seconds)
            return watch.totals
    finally:
        close_session(session)


def _keep_quiet() -> None:
    """Let only our own warnings through: py4j logs stacks of calls that are raised anyway."""
    ours = logging.getLogger("shedlight")
    ours.addHandler(logging.StreamHandler())
    ours.propagate = False
    logging.getLogger().setLevel(logging.CRITICAL + 1)
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)


def _options(shedder: RunShedder) -> "Options":
    from shedlight.engines.spark.control.loop import micro_batch_settings  # noqa: PLC0415
    from shedlight.engines.spark.run.streaming import Options  # noqa: PLC0415

    if shedder is RunShedder.NONE:
        return Options(shares={})
    settings = micro_batch_settings()
    if shedder is RunShedder.LOCAL:
        settings = replace(settings, plan_settings=replace(settings.plan_settings, local=True))
    return Options(settings=settings)


@contextmanager
def _paged(
    asked: _Asked, host: str | None, port: int | None, token: str | None
) -> Iterator[None]:
    """Serve the page while it runs; if the port is taken, that is said before Spark starts."""
    served = served_at(asked.log, asked.checkpoint, host, port, token)
    with served.in_background():
        announce(served, was_given=token is not None)
        yield


@contextmanager
def _until_told(running: "Live") -> Iterator[None]:
    """Stop in order at Ctrl-C or a polite kill; at the second one at once."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, signal.default_int_handler)
        print("stopping after this micro-batch ...", file=sys.stderr)
        running.ask_to_stop()

    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
