"""`shedlight plan`: what to keep, from rates and processing times, without a running system."""

import json
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from shedlight.cli.console import say
from shedlight.cli.options import Aim, ApplicationFile, Json, Latency, seconds_of
from shedlight.cli.plan_text import as_json, as_text
from shedlight.errors import PlanError
from shedlight.graph import load_application
from shedlight.model.build import build_model
from shedlight.model.latency import LatencyModel, Target
from shedlight.model.model import Model
from shedlight.model.snapshot_file import read_snapshot
from shedlight.planning.infeasible import InfeasibleError
from shedlight.planning.plan import PlanSettings, make_plan


class Objective(Enum):
    """What a plan maximises."""

    GLOBAL = "global"
    LOCAL = "local"


def plan(  # noqa: PLR0913, PLR0917  # one argument per option
    application: ApplicationFile,
    snapshot: Annotated[
        Path, typer.Option(help="Rates and processing times (JSON).", show_default=False)
    ],
    bottleneck: Annotated[
        str | None,
        typer.Option(help="The node to plan.  [default: all overloaded ones, together]"),
    ] = None,
    objective: Annotated[
        Objective, typer.Option(help="Results at the sinks, or of the planned nodes.")
    ] = Objective.GLOBAL,
    bound: Annotated[
        str | None,
        typer.Option(help="Plan for this bound, e.g. '500 ms'.  [default: as in the file]"),
    ] = None,
    latency: Latency = LatencyModel.MG1,
    aim: Aim = 0.9,
    *,
    fill: Annotated[
        bool, typer.Option("--fill/--no-fill", help="Spend what is left of the budget.")
    ] = True,
    windows: Annotated[
        bool,
        typer.Option(
            "--windows/--no-windows", help="Take windows into account where streams are sparse."
        ),
    ] = True,
    as_json_: Json = False,
) -> None:
    """Plan which share of which type each pattern keeps, without a running system."""
    loaded = load_application(application)
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    model = build_model(loaded.application, read_snapshot(snapshot, loaded.application))
    if bound is not None:
        model = _with_bound(model, bound, bottleneck)
    settings = PlanSettings(
        target=Target(latency=latency, aim=aim),
        bottleneck=bottleneck,
        local=objective is Objective.LOCAL,
        fill=fill,
        windows=windows,
    )
    try:
        result = make_plan(model, settings)
    except PlanError as error:
        if as_json_:
            print(json.dumps(_failure(error), indent=2))
        raise
    if as_json_:
        print(json.dumps(as_json(model, result), indent=2))
    else:
        print(as_text(model, result, settings.target))


def _with_bound(model: Model, bound: str, bottleneck: str | None) -> Model:
    """Give the bottleneck another bound, or else every node that has one."""
    seconds = seconds_of("--bound", bound)
    nodes = {
        name: replace(node, bound=seconds)
        if name == bottleneck or (bottleneck is None and node.bound is not None)
        else node
        for name, node in model.nodes.items()
    }
    return replace(model, nodes=nodes)


def _failure(error: PlanError) -> dict[str, object]:
    if isinstance(error, InfeasibleError):
        return {
            "status": "infeasible",
            "problem": error.problem,
            "remedies": list(error.remedies),
        }
    return {"status": "failed", "problem": str(error)}
