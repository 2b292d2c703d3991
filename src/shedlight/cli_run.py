"""`shedlight run`: an application on Spark, until it is told to stop."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console
from rich.live import Live as Shown
from rich.table import Table

from shedlight.automaton.compiled import is_first_run
from shedlight.cli_scenario import seconds_of
from shedlight.graph import Application, Sink, Source, load_application

if TYPE_CHECKING:  # Spark takes a second to import
    from shedlight.control.controller import Decision
    from shedlight.engines.spark.live import Live, Options
    from shedlight.engines.spark.progress import NodeBatch


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
            "[default: state/NAME beside the application file]"
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
) -> None:
    """Run an application on Spark; it sheds what its nodes cannot match within their bounds."""
    seconds = None if duration is None else seconds_of("--duration", duration)
    if once and duration is not None:
        raise typer.BadParameter("--once ends by itself; leave out --duration")
    if engine is Engine.SIMULATOR:
        _simulated(application, duration, as_json=as_json)
        return
    loaded = load_application(application)
    for warning in loaded.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if is_first_run():
        print(
            "compiling the matcher, once on this machine (about half a minute) ...",
            file=sys.stderr,
        )
    state = checkpoint or application.parent / "state" / loaded.application.name
    settings = dict(map(_setting, conf or ()))
    asked = _Asked(_placed(loaded.application, application), state, shedder, seconds, log)
    summary = _on_spark(asked, master, settings, once=once)
    print(json.dumps(summary.as_json(), indent=2) if as_json else summary.as_text())


def _placed(application: Application, file: Path) -> Application:
    """Take paths to be relative to the application file."""
    folder = file.absolute().parent
    sources = {n: _at(folder, one) for n, one in application.sources.items()}
    sinks = {n: _at(folder, one) for n, one in application.sinks.items()}
    return replace(application, sources=sources, sinks=sinks)


_Place = TypeVar("_Place", Source, Sink)


def _at(folder: Path, one: _Place) -> _Place:
    if one.path is None or "://" in one.path:
        return one
    return replace(one, path=str(folder / one.path))


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--conf takes NAME=VALUE, got {text!r}")
    return name.strip(), value.strip()


def _simulated(application: Path, duration: str | None, *, as_json: bool) -> None:
    from shedlight.cli_simulate import simulate  # noqa: PLC0415

    simulate(application, duration=duration, as_json_=as_json)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be run."""

    application: Application
    checkpoint: Path
    shedder: RunShedder
    seconds: float | None
    log: Path | None


@dataclass(slots=True)
class _NodeRow:
    """What is shown of a node."""

    bound: float | None
    batches: int = 0
    events: int = 0
    kept: int = 0
    rate: float = 0.0
    share: float = 1.0
    seconds: float = 0.0
    latency: float | None = None
    total: float = 0.0
    number: int = 0
    state: str = "OK"

    @property
    def mean(self) -> float | None:
        """The mean latency of all that was kept."""
        return self.total / self.number if self.number else None


@dataclass(slots=True)
class _Summary:
    """What is known of a run so far."""

    nodes: dict[str, _NodeRow]
    sinks: dict[str, int] = field(default_factory=dict)
    plans: int = 0
    reason: str = ""
    found: dict[str, int] = field(default_factory=dict)

    def batch(self, batch: "NodeBatch") -> None:
        """Take in a micro-batch."""
        row = self.nodes[batch.node]
        row.batches += 1
        row.events += batch.events
        row.kept += batch.kept
        row.seconds = batch.seconds
        row.rate = batch.events / batch.seconds if batch.seconds else 0.0
        row.share = batch.kept / batch.events if batch.events else 1.0
        if batch.kept:
            passed = batch.passed.values()
            total = sum(one.number * (batch.end - one.mean / 1e6) for one in passed)
            row.latency = total / batch.kept
            row.total += total
            row.number += batch.kept
        for group in batch.groups:
            for operator, tally in group.operators.items():
                for name, one in tally.patterns.items():
                    stream = f"{operator}.{name}"
                    self.found[stream] = self.found.get(stream, 0) + one.found

    def decision(self, decision: "Decision") -> None:
        """Take in a decision."""
        self.plans += decision.plan is not None
        self.reason = decision.reason
        for name, one in decision.states.items():
            if name in self.nodes:
                self.nodes[name].state = str(one.state)

    def as_json(self) -> dict[str, object]:
        """Write it for machines."""
        nodes = {
            name: {
                "batches": row.batches,
                "events": row.events,
                "kept": row.kept,
                "mean_latency": row.mean,
                "bound": row.bound,
                "state": row.state,
            }
            for name, row in self.nodes.items()
        }
        return {"nodes": nodes, "found": self.found, "plans": self.plans}

    def as_text(self) -> str:
        """Write it for people."""
        lines = []
        for name, row in self.nodes.items():
            mean = "" if row.mean is None else f", mean latency {row.mean:.2f} s"
            bound = "" if row.bound is None else f" of {row.bound:g} s"
            share = f"{row.kept / row.events:.0%} kept" if row.events else "none"
            lines.append(
                f"node {name}: {row.events:,} events in {row.batches:,} micro-batches, "
                f"{share}{mean}{bound if mean else ''}; {row.state}"
            )
        lines += [f"found {number:,} of {stream}" for stream, number in self.found.items()]
        if self.plans:
            lines.append(f"{self.plans} plans; last: {self.reason}")
        return "\n".join(lines)

    def as_table(self) -> Table:
        """Draw it for a terminal."""
        table = Table(box=None, pad_edge=False)
        for name in ("node", "events/s", "kept", "batch", "latency", "bound", "state"):
            table.add_column(name, justify="left" if name in {"node", "state"} else "right")
        for name, row in self.nodes.items():
            table.add_row(
                name,
                f"{row.rate:,.0f}",
                f"{row.share:.0%}",
                f"{row.seconds:.1f} s",
                "" if row.latency is None else f"{row.latency:.1f} s",
                "" if row.bound is None else f"{row.bound:g} s",
                row.state,
            )
        table.caption = self.reason
        return table


def _on_spark(asked: _Asked, master: str, settings: dict[str, str], *, once: bool) -> _Summary:
    from shedlight.engines.spark.session import close_session, open_session  # noqa: PLC0415

    application = asked.application
    rows = {
        name: _NodeRow(application.nodes[name].bound)
        for name in dict.fromkeys(spec.node for spec in application.operators.values())
    }
    summary = _Summary(rows)
    if once:  # all of its micro-batches are looked at when it is over
        settings = {"spark.sql.streaming.numRecentProgressUpdates": "100000"} | settings
    session = open_session(f"shedlight {application.name}", master=master, settings=settings)
    try:
        from shedlight.engines.spark.live import Live, Watcher  # noqa: PLC0415
        from shedlight.engines.spark.run import run_on_spark  # noqa: PLC0415
        from shedlight.engines.spark.run_log import RunLog  # noqa: PLC0415

        asked.checkpoint.mkdir(parents=True, exist_ok=True)
        log = RunLog(asked.log or asked.checkpoint.with_suffix(".log.jsonl"))

        def batch(one: "NodeBatch") -> None:
            summary.batch(one)
            log.batch(one, {})

        def decision(one: "Decision") -> None:
            summary.decision(one)
            log.decision(one)

        if once:
            run_on_spark(
                application,
                session,
                checkpoint=str(asked.checkpoint),
                deliver=True,
                told=batch,
            )
            return summary
        running = Live(
            application,
            session,
            checkpoint=str(asked.checkpoint),
            options=_options(asked.shedder),
            watcher=Watcher(batch, decision),
        )
        with _until_told(running), running, _shown(summary):
            running.wait(asked.seconds)
    finally:
        close_session(session)
    return summary


def _options(shedder: RunShedder) -> "Options":
    from shedlight.engines.spark.control import micro_batch_settings  # noqa: PLC0415
    from shedlight.engines.spark.live import Options  # noqa: PLC0415

    if shedder is RunShedder.NONE:
        return Options(shares={})
    settings = micro_batch_settings()
    if shedder is RunShedder.LOCAL:
        settings = replace(settings, wanted=replace(settings.wanted, local=True))
    return Options(settings=settings)


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


@contextmanager
def _shown(summary: _Summary) -> Iterator[None]:
    """Show how it goes, in a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with Shown(
        console=console,
        get_renderable=summary.as_table,
        refresh_per_second=2,
        transient=True,
    ):
        yield
