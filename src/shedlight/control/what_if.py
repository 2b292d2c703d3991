"""What would come of other bounds, other weights or another load; nothing is put in force."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from shedlight.control.assessment import LoadAssessment, assess, keep_arrays
from shedlight.control.calibration import apply_calibration
from shedlight.control.controller import without_infeasible_bounds
from shedlight.control.node_status import NodeHealth, PlanFailure, node_health
from shedlight.control.observation import Observation
from shedlight.control.override import Override, apply_override
from shedlight.control.planning_input import PlanningInput, with_load
from shedlight.errors import PlanError
from shedlight.graph.application import Application
from shedlight.model.build import build_model
from shedlight.model.latency import Target
from shedlight.model.model import Model
from shedlight.planning.infeasible import InfeasibleError
from shedlight.planning.plan import Plan, PlanSettings, make_plan
from shedlight.shedding.shares import Shares, shares_by_label

_HORIZON = 2
"""In how many intervals a backlog is to be worked off, as the controller has it."""
_LONGEST = 2.0
"""How long the solver may take, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forecast:
    """What would come of a wish.

    Attributes:
        application: What would be run.
        plan: The plan; None if there is none.
        refusal: Why there is none.
        shares: What patterns would keep.
        loads: The busy time of each node with a limit, as a share of the limit.
        states: How each node would be.
        now: Complex events per second at each sink as the plan in force says, now.
        then: The same, then.
        seconds: How long it took to find out.
    """

    application: Application
    plan: Plan | None
    refusal: str = ""
    shares: Shares
    loads: Mapping[str, float]
    states: Mapping[str, NodeHealth]
    now: Mapping[str, float]
    then: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0


def what_if(
    situation: PlanningInput,
    wish: Override,
    load: float = 1.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Forecast:
    """Plan as the controller would, if it had other bounds, weights and events.

    Args:
        situation: Where things stand.
        wish: Other bounds and weights.
        load: How many times as many events come.
        clock: Says how long it takes.

    Raises:
        PlanError: There is no such node or sink, or a value is none.
    """
    began = clock()
    application = apply_override(situation.application, wish)
    target = replace(situation.wanted.target, horizon=_HORIZON * situation.interval)
    wanted = replace(situation.wanted, target=target, time_limit=_LONGEST)
    before = _outlook(situation, _model(situation, situation.application), target)
    model = _model(situation, application, load)
    outlook = _outlook(situation, model, target)
    plan, refusal = _planned(situation, without_infeasible_bounds(model, outlook), wanted)
    shares = situation.shares
    if plan is not None:
        shares = {**shares, **shares_by_label(model, plan.keep)}
        outlook = _outlook(replace(situation, shares=shares), model, target)
    return Forecast(
        application=application,
        plan=plan,
        refusal=refusal.problem if refusal is not None else "",
        shares=shares,
        loads={name: node.load for name, node in outlook.nodes.items()},
        states=node_health(application.nodes, outlook, refusal),
        now=before.sinks,
        then=outlook.sinks,
        seconds=clock() - began,
    )


def _model(situation: PlanningInput, application: Application, load: float = 1.0) -> Model:
    snapshot = situation.snapshot if load == 1 else with_load(situation.snapshot, load)
    return apply_calibration(build_model(application, snapshot), snapshot.calibration)


def _outlook(situation: PlanningInput, model: Model, target: Target) -> LoadAssessment:
    """See where the nodes would stand; nothing was observed of that."""
    unseen = Observation(time=situation.time, interval=situation.interval, arrivals={})
    return assess(unseen, model, target, situation.shares, situation.snapshot.calibration)


def _planned(
    situation: PlanningInput, model: Model, wanted: PlanSettings
) -> tuple[Plan | None, PlanFailure | None]:
    try:
        incumbent = keep_arrays(model, situation.shares) or None
        return make_plan(model, wanted, incumbent=incumbent), None
    except PlanError as error:
        return None, PlanFailure(str(error), isinstance(error, InfeasibleError))
