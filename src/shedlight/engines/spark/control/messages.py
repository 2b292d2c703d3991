"""What travels between nodes and a controller that is apart from them, as text.

All of it has a version and the fingerprint of the application. A node and a controller that are
not of one application do not work together, and say so.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from shedlight.control.averages import Averages, Key, Measure
from shedlight.engines.spark.support.batch_plan import shares_from_rows, shares_to_rows
from shedlight.errors import StateError
from shedlight.graph import Application
from shedlight.graph.application import parse_stream
from shedlight.runlog.records import MicroBatchRecord
from shedlight.shedding.shares import Shares

VERSION = 2
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ControlTopics:
    """The topics of an application besides its channels."""

    plans: str  # compacted: each node's part of the last plan, and that the controller lives
    reports: str  # what nodes observe
    nodes: str  # compacted: what others have to know of each node


def control_topics(application: Application) -> ControlTopics:
    """Name the topics of an application that has channels."""
    if application.channels is None:
        raise ValueError("the application has no channels")
    start = f"{application.channels.prefix}.{application.name}"
    return ControlTopics(f"{start}.plans", f"{start}.reports", f"{start}.nodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """What a node observes.

    Attributes:
        node: The node.
        boot: Another one each time that the node starts.
        number: Of the report since then, from 0 on.
        time: When, in seconds since 1970, by the node's clock.
        interval: How many seconds were observed.
        values: What has moved since it was last reported.
        is_whole: Whether these are all there are.
        is_idle: Whether the node has nothing to do.
        has_settled: Whether its load has settled after a jump.
        batch: The micro-batches since the last report, added up, as of the log.
    """

    node: str
    boot: str
    number: int
    time: float
    interval: float = 1.0
    values: Averages = field(default_factory=dict)
    is_whole: bool = False
    is_idle: bool = False
    has_settled: bool = False
    batch: MicroBatchRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMessage:
    """A plan; each node is sent its part of it.

    Attributes:
        epoch: Of the controller: each that begins has a higher one.
        number: Of the plan; 0: there is none yet.
        shares: What patterns keep.
        bounds: The bounds that hold, in seconds, with overrides.
        infeasible: The nodes whose bounds cannot be kept whatever is shed.
        work: By which factor the plan changes the work of an event at a node.
    """

    epoch: int
    number: int
    shares: Shares = field(default_factory=dict)
    bounds: Mapping[str, float] = field(default_factory=dict)
    infeasible: tuple[str, ...] = ()
    work: Mapping[str, float] = field(default_factory=dict)

    @property
    def order(self) -> tuple[int, int]:
        """Later plans have a higher one."""
        return self.epoch, self.number

    def of_node(self, application: Application, node: str) -> "PlanMessage":
        """Give what a node has to know of it: with many patterns all is too much for Kafka."""
        mine = {name for name, spec in application.operators.items() if spec.node == node}
        return replace(
            self,
            shares={each: kept for each, kept in self.shares.items() if each.operator in mine},
            bounds={name: bound for name, bound in self.bounds.items() if name == node},
            infeasible=tuple(name for name in self.infeasible if name == node),
            work={name: factor for name, factor in self.work.items() if name == node},
        )


def join_parts(parts: Iterable[PlanMessage]) -> PlanMessage:
    """Put the parts of the nodes together; without any there is no plan yet."""
    plan = PlanMessage(epoch=0, number=0)
    for part in parts:
        plan = PlanMessage(
            epoch=max(plan.epoch, part.epoch),
            number=max(plan.number, part.number),
            shares={**plan.shares, **part.shares},
            bounds={**plan.bounds, **part.bounds},
            infeasible=(*plan.infeasible, *part.infeasible),
            work={**plan.work, **part.work},
        )
    return plan


def report_to_text(report: NodeReport, application: str) -> str:
    """Write a report."""
    values = [
        [key.measure.value, key.of, str(key.stream or ""), key.label, float(f"{value:.4g}")]
        for key, value in report.values.items()
    ]
    batch = None if report.batch is None else report.batch.model_dump(exclude_defaults=True)
    row = asdict(replace(report, values={}, batch=None))
    return _seal({**row, "values": values, "batch": batch}, application)


def report_from_text(text: str, application: str, where: str) -> NodeReport:
    """Read a report."""

    def read(row: dict[str, Any]) -> NodeReport:
        values = {
            Key(Measure(measure), of, parse_stream(stream) if stream else None, label): value
            for measure, of, stream, label, value in row.pop("values")
        }
        batch = row.pop("batch")
        read = None if batch is None else MicroBatchRecord.model_validate(batch)
        return NodeReport(**row, values=values, batch=read)

    return _open(text, application, where, read)


def plan_to_text(plan: PlanMessage, application: str) -> str:
    """Write a plan."""
    row = {
        "epoch": plan.epoch,
        "number": plan.number,
        "shares": shares_to_rows(plan.shares),
        "bounds": dict(plan.bounds),
        "infeasible": plan.infeasible,
        "work": dict(plan.work),
    }
    return _seal(row, application)


def plan_from_text(text: str, application: str, where: str) -> PlanMessage:
    """Read a plan."""

    def read(row: dict[str, Any]) -> PlanMessage:
        shares, infeasible = shares_from_rows(row.pop("shares")), tuple(row.pop("infeasible"))
        return PlanMessage(**row, shares=shares, infeasible=infeasible)

    return _open(text, application, where, read)


def _seal(row: Mapping[str, Any], application: str) -> str:
    sealed = {"version": VERSION, "application": application, **row}
    return json.dumps(sealed, default=sorted, separators=(",", ":"))  # a set is a list


def _open(text: str, application: str, where: str, read: Callable[[dict[str, Any]], _T]) -> _T:
    """Read what was sealed.

    Raises:
        StateError: It is of another version or application, or nothing of ours.
    """
    try:
        row = json.loads(text)
        version, of = row.pop("version"), row.pop("application")
        if version == VERSION and of == application:
            return read(row)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(
            f"the topic {where} has a record that cannot be read ({error}); delete the topic, "
            "or set another `prefix` of `channels`"
        ) from error
    raise StateError(
        f"the topic {where} has a record of another application, or of another version of it: "
        f"its fingerprint is {of} of version {version}, and here it is {application} of "
        f"version {VERSION}; run nodes and controller with one application file, and delete "
        "the topic or set another `prefix` of `channels` where an old application is over"
    )


def node_to_text(row: Mapping[str, Any], application: str) -> str:
    """Write what others have to know of a node."""
    return _seal(row, application)


def node_from_text(text: str, application: str, where: str) -> dict[str, Any]:
    """Read what others have to know of a node."""
    return _open(text, application, where, dict)
