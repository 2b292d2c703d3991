"""What is known of a run so far: of its nodes, its patterns, and what was no event or late."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shedlight.control.controller import Decision
from shedlight.engines.spark.control.event_log import LateEventCounter, patterns_of
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.graph import Application


@dataclass(slots=True)
class NodeSummary:
    """What is known of a node; rate, share, seconds and latency are of its last micro-batch.

    Where all events were there before, `timed` is false: their latency says nothing.
    """

    bound: float | None
    timed: bool = True
    batches: int = 0
    events: int = 0
    kept: int = 0
    rate: float = 0.0
    share: float = 1.0
    seconds: float = 0.0
    latency: float | None = None
    total: float = 0.0
    state: str = "OK"
    remedy: str = ""

    @property
    def mean(self) -> float | None:
        """The mean latency of all that was kept."""
        return self.total / self.kept if self.kept and self.timed else None

    def take(self, batch: MicroBatchReport) -> None:
        """Take in a micro-batch; one without events says nothing about events."""
        self.batches += 1
        self.seconds = batch.seconds
        self.events += batch.events
        self.kept += batch.kept
        self.rate = batch.events / batch.seconds if batch.seconds else 0.0
        self.share = batch.kept / batch.events if batch.events else 1.0
        if batch.kept and self.timed:
            passed = batch.passed.values()
            total = sum(one.number * (batch.end - one.mean / 1e6) for one in passed)
            self.latency = total / batch.kept
            self.total += total


@dataclass(slots=True)
class Summary:
    """What is known of a run.

    Attributes:
        nodes: By name.
        found: How many complex events each pattern found.
        refused: How many records of each source were no events.
        late: How many events were late at each operator, since the checkpoint was begun.
        plans: How many plans there were.
        reason: Of the last decision.
    """

    nodes: dict[str, NodeSummary]
    found: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    plans: int = 0
    reason: str = ""
    _late: LateEventCounter = field(default_factory=LateEventCounter)
    _refused: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def late(self) -> dict[str, int]:
        """How many events were late at each operator, since the checkpoint was begun."""
        return {name: number for name, number in self._late.at().items() if number}

    def batch(self, batch: MicroBatchReport) -> None:
        """Take in a micro-batch."""
        self.nodes[batch.node].take(batch)
        for source, number in batch.refused.items():
            here = self._refused.get((batch.node, source), 0) + number
            self._refused[batch.node, source] = here
            if number:  # each node that reads the source sees them all
                self.refused[source] = max(self.refused.get(source, 0), here)
        self._late.take(batch)
        for stream, counted in patterns_of(batch).items():
            self.found[stream] = self.found.get(stream, 0) + int(counted["found"])

    def decision(self, decision: Decision) -> list[str]:
        """Take in a decision; give a line for each node whose state is another now."""
        self.plans += decision.plan is not None
        self.reason = decision.reason
        lines = []
        for name, one in decision.health.items():
            if name in self.nodes:
                node, state = self.nodes[name], str(one.status)
                if node.state != state:
                    lines.append(f"node {name}: {' '.join(str(one).split())}")
                node.state, node.remedy = state, one.advice
        return lines

    def as_json(self) -> Mapping[str, object]:
        """Write it for machines."""
        nodes = {
            name: {
                "batches": node.batches,
                "events": node.events,
                "kept": node.kept,
                "mean_latency": node.mean,
                "bound": node.bound,
                "state": node.state,
                "remedy": node.remedy,
            }
            for name, node in self.nodes.items()
        }
        return {
            "nodes": nodes,
            "found": self.found,
            "late": self.late,
            "refused": self.refused,
            "plans": self.plans,
            "reason": self.reason,
        }

    def as_text(self) -> str:
        """Write it for people."""
        lines = []
        for name, node in self.nodes.items():
            lines.append(f"node {name}: {_line(node)}")
            lines += [f"  {line}" for line in node.remedy.splitlines()]
        lines += [f"found {number:,} of {stream}" for stream, number in self.found.items()]
        lines += [f"late at {name}: {_events(number)}" for name, number in self.late.items()]
        lines += [
            f"no events in source {name}: {number:,} record{'s' * (number != 1)}"
            for name, number in self.refused.items()
        ]
        if self.plans:
            plans = "1 plan" if self.plans == 1 else f"{self.plans} plans"
            lines.append(f"{plans}; last decision: {self.reason}")
        return "\n".join(lines)


def _line(node: NodeSummary) -> str:
    batches = f"{node.batches:,} micro-batch{'es' * (node.batches != 1)}"
    text = f"{_events(node.events)} in {batches}"
    if node.events:
        text += f", {node.kept / node.events:.0%} of use and kept"
    if node.mean is not None:
        bound = "" if node.bound is None else f" of {node.bound:g} s"
        text += f", mean latency {node.mean:.2f} s{bound}"
    return f"{text}; {node.state}"


def _events(number: int) -> str:
    return f"{number:,} event{'s' * (number != 1)}"


def new_summary(application: Application, *, timed: bool = True) -> Summary:
    """Make the summary of a run before it begins.

    Args:
        application: What is run.
        timed: Whether events come while it runs.
    """
    used = dict.fromkeys(spec.node for spec in application.operators.values())
    nodes = {name: NodeSummary(application.nodes[name].bound, timed) for name in used}
    return Summary(nodes)
