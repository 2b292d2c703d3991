"""The controller: from an observation to a plan, or to none, and why.

`decide` is pure: what it remembers goes in and comes out as a value, and whoever runs the loop
activates plans. If the loop dies, the last plan stays active, for nothing takes it back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shedlight.control.assessment import (
    LoadAssessment,
    assess,
    has_planned_strata,
    keep_arrays,
    streams_that_shed,
)
from shedlight.control.calibration import (
    CalibrationSettings,
    Factors,
    Yields,
    apply_calibration,
    update_yields,
)
from shedlight.control.feedback import (
    Feedback,
    FeedbackSettings,
    describe_feedback,
    update_feedback,
)
from shedlight.control.node_status import NodeHealth, PlanFailure, node_health
from shedlight.control.observation import (
    Observation,
    remember_times,
    shed_patterns,
    snapshot_of,
)
from shedlight.control.replan_trigger import (
    DEFAULT_POLICY,
    WITHIN_LIMITS,
    ControlHistory,
    ReplanPolicy,
    ReplanTrigger,
    find_replan_trigger,
)
from shedlight.control.smoothing import (
    SmoothedObservation,
    SmoothingSettings,
    rate_history_of,
    smooth,
)
from shedlight.control.strata import (
    StrataAverages,
    StrataSettings,
    find_strata_reason,
    list_trials,
    strata_rates,
    update_strata,
)
from shedlight.errors import PlanError, SnapshotError
from shedlight.graph.application import Application
from shedlight.model.build import build_model
from shedlight.model.model import Model
from shedlight.model.snapshot import Snapshot
from shedlight.planning.infeasible import InfeasibleError
from shedlight.planning.plan import KEEP_INCUMBENT_RATIO, Plan, PlanSettings, make_plan
from shedlight.planning.watchers import list_watchers
from shedlight.shedding.shares import Shares, shares_by_label

HORIZON_INTERVALS = 2  # in how many intervals a backlog is to be worked off

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """How to control.

    Attributes:
        policy: When to replan.
        plan_settings: How to plan; the horizon is two intervals, whatever it says there.
        calibration: How calibration factors are learned.
        smoothing: How observations are averaged that plans are made from.
        strata: Whether keys are shed in strata, and how these are learned.
        feedback: When more is planned than a limit, where keys are shed in strata.
    """

    policy: ReplanPolicy = DEFAULT_POLICY
    plan_settings: PlanSettings = field(default_factory=PlanSettings)
    calibration: CalibrationSettings = field(default_factory=CalibrationSettings)
    smoothing: SmoothingSettings = field(default_factory=SmoothingSettings)
    strata: StrataSettings = field(default_factory=StrataSettings)
    feedback: FeedbackSettings = field(default_factory=FeedbackSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the controller remembers."""

    application: Application  # what it controls
    settings: ControlSettings = field(default_factory=ControlSettings)  # how
    # what patterns keep, by the active plan; empty: everything
    shares: Shares = field(default_factory=dict)
    # the last attempt to plan, and what was observed since
    history: ControlHistory = field(default_factory=ControlHistory)
    yields: Yields = field(default_factory=dict)  # what patterns bring, measured and modelled
    # the latest observation, with the processing times of patterns that took no event then: one
    # that is shed altogether cannot be measured
    latest: Observation | None = None
    # the average of the latest observations
    smoothed: SmoothedObservation = field(default_factory=SmoothedObservation)
    failure: PlanFailure | None = None  # why the last attempt brought no plan, if it did not
    # the status of each node, and what can be done
    health: Mapping[str, NodeHealth] = field(default_factory=dict)
    strata: StrataAverages = field(default_factory=dict)  # what was learned of strata of keys
    # how many times the limit of each node is planned that sheds in strata
    feedback: Feedback = field(default_factory=dict)

    @property
    def factors(self) -> Factors:
        """What patterns yield: matches as measured over matches as modelled."""
        return {stream: estimate.factor for stream, estimate in self.yields.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decision:
    """What to do about an observation, and why, for the log and the page.

    Attributes:
        time: Of the observation, in seconds.
        plan: The new plan; None: the active plan stays.
        shares: What patterns keep from now on, by type.
        reason: Why, with the numbers that it was decided by.
        health: The status of each node, and what can be done.
        busy_limits: The limit of each node that has one, in busy seconds per second.
        sinks: Complex events per second at each sink, as the active plan predicts.
        attempted: Whether the solver was asked.
        seconds: How long that took; 0 if the solver was not asked or found no plan.
        loads: Busy time over the limit of each node that has one, before the decision.
        links: What goes over each link over its capacity, likewise.
    """

    time: float
    plan: Plan | None
    shares: Shares
    reason: str
    health: Mapping[str, NodeHealth]
    busy_limits: Mapping[str, float] = field(default_factory=dict)
    sinks: Mapping[str, float] = field(default_factory=dict)
    attempted: bool = False
    seconds: float = 0.0
    loads: Mapping[str, float] = field(default_factory=dict)
    links: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The outcome of asking the solver: a plan, or a remark why there is none."""

    plan: Plan | None
    remark: str
    failure: PlanFailure | None = None
    seconds: float = 0.0


def decide(
    memory: Memory,
    observation: Observation,
    *,
    clock: Clock | None = None,
    forced_reason: str = "",
) -> tuple[Memory, Decision]:
    """Replan if there is a reason to.

    Args:
        memory: What is remembered; at first `Memory(application=...)`.
        observation: The latest.
        clock: Says how long planning takes; None: that of `make_plan`.
        forced_reason: Why to replan whatever was observed, such as a bound that was changed.
    """
    observation = remember_times(observation, memory.latest)
    memory = replace(memory, latest=observation)
    try:
        model = _build_model(memory, observation)
    except SnapshotError as error:
        return memory, _decision(memory, observation, f"no plan can be made yet: {error}")
    nodes, specs = memory.application.nodes, memory.application.operators.values()
    bounded = [spec.name for spec in specs if nodes[spec.node].bound is not None]
    smoothed = smooth(memory.smoothed, observation, memory.settings.smoothing, bounded)
    yields = update_yields(memory.yields, observation, model, memory.settings.calibration)
    factors = {stream: estimate.factor for stream, estimate in yields.items()}
    model = apply_calibration(model, factors)
    strata = update_strata(memory.strata, observation, model, memory.settings.strata)
    memory = replace(memory, smoothed=smoothed, yields=yields, strata=strata)
    plan_settings = _plan_settings(memory, observation)
    assessment = assess(observation, model, plan_settings.target, memory.shares, factors)
    history = replace(memory.history, since=memory.history.since + 1)
    trigger = find_replan_trigger(memory.settings.policy, assessment, history)
    memory = replace(memory, history=replace(history, lasting=trigger.lasting))
    raised = _with_feedback(memory, observation, assessment)
    settled = _settled_reason(memory) or _strata_reason(memory)
    settled = describe_feedback(memory.feedback, raised.feedback) or settled
    memory = raised
    forced_reason = forced_reason or ("" if trigger.replan else settled)
    if trigger.replan or forced_reason:
        reason = forced_reason or trigger.reason
        return _replan(memory, observation, assessment, reason, clock)
    memory = _with_health(memory, assessment)
    reason = _reason_not_to_replan(memory, trigger)
    return memory, _decision(memory, observation, reason, assessment)


def _reason_not_to_replan(memory: Memory, trigger: ReplanTrigger) -> str:
    """Say why there is no new plan; that all is well only if it is."""
    failure = memory.failure
    if trigger.reason != WITHIN_LIMITS or failure is None or not failure.is_infeasible:
        return trigger.reason
    return f"no plan: {failure.problem}"


def _settled_reason(memory: Memory) -> str:
    """Say that a plan was made from few observations and there are enough now; else nothing."""
    averaged, number = memory.history.averaged, memory.smoothed.number
    is_early = averaged < memory.settings.smoothing.settled <= min(number, memory.history.since)
    if not (is_early and streams_that_shed(memory.shares)):
        return ""
    return (
        f"the load has been steady for {number} observations, and the plan was made from only "
        f"{averaged}"
    )


def _strata_reason(memory: Memory) -> str:
    """Say why strata of keys ask for another plan; empty if they do not."""
    since, settings = memory.history.since, memory.settings.strata
    return find_strata_reason(memory.strata, memory.shares, since, settings)


def _with_feedback(
    memory: Memory, observation: Observation, assessment: LoadAssessment
) -> Memory:
    """Raise what is planned for nodes that shed in strata and are less busy than they may."""
    operators = memory.application.operators
    nodes = {operators[name].node for name in observation.strata}
    feedback = {
        name: update_feedback(
            memory.feedback.get(name),
            observation.busy.get(name, 0.0) / node.busy_limit if node.busy_limit else 1.0,
            memory.settings.feedback,
            aim=memory.settings.plan_settings.target.aim,
            sheds=node.sheds,
        )
        for name, node in assessment.nodes.items()
        if name in nodes
    }
    return replace(memory, feedback=feedback)


def _replan(
    memory: Memory,
    observation: Observation,
    current: LoadAssessment,
    reason: str,
    clock: Clock | None,
) -> tuple[Memory, Decision]:
    """Plan for the average of the latest observations, of which `current` is the last."""
    plan_settings, factors = _plan_settings(memory, observation), memory.factors
    mean = memory.smoothed.mean or observation
    model = apply_calibration(_build_model(memory, mean), factors)
    assessment = assess(mean, model, plan_settings.target, memory.shares, factors)
    attempt = _attempt(
        memory, without_infeasible_bounds(model, assessment), plan_settings, clock
    )
    planned, shares = assessment.baseline, memory.shares
    if attempt.plan is not None:
        planned_shares = shares_by_label(model, attempt.plan.keep, attempt.plan.strata)
        shares = {**shares, **planned_shares}
        # how busy and how slow a node was says nothing about what the new plan makes of it
        expected = replace(observation, busy={}, latency={})
        assessment = assess(expected, model, plan_settings.target, shares, factors)
    current = replace(current, sinks=assessment.sinks)
    history = replace(
        memory.history,
        planned=planned,
        averaged=memory.smoothed.number,
        since=0,
        expected={
            name: each.load for name, each in {**assessment.nodes, **assessment.links}.items()
        },
    )
    memory = replace(memory, shares=shares, history=history, failure=attempt.failure)
    memory, reason = _with_health(memory, assessment), f"{reason}; {attempt.remark}"
    return memory, _decision(memory, observation, reason, current, attempt)


def _build_model(memory: Memory, observation: Observation) -> Model:
    """Build the model of an observation, with what feedback adds to limits."""
    model = build_model(memory.application, planning_snapshot(memory, observation))
    if not memory.feedback:
        return model
    boosts = {name: each.factor for name, each in memory.feedback.items()}
    nodes = {n: replace(node, boost=boosts.get(n, 1.0)) for n, node in model.nodes.items()}
    return replace(model, nodes=nodes)


def planning_snapshot(memory: Memory, observation: Observation) -> Snapshot:
    """Make a snapshot; what patterns emit that shed by plan or by pressure is modelled."""
    pressed = shed_patterns(observation, memory.application)
    shed = streams_that_shed(memory.shares) | pressed
    strata = strata_rates(memory.strata)
    return snapshot_of(observation, memory.application, memory.factors, shed, strata)


def _plan_settings(memory: Memory, observation: Observation) -> PlanSettings:
    plan_settings = memory.settings.plan_settings
    target = replace(plan_settings.target, horizon=HORIZON_INTERVALS * observation.interval)
    return replace(plan_settings, target=target)


def without_infeasible_bounds(model: Model, assessment: LoadAssessment) -> Model:
    """Leave out the bounds that cannot be kept, so that the other nodes have their plan."""
    nodes = {
        name: replace(node, bound=None) if name in assessment.infeasible else node
        for name, node in model.nodes.items()
    }
    return replace(model, nodes=nodes)


def try_plan(
    model: Model,
    plan_settings: PlanSettings,
    shares: Shares,
    **options: Any,  # noqa: ANN401  # of `make_plan`
) -> Plan | PlanFailure:
    """Plan if that is better than the active shares; if no plan can be made, say why."""
    try:
        incumbent = keep_arrays(model, shares) or None
        if not has_planned_strata(model, shares):
            incumbent = None
        return make_plan(model, plan_settings, incumbent=incumbent, **options)
    except PlanError as error:
        return PlanFailure(str(error), isinstance(error, InfeasibleError))


def _attempt(
    memory: Memory, model: Model, plan_settings: PlanSettings, clock: Clock | None
) -> _Attempt:
    options: dict[str, Any] = {} if clock is None else {"clock": clock}
    history = rate_history_of(memory.smoothed)
    known = memory.latest.key_histories if memory.latest else {}
    if known:
        options["key_histories"] = known
    plan = try_plan(model, plan_settings, memory.shares, history=history, **options)
    if isinstance(plan, PlanFailure):
        return _Attempt(None, f"no plan: {plan.problem}", plan)
    if plan.keeps_incumbent:
        least = f"{100 * KEEP_INCUMBENT_RATIO:.0f} %"
        remark = f"the active plan stays, for it brings at least {least} of the best one"
        return _Attempt(None, remark, seconds=plan.seconds)
    if not plan.nodes and not streams_that_shed(memory.shares):
        remark = "everything fits, so nothing is shed"
        return _Attempt(None, remark, seconds=plan.seconds)
    what = f"sheds at {', '.join(plan.nodes)}" if plan.nodes else "keeps everything"
    parts = (f"the new plan {what}", list_watchers(plan.watchers), list_trials(plan.trials))
    remark = "; ".join(filter(None, parts))
    return _Attempt(plan, remark, seconds=plan.seconds)


def _with_health(memory: Memory, assessment: LoadAssessment) -> Memory:
    health = node_health(memory.application, assessment, memory.failure)
    return replace(memory, health=health)


def _decision(
    memory: Memory,
    observation: Observation,
    reason: str,
    assessment: LoadAssessment | None = None,
    attempt: _Attempt | None = None,
) -> Decision:
    """Put a decision together; the assessment is that before it."""
    nodes = assessment.nodes if assessment else {}
    return Decision(
        time=observation.time,
        plan=attempt.plan if attempt else None,
        shares=memory.shares,
        reason=reason,
        health=memory.health,
        busy_limits={name: node.busy_limit for name, node in nodes.items()},
        sinks=assessment.sinks if assessment else {},
        attempted=attempt is not None,
        seconds=attempt.seconds if attempt else 0.0,
        loads={name: node.load for name, node in nodes.items()},
        links={n: link.load for n, link in assessment.links.items()} if assessment else {},
    )
