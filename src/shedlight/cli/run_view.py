"""What `shedlight run` makes of what it sees: the log, the summary, a table in a terminal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live as Shown
from rich.table import Table

from shedlight import __version__
from shedlight.graph import Application
from shedlight.runlog import run_row

if TYPE_CHECKING:  # Spark takes a second to import
    from shedlight.control.controller import Decision
    from shedlight.engines.spark.control.micro_batch import MicroBatchReport
    from shedlight.engines.spark.control.override_store import OverrideOutcome
    from shedlight.engines.spark.control.type_counts import TypeCatalog
    from shedlight.engines.spark.run.streaming import Live
    from shedlight.engines.spark.run.summary import Summary

_FINE = frozenset({"OK", "SHEDDING"})
"""The states of a node that need nobody to do anything."""


class LiveView:
    """Sees what happens, writes it down, and tells what a user should know.

    Args:
        application: What is run.
        log: Where to write it down.
        timed: Whether events come while it runs.

    Attributes:
        summary: What is known so far.
        running: What runs, once it does and if it is not over at once.
    """

    def __init__(self, application: Application, log: Path, *, timed: bool) -> None:
        from shedlight.engines.spark.control.event_log import RunLog  # noqa: PLC0415
        from shedlight.engines.spark.run.summary import new_summary  # noqa: PLC0415

        self.summary = new_summary(application, timed=timed)
        self.console = Console(stderr=True)
        self.running: Live | None = None
        self._log = RunLog(log)
        self._header = run_row(application, time.time(), version=__version__, timed=timed)
        self._has_begun = False
        self._known: dict[str, TypeCatalog] = {}

    def begin(self) -> None:
        """Write down how it begins, once; till then the checkpoint is not ours to write to."""
        if not self._has_begun:
            self._has_begun = True
            self._log.begin(self._header)

    def batch(self, one: "MicroBatchReport") -> None:
        """See a micro-batch."""
        self.begin()
        self.summary.batch(one)
        self._log.batch(one, self._used(one), self._types(one.node))

    def _used(self, one: "MicroBatchReport") -> dict[str, float]:
        """Find the plan and the pressure of a micro-batch, where there are any."""
        bound = self.summary.nodes[one.node].bound
        if self.running is None or self.running.loop is None or bound is None:
            return {}
        used = self.running.deployment.plans(one.node).plan_for_batch(one.number)
        return {"plan": used.plan, "pressure": used.pressure}

    def _types(self, node: str) -> "TypeCatalog | None":
        from shedlight.engines.spark.control.type_counts import type_catalog  # noqa: PLC0415

        if self.running is None:
            return None
        if node not in self._known:
            self._known[node] = type_catalog(self.running.deployment.nodes[node].chains)
        return self._known[node]

    def decision(self, one: "Decision") -> None:
        """See a decision."""
        for line in self.summary.decision(one):
            self._say(line)
        loop = None if self.running is None else self.running.loop
        self._log.decision(one, None if loop is None else loop.memory)

    def wish(self, one: "OverrideOutcome") -> None:
        """See what became of a wish."""
        self._log.wish(one)
        if one.refused:
            self._say(f"a wish was refused: {one.refused}")
            return
        for name, bound in one.wish.bounds.items():
            node = self.summary.nodes.get(name)
            if node is not None and node.bound != bound:
                self._say(f"node {name}: the bound is {bound:g} s, as was asked for")
                node.bound = bound

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def table_of(summary: "Summary") -> Table:
    """Draw how it goes; below the table is what a user should know."""
    table = Table(box=None, pad_edge=False, caption_justify="left")
    for name in ("node", "events/s", "kept", "batch", "latency", "bound", "state"):
        table.add_column(name, justify="left" if name in {"node", "state"} else "right")
    for name, node in summary.nodes.items():
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
            node.state,
        )
    risks = [node.remedy for node in summary.nodes.values() if node.state not in _FINE]
    table.caption = next(iter([*risks, summary.reason])) or "Ctrl-C stops it in order"
    return table


@contextmanager
def shown(watch: LiveView) -> Iterator[None]:
    """Show how it goes, in a terminal."""
    if not watch.console.is_terminal:
        yield
        return
    with Shown(
        console=watch.console,
        get_renderable=lambda: table_of(watch.summary),
        refresh_per_second=2,
        transient=True,
    ):
        yield
