"""How each node is, in a word, and what a user can do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from shedlight.control.assessment import NodeOutlook, Outlook


class State(Enum):
    """How a node is."""

    OK = "OK"
    SHEDDING = "SHEDDING"
    BOUND_AT_RISK = "BOUND-AT-RISK"
    INFEASIBLE = "INFEASIBLE"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class NodeState:
    """How a node is.

    Attributes:
        state: In a word.
        remedy: What is the matter and what can be done; empty if all is well.
    """

    state: State
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.state}: {self.remedy}" if self.remedy else str(self.state)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the last attempt brought no plan.

    Attributes:
        problem: In words, with what to relax.
        is_infeasible: Whether no plan can do what is wished, and not just the solver failed.
    """

    problem: str
    is_infeasible: bool


def states_of(
    names: Mapping[str, object], outlook: Outlook, refusal: Refusal | None
) -> Mapping[str, NodeState]:
    """Say how each node is.

    Args:
        names: All nodes.
        outlook: Where those with a limit stand.
        refusal: Why the last attempt brought no plan, if it did not.
    """
    return {name: _state(name, outlook, refusal) for name in names}


def _state(name: str, outlook: Outlook, refusal: Refusal | None) -> NodeState:
    if name in outlook.infeasible:
        problem = f"{outlook.infeasible[name]}; its shares stay as they are"
        return NodeState(State.INFEASIBLE, problem)
    node = outlook.nodes.get(name)
    if node is None:
        return NodeState(State.OK)
    risk = _risk(node)
    if refusal is not None and (risk or refusal.is_infeasible):
        word = State.INFEASIBLE if refusal.is_infeasible else State.BOUND_AT_RISK
        return NodeState(word, f"{refusal.problem}\nthe last plan stays in force")
    if risk:
        return NodeState(State.BOUND_AT_RISK, risk)
    if node.sheds:
        remedy = "give it more cores, a longer bound or fewer events to shed less"
        return NodeState(State.SHEDDING, remedy)
    return NodeState(State.OK)


def _risk(node: NodeOutlook) -> str:
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
