"""Arguments and options that several commands have."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from shedlight.graph import Node
from shedlight.language.ast.window import read_duration
from shedlight.model.latency import LatencyModel
from shedlight.model.model import NodeModel

_Node = TypeVar("_Node", Node, NodeModel)


def _check_aim(aim: float) -> float:
    if not 0 < aim <= 1:
        raise typer.BadParameter("--aim must be above 0 and at most 1")
    return aim


ApplicationFile = Annotated[Path, typer.Argument(help="An application file (YAML).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Latency = Annotated[
    LatencyModel, typer.Option(help="How a bound becomes a limit on busy time.")
]
Aim = Annotated[
    float, typer.Option(help="The share of the limit to aim at.", callback=_check_aim)
]


def microseconds_of(option: str, text: str) -> int:
    """Read a time, in microseconds."""
    try:
        return read_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option} {error}") from error


def seconds_of(option: str, text: str) -> float:
    """Read a time that is longer than zero, in seconds."""
    seconds = microseconds_of(option, text) / 1e6
    if seconds <= 0:
        raise typer.BadParameter(f"{option} must be longer than zero, got {text!r}")
    return seconds


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
