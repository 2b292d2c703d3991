"""The control loop on Spark: micro-batches in, plans and pressure out.

After every micro-batch of a node with a bound its pressure is set anew. When every such node
has had one and enough time has passed, the controller decides, and a new plan is activated at
all nodes that it changes. Each is used by the next micro-batch that begins.

An override of bounds or weights is applied when it is found, and planned for at the next
decision, whatever was observed.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from shedlight.control.controller import ControlSettings, Decision, Memory, decide
from shedlight.control.override import Override, apply_override, current_values
from shedlight.control.pressure import batch_pressure
from shedlight.control.replan_trigger import DEFAULT_POLICY
from shedlight.engines.spark.control import cost_fit
from shedlight.engines.spark.control.latest_times import with_latest
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.observe import ObservationWindow, observation_of
from shedlight.engines.spark.control.override_store import OverrideOutcome, OverrideWatcher
from shedlight.engines.spark.shed.keep_sql import PlannedNode
from shedlight.engines.spark.support.plan_store import ActivePlan
from shedlight.errors import ShedlightError
from shedlight.graph import Application, Stream
from shedlight.model.latency import LatencyModel, Target
from shedlight.model.spark_costs import DEFAULT_COSTS, Costs
from shedlight.planning.plan import PlanSettings
from shedlight.shedding.shares import sheddable_by_pressure

_LOG = logging.getLogger(__name__)

INTERVAL = 2.0
"""After how many seconds there is an observation, or after a micro-batch that is longer."""
_EARLY_BATCHES, _EARLY_COST_FACTOR = 4, 2.0
"""Before so many micro-batches an event is taken to cost so many times what it did: there are
few partial matches yet, and each makes it dearer."""
_WARMUP_BATCHES = 2
"""How many micro-batches say nothing about costs: kernels are loaded, workers started."""
_MIN_PRESSURE_FOR_COST_FIT = 0.01
"""Under more pressure than this what is kept says too little about what it costs."""


def micro_batch_settings() -> ControlSettings:
    """Give the settings of the controller for micro-batches: each has thousands of events."""
    plan_settings = PlanSettings(target=Target(latency=LatencyModel.MICRO_BATCH))
    return ControlSettings(
        policy=replace(DEFAULT_POLICY, persistence=1), plan_settings=plan_settings
    )


@dataclass(slots=True)
class _Node:
    """What the loop knows of a node."""

    planned: PlannedNode  # its operators and plans
    active: ActivePlan  # the active plan and the pressure
    batches: list[MicroBatchReport] = field(default_factory=list)  # the latest micro-batches
    batch_count: int = 0  # how many there were
    new_batches: int = 0  # how many there were since the last observation
    window_start: float | None = None  # when the newest event before those had arrived
    work: float = 0.0  # seconds of work for each event, before pressure
    unread: float = 0.0  # how many events waited to be read after the last micro-batch
    costs: Costs = DEFAULT_COSTS  # what a micro-batch costs


class ControlLoop:
    """Controls the nodes of an application by their micro-batches.

    Without settings they are those for micro-batches. Callbacks are given every decision and
    every override, applied or rejected. Its `memory` is what the controller remembers.
    """

    def __init__(
        self,
        application: Application,
        nodes: Mapping[str, PlannedNode],
        settings: ControlSettings | None = None,
        *,
        on_decision: Callable[[Decision], None] | None = None,
        overrides: OverrideWatcher | None = None,
        on_override: Callable[[OverrideOutcome], None] | None = None,
    ) -> None:
        self._application, self._on_decision = application, on_decision
        self._overrides, self._on_override, self._forced_reason = overrides, on_override, ""
        self.memory = Memory(
            application=application, settings=settings or micro_batch_settings()
        )
        self._nodes = {
            name: _Node(node, node.plans.active or ActivePlan(1))
            for name, node in nodes.items()
        }
        self._bounded = [name for name in nodes if application.nodes[name].bound is not None]
        self._last_decision: float | None = None

    def start(self, now: float) -> None:
        """Say when the run begins, in seconds since 1970: what was there arrives then."""
        for node in self._nodes.values():
            node.window_start = now
        self.poll_overrides(now)

    def poll_overrides(self, now: float) -> None:
        """Apply an override, if there is a new one; it is planned for at the next decision.

        One that cannot be read or applied is reported, and changes nothing.
        """
        if self._overrides is None:
            return
        try:
            override = self._overrides.new()
            if override is None:
                return
            application = apply_override(self._application, override)
        except ShedlightError as error:
            outcome = OverrideOutcome(now, Override(), str(error))
        else:
            if application != self.memory.application:
                self.memory = replace(self.memory, application=application)
                kinds = {name: node.percentile for name, node in application.nodes.items()}
                asked = override.describe(kinds) or "all is as in the file"
                self._forced_reason = f"as was asked for, {asked}"
            outcome = OverrideOutcome(now, current_values(application))
        if self._on_override is not None:
            self._on_override(outcome)
        elif outcome.rejected:
            _LOG.warning("an override was rejected: %s", outcome.rejected)

    def on_micro_batch(self, batch: MicroBatchReport) -> Decision | None:
        """Take a micro-batch; give the decision, if there was one to make."""
        node = self._nodes[batch.node]
        if batch.events == 0:  # it was about watermarks, or there is nothing to do
            self._publish_pressure(batch, node.active.pressure)
            return None
        node.batch_count += 1
        node.batches = [*node.batches, batch][-cost_fit.MAX_BATCHES :]
        node.new_batches = min(node.new_batches + 1, cost_fit.MAX_BATCHES)
        if batch.node in self._bounded:
            self._update_pressure(batch)
        return self._decide(batch.end)

    def _update_pressure(self, batch: MicroBatchReport) -> None:
        """Set the pressure of a node by the events that wait to be read."""
        node, window = self._nodes[batch.node], self._window(batch.node)
        node.costs = window.costs
        used = node.planned.plans.plan_for_batch(batch.number)
        if used.pressure > _MIN_PRESSURE_FOR_COST_FIT and batch.kept:
            spent = batch.matching + node.costs.carrying * batch.kept
            node.work = spent / batch.events / used.pressure
        node.unread = max(0.0, batch.end - window.newest) * window.rate
        self._publish_pressure(batch, self._pressure(batch.node))

    def _pressure(self, name: str) -> float:
        node = self._nodes[name]
        cost_factor = _EARLY_COST_FACTOR if node.batch_count < _EARLY_BATCHES else 1.0
        pressure = batch_pressure(
            node.unread,
            node.work * cost_factor,
            fixed=node.costs.fixed,
            reading=node.costs.reading,
            bound=self.memory.application.nodes[name].bound,
            percentile=self.memory.application.nodes[name].percentile,
        )
        return round(pressure, 4)

    def _publish_pressure(self, batch: MicroBatchReport, pressure: float) -> None:
        """Put pressure on a node, and record after which micro-batch this was decided."""
        if batch.node in self._bounded:
            active = self._nodes[batch.node].active
            plan = with_latest(active, self._application, batch)
            self._activate(batch.node, replace(plan, pressure=pressure))

    def adopt(self, name: str, active: ActivePlan) -> None:
        """Take over what was activated at a node besides its plan and its pressure."""
        self._nodes[name].active = active

    def _activate(self, name: str, active: ActivePlan) -> None:
        self._nodes[name].active = active
        self._nodes[name].planned.plans.activate(active)

    def _window(self, name: str) -> ObservationWindow:
        node = self._nodes[name]
        batches = tuple(node.batches[-max(node.new_batches, 1) :])
        start = node.window_start if node.window_start is not None else batches[0].start
        warmup = max(0, _WARMUP_BATCHES - node.batch_count + len(node.batches))
        return ObservationWindow(
            node=node.planned,
            batches=batches,
            window_start=start,
            costs=cost_fit.fit_costs(node.batches[warmup:]),
        )

    def _decide(self, now: float) -> Decision | None:
        """Have the controller decide, if it is time."""
        due = self._last_decision is None or now - self._last_decision >= INTERVAL
        all_ran = self._bounded and all(self._nodes[n].new_batches for n in self._bounded)
        if not due or not all_ran:
            return None
        windows = {
            name: self._window(name) for name, node in self._nodes.items() if node.batches
        }
        observation = observation_of(windows, now)
        self.memory, decision = decide(
            self.memory, observation, forced_reason=self._forced_reason
        )
        if decision.attempted:
            self._forced_reason = ""
        for name, window in windows.items():
            self._nodes[name].window_start, self._nodes[name].new_batches = window.newest, 0
        self._last_decision = now
        if decision.plan is not None:
            self._activate_plan(decision)
        if self._on_decision is not None:
            self._on_decision(decision)
        return decision

    def _activate_plan(self, decision: Decision) -> None:
        shares = {**sheddable_by_pressure(self._application), **decision.shares}
        for name in self._bounded:
            if any(self._is_at(stream, name) for stream in decision.shares):
                node = self._nodes[name]
                number = node.planned.publish(shares)
                node.work *= self._work_ratio(name, decision)
                pressure = self._pressure(name)
                self._activate(name, replace(node.active, plan=number, pressure=pressure))

    def _work_ratio(self, name: str, decision: Decision) -> float:
        """Say by which factor a new plan changes the work of an event."""
        before = decision.loads.get(name, 0.0)
        return self.memory.history.expected.get(name, before) / before if before > 0 else 1.0

    def _is_at(self, stream: Stream, node: str) -> bool:
        return self._application.operators[str(stream.operator)].node == node
