"""How each node is, in a word, and what a user can do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from shedlight.control.assessment import LoadAssessment, NodeAssessment


class NodeStatus(Enum):
    """How a node is."""

    OK = "OK"
    SHEDDING = "SHEDDING"
    BOUND_AT_RISK = "BOUND-AT-RISK"
    INFEASIBLE = "INFEASIBLE"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """How a node is.

    Attributes:
        state: In a word.
        remedy: What is the matter and what can be done; empty if all is well.
    """

    state: NodeStatus
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.state}: {self.remedy}" if self.remedy else str(self.state)


@dataclass(frozen=True, slots=True)
class PlanFailure:
    """Why the last attempt brought no plan.

    Attributes:
        problem: In words, with what to relax.
        is_infeasible: Whether no plan can do what is wished, and not just the solver failed.
    """

    problem: str
    is_infeasible: bool


def node_health(
    names: Mapping[str, object], outlook: LoadAssessment, refusal: PlanFailure | None
) -> Mapping[str, NodeHealth]:
    """Say how each node is.

    Args:
        names: All nodes.
        outlook: Where those with a limit stand.
        refusal: Why the last attempt brought no plan, if it did not.
    """
    return {name: _state(name, outlook, refusal) for name in names}


def _state(name: str, outlook: LoadAssessment, refusal: PlanFailure | None) -> NodeHealth:
    if name in outlook.infeasible:
        problem = f"{outlook.infeasible[name]}; its shares stay as they are"
        return NodeHealth(NodeStatus.INFEASIBLE, problem)
    node = outlook.nodes.get(name)
    if node is None:
        return NodeHealth(NodeStatus.OK)
    risk = _risk(node)
    if refusal is not None and (risk or refusal.is_infeasible):
        word = NodeStatus.INFEASIBLE if refusal.is_infeasible else NodeStatus.BOUND_AT_RISK
        return NodeHealth(word, f"{refusal.problem}\nthe last plan stays in force")
    if risk:
        return NodeHealth(NodeStatus.BOUND_AT_RISK, risk)
    if node.sheds:
        remedy = "give it more cores, a longer bound or fewer events to shed less"
        return NodeHealth(NodeStatus.SHEDDING, remedy)
    return NodeHealth(NodeStatus.OK)


def _risk(node: NodeAssessment) -> str:
    """Say what endangers the bound of a node; nothing if nothing does."""
    if node.load > 1:
        return (
            f"busy time is {node.load:.2f} of its limit; it sheds by pressure until a plan "
            "fits, and sheds less with more cores or a longer bound"
        )
    if node.latency > node.bound:
        return (
            f"latency {node.latency:.3g} s exceeds the bound of {node.bound:g} s though the "
            "load fits; if that lasts, events come in bursts: lower the aim or raise the bound"
        )
    if node.backlog > node.bound:
        return (
            f"{node.backlog:.3g} busy seconds are queued and the bound is {node.bound:g} s; "
            "the plan works them off if the load stays"
        )
    return ""
