"""Arguments and options of commands that plan; planning has a solver to load."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, TypeVar

import typer

from shedlight.cli.options import seconds_of
from shedlight.graph import Node
from shedlight.model.latency import LatencyModel
from shedlight.model.model import NodeModel

_Node = TypeVar("_Node", Node, NodeModel)


def _check_aim(aim: float) -> float:
    if not 0 < aim <= 1:
        raise typer.BadParameter("--aim must be above 0 and at most 1")
    return aim


Latency = Annotated[
    LatencyModel, typer.Option(help="How a bound becomes a limit on busy time.")
]
Aim = Annotated[
    float, typer.Option(help="The share of the limit to aim at.", callback=_check_aim)
]


def change_bounds(
    nodes: Mapping[str, _Node], bound: str, only: str | None = None
) -> dict[str, _Node]:
    """Give a node another bound; None: all nodes that have one."""
    seconds = seconds_of("--bound", bound)
    return {
        name: replace(node, bound=seconds)
        if name == only or (only is None and node.bound is not None)
        else node
        for name, node in nodes.items()
    }
