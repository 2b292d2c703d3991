"""Forecasts of what other bounds, weights or loads would bring; nothing is activated."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from shedlight.control.assessment import LoadAssessment, assess
from shedlight.control.calibration import apply_calibration
from shedlight.control.controller import HORIZON_INTERVALS, try_plan, without_infeasible_bounds
from shedlight.control.node_status import NodeHealth, PlanFailure, node_health
from shedlight.control.observation import Observation
from shedlight.control.override import Override, apply_override
from shedlight.control.planning_input import PlanningInput, with_load
from shedlight.graph.application import Application
from shedlight.model.build import build_model
from shedlight.model.latency import Target
from shedlight.model.model import Model
from shedlight.planning.plan import Plan
from shedlight.shedding.shares import Shares, shares_by_label

_MAX_SOLVER_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forecast:
    """The outcome of an override, as predicted."""

    application: Application  # what would be run
    plan: Plan | None  # the plan; None if there is none
    failure: str = ""  # why there is none
    shares: Shares  # what patterns would keep
    # the busy time of each node with a limit, as a share of the limit
    loads: Mapping[str, float]
    health: Mapping[str, NodeHealth]  # the status that each node would have
    # complex events per second at each sink, as the active plan predicts
    current_sinks: Mapping[str, float]
    # the same, as predicted with the override
    forecast_sinks: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0  # how long the forecast took


def what_if(
    planning_input: PlanningInput,
    override: Override,
    load: float = 1.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Forecast:
    """Plan as the controller would with other bounds and weights, and `load` times the events.

    Raises:
        PlanError: There is no such node or sink, or a value is none.
    """
    began, given = clock(), planning_input
    application = apply_override(given.application, override)
    horizon = HORIZON_INTERVALS * given.interval
    target = replace(given.plan_settings.target, horizon=horizon)
    settings = replace(given.plan_settings, target=target, time_limit=_MAX_SOLVER_SECONDS)
    before = _assess(given, _model(given, given.application), target)
    model = _model(given, application, load)
    assessment = _assess(given, model, target)
    made = try_plan(without_infeasible_bounds(model, assessment), settings, given.shares)
    plan, failure = (None, made) if isinstance(made, PlanFailure) else (made, None)
    shares = given.shares
    if plan is not None:
        shares = {**shares, **shares_by_label(model, plan.keep)}
        assessment = _assess(replace(given, shares=shares), model, target)
    return Forecast(
        application=application,
        plan=plan,
        failure=failure.problem if failure is not None else "",
        shares=shares,
        loads={name: node.load for name, node in assessment.nodes.items()},
        health=node_health(application, assessment, failure),
        current_sinks=before.sinks,
        forecast_sinks=assessment.sinks,
        seconds=clock() - began,
    )


def _model(given: PlanningInput, application: Application, load: float = 1.0) -> Model:
    snapshot = given.snapshot if load == 1 else with_load(given.snapshot, load)
    return apply_calibration(build_model(application, snapshot), snapshot.calibration)


def _assess(given: PlanningInput, model: Model, target: Target) -> LoadAssessment:
    """Assess the load of a model of which nothing was observed."""
    unseen = Observation(time=given.time, interval=given.interval, arrivals={})
    return assess(unseen, model, target, given.shares, given.snapshot.calibration)
