"""`shedlight plan`: what to keep, from rates and processing times, without a running system."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from shedlight.cli.console import load_with_warnings
from shedlight.cli.options import ApplicationFile, Json
from shedlight.cli.plan_options import Aim, Latency, change_bounds
from shedlight.cli.plan_text import as_json, as_text
from shedlight.errors import PlanError
from shedlight.model.build import build_model
from shedlight.model.latency import LatencyModel, Target
from shedlight.model.snapshot_file import read_snapshot
from shedlight.planning.infeasible import InfeasibleError, Relaxation
from shedlight.planning.plan import PlanSettings, make_plan


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
        Literal["global", "local"],
        typer.Option(help="Results at the sinks, or of the planned nodes."),
    ] = "global",
    bound: Annotated[
        str | None,
        typer.Option(help="Plan for a bound so long: '500 ms'.  [default: as in the file]"),
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
    loaded = load_with_warnings(application)
    model = build_model(loaded, read_snapshot(snapshot, loaded))
    if bound is not None:
        model = replace(model, nodes=change_bounds(model.nodes, bound, bottleneck))
    settings = PlanSettings(
        target=Target(latency=latency, aim=aim),
        bottleneck=bottleneck,
        local=objective == "local",
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


def _failure(error: PlanError) -> dict[str, object]:
    if isinstance(error, InfeasibleError):
        return {
            "status": "infeasible",
            "problem": error.problem,
            "remedies": list(error.remedies),
            "lower": list(map(_relaxation, error.lower)),
            "higher": list(map(_relaxation, error.higher)),
        }
    return {"status": "failed", "problem": str(error)}


def _relaxation(relaxation: Relaxation) -> dict[str, object]:
    by = relaxation.by if math.isfinite(relaxation.by) else None
    return {
        "setting": relaxation.setting,
        "name": relaxation.name,
        "type": relaxation.label or None,
        "by": by,
    }
