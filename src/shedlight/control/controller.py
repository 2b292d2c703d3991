"""The controller: from an observation to a plan, or to none, and why.

`decide` is pure: what it remembers goes in and comes out as a value, and whoever runs the loop
puts plans in force. If the loop dies, the last plan stays in force, for nothing takes it back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from shedlight.control.assessment import (
    LoadAssessment,
    PlanBaseline,
    assess,
    keep_arrays,
    streams_that_shed,
)
from shedlight.control.calibration import (
    CalibrationSettings,
    Factors,
    Yields,
    apply_calibration,
    factors_of,
    update_yields,
)
from shedlight.control.node_status import NodeHealth, PlanFailure, node_health
from shedlight.control.observation import (
    Observation,
    Times,
    remembered,
    shed_patterns,
    snapshot_of,
    with_times,
)
from shedlight.control.replan_trigger import (
    DEFAULT_POLICY,
    WELL,
    ControlHistory,
    ReplanPolicy,
    ReplanTrigger,
    find_replan_trigger,
)
from shedlight.control.smoothing import (
    SmoothedObservation,
    SmoothingSettings,
    course_of,
    smooth,
)
from shedlight.errors import PlanError, SnapshotError
from shedlight.graph.application import Application
from shedlight.model.build import build_model
from shedlight.model.model import Model
from shedlight.model.snapshot import Snapshot
from shedlight.planning.infeasible import InfeasibleError
from shedlight.planning.plan import Plan, PlanSettings, make_plan
from shedlight.shedding.shares import Shares, shares_by_label

_HORIZON = 2
"""In how many intervals a backlog is to be worked off."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """How to control.

    Attributes:
        rule: When to replan.
        wanted: How to plan; the horizon is two intervals, whatever it says there.
        learning: How calibration factors are learned.
        smoothing: How observations are averaged that plans are made from.
    """

    rule: ReplanPolicy = DEFAULT_POLICY
    wanted: PlanSettings = field(default_factory=PlanSettings)
    learning: CalibrationSettings = field(default_factory=CalibrationSettings)
    smoothing: SmoothingSettings = field(default_factory=SmoothingSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the controller remembers.

    Attributes:
        application: What it controls.
        settings: How.
        shares: What patterns keep, by the plan in force; empty: everything.
        planned: What was last planned for, whether or not a new plan came of it.
        since: How many observations ago that was.
        lasting: For how many observations each node was a cause to replan, but for patience.
        yields: What patterns bring, measured and modelled.
        times: How long patterns took when they last processed anything, and its second moment:
            a pattern that is shed altogether cannot be measured.
        recent: The average of the latest observations.
        based: Of how many observations the average was that was last planned for.
        expected: The load of each node that the plan in force was to bring.
        refusal: Why the last attempt brought no plan, if it did not.
        states: How the nodes were.
    """

    application: Application
    settings: ControlSettings = field(default_factory=ControlSettings)
    shares: Shares = field(default_factory=dict)
    planned: PlanBaseline | None = None
    since: int = 0
    lasting: Mapping[str, int] = field(default_factory=dict)
    yields: Yields = field(default_factory=dict)
    times: Times = field(default_factory=dict)
    recent: SmoothedObservation = field(default_factory=SmoothedObservation)
    based: int = 0
    expected: Mapping[str, float] = field(default_factory=dict)
    refusal: PlanFailure | None = None
    states: Mapping[str, NodeHealth] = field(default_factory=dict)

    @property
    def factors(self) -> Factors:
        """What patterns yield: matches as measured over matches as modelled."""
        return factors_of(self.yields)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """What happened at an observation.

    Attributes:
        time: Of the observation, in seconds.
        reason: Why there was a plan, or why not.
        attempted: Whether the solver was asked.
        replanned: Whether a new plan came of it.
        seconds: How long that took; 0 if the solver was not asked or refused.
        objective: What the new plan brings at the sinks; None if there is none.
        nodes: The nodes that it plans.
        loads: Busy time over the limit of each node that has one, before the decision.
        states: How the nodes are.
    """

    time: float
    reason: str
    attempted: bool = False
    replanned: bool = False
    seconds: float = 0.0
    objective: float | None = None
    nodes: tuple[str, ...] = ()
    loads: Mapping[str, float] = field(default_factory=dict)
    states: Mapping[str, NodeHealth] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decision:
    """What to do about an observation, and why, for the log and the page.

    Attributes:
        plan: The new plan; None: the plan in force stays.
        shares: What patterns keep from now on, by type.
        reason: In words.
        states: How each node is, and what can be done.
        busy_limits: The limit of each node that has one, in busy seconds per second.
        sinks: Complex events per second at each sink, as the plan in force says.
        entry: For the log.
    """

    plan: Plan | None
    shares: Shares
    reason: str
    states: Mapping[str, NodeHealth]
    busy_limits: Mapping[str, float] = field(default_factory=dict)
    sinks: Mapping[str, float] = field(default_factory=dict)
    entry: LogEntry


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What came of asking the solver: a plan, or a remark why there is none."""

    plan: Plan | None
    remark: str
    refusal: PlanFailure | None = None
    seconds: float = 0.0


def decide(
    memory: Memory,
    observation: Observation,
    *,
    clock: Clock | None = None,
    because: str = "",
) -> tuple[Memory, Decision]:
    """Replan if there is a cause.

    Args:
        memory: What is remembered; at first `Memory(application=...)`.
        observation: The latest.
        clock: Says how long planning takes; None: that of `make_plan`.
        because: Why to replan whatever was observed, such as a bound that is another now.
    """
    times = remembered(memory.times, observation)
    memory, observation = replace(memory, times=times), with_times(observation, times)
    try:
        model = build_model(memory.application, _snapshot(memory, observation))
    except SnapshotError as error:
        return memory, _decision(memory, observation, f"cannot plan yet: {error}")
    nodes, specs = memory.application.nodes, memory.application.operators.values()
    bounded = [spec.name for spec in specs if nodes[spec.node].bound is not None]
    recent = smooth(memory.recent, observation, memory.settings.smoothing, bounded)
    memory = replace(memory, recent=recent)
    yields = update_yields(memory.yields, observation, model, memory.settings.learning)
    memory = replace(memory, yields=yields, since=memory.since + 1)
    factors = memory.factors
    model = apply_calibration(model, factors)
    wanted = _wanted(memory, observation)
    outlook = assess(observation, model, wanted.target, memory.shares, factors)
    before = ControlHistory(memory.planned, memory.since, memory.lasting, memory.expected)
    cause = find_replan_trigger(memory.settings.rule, outlook, before)
    memory = replace(memory, lasting=cause.lasting)
    if because or (not cause.replan and _is_settled(memory)):
        reason = because or f"{recent.number} observations were alike"
        cause = replace(cause, replan=True, reason=reason)
    if not cause.replan:
        memory = _with_states(memory, outlook)
        return memory, _decision(memory, observation, _at_rest(memory, cause), outlook)
    return _replanned(memory, observation, (model, outlook, cause.reason), clock)


def _at_rest(memory: Memory, cause: ReplanTrigger) -> str:
    """Say why there is no new plan; that all is well only if it is."""
    refusal = memory.refusal
    if cause.reason != WELL or refusal is None or not refusal.is_infeasible:
        return cause.reason
    return f"no plan: {refusal.problem}"


def _is_settled(memory: Memory) -> bool:
    """Whether the plan in force was made from few observations and there are enough now."""
    enough = memory.settings.smoothing.settled
    return memory.based < enough <= min(memory.recent.number, memory.since) and bool(
        streams_that_shed(memory.shares)
    )


def _replanned(
    memory: Memory,
    observation: Observation,
    found: tuple[Model, LoadAssessment, str],
    clock: Clock | None,
) -> tuple[Memory, Decision]:
    """Plan for what was observed of late.

    Args:
        memory: What is remembered.
        observation: The latest.
        found: The model of the observation, where it stands, and why to plan.
        clock: See `decide`.
    """
    model, now, cause = found
    wanted, factors = _wanted(memory, observation), memory.factors
    outlook, usual = now, memory.recent.mean
    if usual is not None:
        model = build_model(memory.application, _snapshot(memory, usual))
        model = apply_calibration(model, factors)
        outlook = assess(usual, model, wanted.target, memory.shares, factors)
    attempt = _attempt(memory, without_infeasible_bounds(model, outlook), wanted, clock)
    memory = replace(memory, planned=outlook.basis, since=0, refusal=attempt.refusal)
    memory = replace(memory, based=memory.recent.number)
    if attempt.plan is not None:
        shares = {**memory.shares, **shares_by_label(model, attempt.plan.keep)}
        memory = replace(memory, shares=shares)
        # how busy and how slow a node was says nothing about what the new plan makes of it
        expected = replace(observation, busy={}, latency={})
        outlook = assess(expected, model, wanted.target, shares, factors)
    now = replace(now, sinks=outlook.sinks)
    loads = {name: node.load for name, node in outlook.nodes.items()}
    memory = _with_states(replace(memory, expected=loads), outlook)
    return memory, _decision(memory, observation, f"{cause}; {attempt.remark}", now, attempt)


def planned_from(memory: Memory) -> Snapshot | None:
    """Give the snapshot that a plan would be made from now; None before any observation."""
    usual = memory.recent.mean
    return None if usual is None else _snapshot(memory, usual)


def _snapshot(memory: Memory, observation: Observation) -> Snapshot:
    """Make a snapshot; what patterns emit that shed by plan or by pressure is modelled."""
    pressed = shed_patterns(observation, memory.application)
    shed = streams_that_shed(memory.shares) | pressed
    return snapshot_of(observation, memory.application, memory.factors, shed)


def _wanted(memory: Memory, observation: Observation) -> PlanSettings:
    wanted = memory.settings.wanted
    target = replace(wanted.target, horizon=_HORIZON * observation.interval)
    return replace(wanted, target=target)


def without_infeasible_bounds(model: Model, outlook: LoadAssessment) -> Model:
    """Leave out the bounds that cannot be kept, so that the other nodes have their plan."""
    nodes = {
        name: replace(node, bound=None) if name in outlook.infeasible else node
        for name, node in model.nodes.items()
    }
    return replace(model, nodes=nodes)


def _attempt(
    memory: Memory, model: Model, wanted: PlanSettings, clock: Clock | None
) -> _Attempt:
    incumbent = keep_arrays(model, memory.shares) or None
    timed = {} if clock is None else {"clock": clock}
    try:
        course = course_of(memory.recent)
        plan = make_plan(model, wanted, incumbent=incumbent, history=course, **timed)
    except PlanError as error:
        problem = str(error)
        refusal = PlanFailure(problem, isinstance(error, InfeasibleError))
        return _Attempt(None, f"no plan: {problem}", refusal)
    if plan.keeps_incumbent:
        remark = "the plan in force stays, for another would bring hardly more"
        return _Attempt(None, remark, seconds=plan.seconds)
    if not plan.nodes and not streams_that_shed(memory.shares):
        remark = "everything fits, so nothing is shed"
        return _Attempt(None, remark, seconds=plan.seconds)
    what = f"sheds at {', '.join(plan.nodes)}" if plan.nodes else "keeps everything"
    return _Attempt(plan, f"the new plan {what}", seconds=plan.seconds)


def _with_states(memory: Memory, outlook: LoadAssessment) -> Memory:
    states = node_health(memory.application.nodes, outlook, memory.refusal)
    return replace(memory, states=states)


def _decision(
    memory: Memory,
    observation: Observation,
    reason: str,
    outlook: LoadAssessment | None = None,
    attempt: _Attempt | None = None,
) -> Decision:
    """Put a decision together; the outlook is that before it."""
    plan = attempt.plan if attempt else None
    nodes = outlook.nodes if outlook else {}
    entry = LogEntry(
        time=observation.time,
        reason=reason,
        attempted=attempt is not None,
        replanned=plan is not None,
        seconds=attempt.seconds if attempt else 0.0,
        objective=plan.objective if plan else None,
        nodes=plan.nodes if plan else (),
        loads={name: node.load for name, node in nodes.items()},
        states=memory.states,
    )
    return Decision(
        plan=plan,
        shares=memory.shares,
        reason=reason,
        states=memory.states,
        busy_limits={name: node.busy_limit for name, node in nodes.items()},
        sinks=outlook.sinks if outlook else {},
        entry=entry,
    )
