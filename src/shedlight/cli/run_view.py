"""The listener of `shedlight run`: writes the log, adds up, shows a live table."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live as LiveDisplay
from rich.table import Table

from shedlight import __version__
from shedlight.graph import Application
from shedlight.runlog.aggregate import RunTotals
from shedlight.runlog.records import run_header

if TYPE_CHECKING:  # Spark takes a second to import
    from shedlight.control.controller import Decision
    from shedlight.engines.spark.control.micro_batch import MicroBatchReport
    from shedlight.engines.spark.control.override_store import OverrideOutcome
    from shedlight.engines.spark.run.streaming import Live
    from shedlight.engines.spark.shed.type_catalog import Catalogs

_NO_ACTION_NEEDED = frozenset({"OK", "SHEDDING"})
"""The statuses of a node in which an operator has nothing to do."""


class LiveView:
    """Logs and adds up what a run reports, and prints what a user should know.

    Args:
        application: What is run.
        log: Where to write the log.
        timed: Whether events come while it runs.

    Attributes:
        totals: What was added up so far.
        running: What runs, once it does and if it is not over at once.
    """

    def __init__(self, application: Application, log: Path, *, timed: bool) -> None:
        from shedlight.engines.spark.control.event_log import BatchRecorder, RunLog  # noqa: PLC0415

        self.totals = RunTotals()
        self.console = Console(stderr=True)
        self.running: Live | None = None
        self._log, self._recorder = RunLog(log), BatchRecorder()
        self._header = run_header(application, time.time(), version=__version__, timed=timed)
        self.totals.add(self._header)
        self._has_begun = False

    def begin(self) -> None:
        """Log the start, once; till then the checkpoint is not ours to write to."""
        if not self._has_begun:
            self._has_begun = True
            self._log.write(self._header)

    def batch(self, report: "MicroBatchReport") -> None:
        """Take a micro-batch."""
        self.begin()
        plan, pressure = self._active_plan(report)
        record = self._recorder.record(report, self._catalogs(report.node), plan, pressure)
        self.totals.add(record)
        self._log.write(record)

    def _active_plan(self, report: "MicroBatchReport") -> tuple[int | None, float | None]:
        """Find the plan and the pressure of a micro-batch, where there are any."""
        bound = self.totals.nodes[report.node].bound
        if self.running is None or self.running.loop is None or bound is None:
            return None, None
        used = self.running.deployment.plans(report.node).plan_for_batch(report.number)
        return used.plan, used.pressure

    def _catalogs(self, node: str) -> "Catalogs | None":
        return None if self.running is None else self.running.deployment.nodes[node].catalogs

    def decision(self, decision: "Decision") -> None:
        """Take a decision; print the status of each node that has another now."""
        from shedlight.engines.spark.control.event_log import decision_record  # noqa: PLC0415

        for name, health in decision.health.items():
            node = self.totals.nodes.get(name)
            if node is not None and node.status != str(health.status):
                self._say(f"node {name}: {' '.join(str(health).split())}")
        loop = None if self.running is None else self.running.loop
        memory = None if loop is None else loop.memory
        record = decision_record(decision, memory)
        self.totals.add(record)
        self._log.write(record)
        if memory is not None:
            self._log.write_planning_input(memory)

    def override(self, outcome: "OverrideOutcome") -> None:
        """Take what became of an override."""
        from shedlight.engines.spark.control.event_log import override_record  # noqa: PLC0415

        record = override_record(outcome)
        if record.rejected:
            self._say(f"an override was rejected: {record.rejected}")
        for name, bound in record.bounds.items():
            node = self.totals.nodes.get(name)
            if node is not None and node.bound != bound:
                self._say(f"node {name}: the bound is {bound:g} s, by an override")
        self.totals.add(record)
        self._log.write(record)

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def live_table(totals: RunTotals) -> Table:
    """Draw the nodes of a run; below the table is what a user should know."""
    table = Table(box=None, pad_edge=False, caption_justify="left")
    for name in ("node", "events/s", "kept", "batch", "latency", "bound", "status"):
        table.add_column(name, justify="left" if name in {"node", "status"} else "right")
    for name, node in totals.nodes.items():
        bound = "" if node.bound is None else f"{node.bound:g} s"
        if not node.batches:
            table.add_row(name, "", "", "", "", bound, "starting")
            continue
        table.add_row(
            name,
            f"{node.rate:,.0f}",
            f"{node.share:.0%}",
            f"{node.seconds:.1f} s",
            "" if node.latency is None else f"{node.latency:.1f} s",
            bound,
            node.status,
        )
    risks = [
        node.advice for node in totals.nodes.values() if node.status not in _NO_ACTION_NEEDED
    ]
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
