"""The status of each node, and what a user can do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from shedlight.control.assessment import LoadAssessment, NodeAssessment
from shedlight.graph.application import Application, bound_kind
from shedlight.graph.topology import operators_on


class NodeStatus(Enum):
    """Whether a node keeps its bound, and at what price."""

    OK = "OK"
    SHEDDING = "SHEDDING"
    BOUND_AT_RISK = "BOUND-AT-RISK"
    INFEASIBLE = "INFEASIBLE"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """The status of a node, and what can be done about it."""

    status: NodeStatus  # whether it keeps its bound
    advice: str = ""  # what is the matter and what can be done; empty if nothing is
    is_bound_infeasible: bool = False  # whether its bound cannot be kept whatever is shed

    def __str__(self) -> str:
        return f"{self.status}: {self.advice}" if self.advice else str(self.status)


@dataclass(frozen=True, slots=True)
class PlanFailure:
    """Why the last attempt brought no plan."""

    problem: str  # what is the matter, with what to relax
    is_infeasible: bool  # whether no plan keeps all constraints, and not just the solver failed


def node_health(
    application: Application, assessment: LoadAssessment, failure: PlanFailure | None
) -> Mapping[str, NodeHealth]:
    """Find the status of each node, and what can be done about it."""
    return {
        name: _health_of(name, assessment, failure, _relief(application, name))
        for name in application.nodes
    }


def _relief(application: Application, node: str) -> str:
    """Say what makes a node shed less; more cores only where events can be split by key."""
    patterns = [p for spec in operators_on(application, node) for p in spec.patterns.values()]
    if any(pattern.partition_by for pattern in patterns):
        return "give it more cores, a longer bound or fewer events to shed less"
    return (
        "give it a longer bound or fewer events to shed less; more cores would not help, for "
        "none of its patterns has PARTITION BY"
    )


def _health_of(
    name: str, assessment: LoadAssessment, failure: PlanFailure | None, relief: str
) -> NodeHealth:
    if name in assessment.infeasible:
        problem = f"{assessment.infeasible[name]}; its shares stay as they are"
        return NodeHealth(NodeStatus.INFEASIBLE, problem, is_bound_infeasible=True)
    node = assessment.nodes.get(name)
    if node is None:
        return NodeHealth(NodeStatus.OK)
    risk = _risk(node, relief)
    if failure is not None and (risk or failure.is_infeasible):
        at_risk = NodeStatus.BOUND_AT_RISK
        status = NodeStatus.INFEASIBLE if failure.is_infeasible else at_risk
        return NodeHealth(status, f"{failure.problem}\nthe active plan stays")
    if risk:
        return NodeHealth(NodeStatus.BOUND_AT_RISK, risk)
    return NodeHealth(NodeStatus.SHEDDING, relief) if node.sheds else NodeHealth(NodeStatus.OK)


def _risk(node: NodeAssessment, relief: str) -> str:
    """Say what endangers the bound of a node; empty if nothing does."""
    if node.load > 1:
        return (
            f"it is at {100 * node.load:,.0f} % of its limit and sheds by pressure until a "
            f"plan fits; {relief}"
        )
    if node.latency > node.mean:
        return (
            f"the mean latency is {node.latency:.3g} s and {node.allowance}, though the load "
            "fits; if that lasts, events come in bursts: lower the aim or raise the bound"
        )
    if node.backlog > node.bound:
        return (
            f"{node.backlog:.3g} busy seconds are queued and the bound is {node.bound:g} s "
            f"{bound_kind(node.percentile)}; the plan works them off if the load stays"
        )
    return ""
