"""The listener of `shedlight run`: writes the log, adds up, shows a live table."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live as LiveDisplay
from rich.table import Table

from shedlight import __version__
from shedlight.control.controller import Decision
from shedlight.engines.spark.control import event_log
from shedlight.engines.spark.control.central import CentralController
from shedlight.engines.spark.control.loop import ControlLoop
from shedlight.engines.spark.control.messages import NodeReport
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.override_store import OverrideOutcome
from shedlight.engines.spark.run.streaming import Live
from shedlight.engines.spark.support.tolerance import UNREADABLE_PLAN, FailureLog
from shedlight.graph import Application
from shedlight.graph.application import bound_kind
from shedlight.runlog.aggregate import RunTotals
from shedlight.runlog.decisions import decision_record
from shedlight.runlog.records import Record, run_header

_NO_ACTION_NEEDED = frozenset({"OK", "SHEDDING"})
"""The statuses of a node in which an operator has nothing to do."""


class LiveView:
    """Logs and adds up what a run reports, and prints what a user should know.

    It is timed if events come while it runs.
    """

    def __init__(self, application: Application, log: Path, *, timed: bool) -> None:
        self.totals = RunTotals()
        self.console = Console(stderr=True)
        self.running: Live | None = None  # once it runs, and if it is not over at once
        # of the loop of the run, or of a controller apart from its nodes
        self.controller: ControlLoop | CentralController | None = None
        self._log, self._recorder = event_log.RunLog(log), event_log.BatchRecorder()
        self._header = run_header(application, time.time(), version=__version__, timed=timed)
        self.totals.add(self._header)
        self._failures = FailureLog()
        self._began: float | None = None  # when the run first began, by the monotonic clock

    @property
    def seconds(self) -> float:
        """For how long it has run, from its first start on."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def begin(self) -> None:
        """Log the start, once; till then the checkpoint is not ours to write to."""
        if self._began is None:
            self._began = time.monotonic()
            self._log.write(self._header)

    def begin_changed(self, application: Application) -> None:
        """Log that the run goes on with another application."""
        timed, now = self._header.timed, time.time()
        self._header = run_header(application, now, version=__version__, timed=timed)
        self._add(self._header)

    def batch(self, report: MicroBatchReport) -> None:
        """Take a micro-batch."""
        self.begin()
        deployment = self.running.deployment if self.running else None
        catalogs = deployment.nodes[report.node].catalogs if deployment else None
        self._add(self._recorder.record(report, catalogs, *self._active_plan(report)))

    def report(self, report: NodeReport) -> None:
        """Take the micro-batches of a node that runs elsewhere."""
        if report.batch is not None:
            self._add(report.batch)

    def _add(self, record: Record) -> None:
        self.totals.add(record)
        self._log.write(record)

    def _active_plan(self, report: MicroBatchReport) -> tuple[int | None, float | None]:
        """Find the plan and the pressure of a micro-batch, where there are any."""
        bound = self.totals.nodes[report.node].bound
        if self.running is None or self.running.loop is None or bound is None:
            return None, None
        plans = self.running.deployment.nodes[report.node].plans
        with self._failures.tolerate(*UNREADABLE_PLAN):  # where the checkpoint is elsewhere
            used = plans.plan_for_batch(report.number)
            return used.plan, used.pressure
        return None, None

    def decision(self, decision: Decision) -> None:
        """Take a decision; print the status of each node that has another now."""
        for name, health in decision.health.items():
            node = self.totals.nodes.get(name)
            if node is not None and node.status != str(health.status):
                self._say(f"node {name}: {' '.join(str(health).split())}")
        memory = None if self.controller is None else self.controller.memory
        self._add(decision_record(decision, memory))
        if memory is not None:
            self._log.write_planning_input(memory)

    def override(self, outcome: OverrideOutcome) -> None:
        """Take what became of an override."""
        record = event_log.override_record(outcome)
        if record.rejected:
            self._say(f"an override was rejected: {record.rejected}")
        for name, bound in record.bounds.items():
            node = self.totals.nodes.get(name)
            if node is not None and node.bound != bound:
                kind = bound_kind(node.percentile)
                self._say(f"node {name}: the bound is {bound:g} s {kind}, by an override")
        self._add(record)

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def live_table(totals: RunTotals) -> Table:
    """Draw the nodes of a run; below the table is what a user should know."""
    table = Table(box=None, pad_edge=False, caption_justify="left")
    for name in ("node", "events/s", "kept", "batch", "latency", "bound", "status"):
        table.add_column(name, justify="left" if name in {"node", "status"} else "right")
    for name, node in totals.nodes.items():
        kind = bound_kind(node.percentile)
        bound = "" if node.bound is None else f"{node.bound:g} s {kind}"
        if node.last is None:
            table.add_row(name, "", "", "", "", bound, "starting")
            continue
        events, seconds, share = node.last.events, node.last.seconds, node.last.kept_share
        table.add_row(
            name,
            f"{events / seconds if seconds else 0.0:,.0f}",
            f"{1.0 if share is None else share:.0%}",
            f"{seconds:.1f} s",
            "" if node.latency is None else f"{node.latency:.1f} s",
            bound,
            node.status,
        )
    nodes = totals.nodes.values()
    risks = [node.advice for node in nodes if node.status not in _NO_ACTION_NEEDED]
    table.caption = next(iter([*risks, totals.reason])) or "Ctrl-C stops the run"
    return table


@contextmanager
def shown(view: LiveView) -> Iterator[None]:
    """Show the table while it runs, in a terminal."""
    if not view.console.is_terminal:
        yield
        return
    with LiveDisplay(
        console=view.console,
        get_renderable=lambda: live_table(view.totals),
        refresh_per_second=2,
        transient=True,
    ):
        yield
