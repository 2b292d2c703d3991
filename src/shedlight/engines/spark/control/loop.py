"""The control loop on Spark: micro-batches in, plans and pressure out.

After every micro-batch of a node with a bound its pressure is set anew. When every such node
has had one or is idle, and enough time has passed, the controller decides, and a new plan is
activated at all nodes that it changes. Each is used by the next micro-batch that begins. An
idle node has no load: the others are planned as if nothing arrived there, until it has events.

An override of bounds or weights is applied when it is found, and planned for at the next
decision, whatever was observed.

What fails here does not end the run, unless the checkpoint is damaged: it is logged, the active
plan stays, and the next observation tries again.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import inf

from shedlight.control.controller import ControlSettings, Decision, Memory, decide
from shedlight.control.node_status import NodeHealth, NodeStatus
from shedlight.control.observation import Observation
from shedlight.control.replan_trigger import DEFAULT_POLICY
from shedlight.engines.spark.control.activity import LoopTiming, NodeActivity
from shedlight.engines.spark.control.latest_times import with_latest
from shedlight.engines.spark.control.loop_settings import (
    INTERVAL,
    JUMP_INTERVAL,
    SETTLED_INTERVAL,
)
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.node_state import NodeState
from shedlight.engines.spark.control.observe import ObservationWindow, observation_of
from shedlight.engines.spark.control.override_store import (
    OverrideOutcome,
    OverrideWatcher,
    next_override,
)
from shedlight.engines.spark.control.strata_tracker import KeyTracker
from shedlight.engines.spark.shed.keep_sql import PlannedNode
from shedlight.engines.spark.support.plan_store import ActivePlan
from shedlight.engines.spark.support.tolerance import FailureLog
from shedlight.graph import Application, Node, Stream
from shedlight.model.latency import LatencyModel, Target
from shedlight.planning.plan import PlanSettings
from shedlight.shedding.shares import sheddable_by_pressure

_LOG = logging.getLogger(__name__)

_PLAN_STAYS = "the active plan stays, and the next observation tries again"


def micro_batch_settings() -> ControlSettings:
    """Give the settings of the controller for micro-batches: each has thousands of events."""
    plan_settings = PlanSettings(target=Target(latency=LatencyModel.MICRO_BATCH))
    return ControlSettings(
        policy=replace(DEFAULT_POLICY, persistence=1), plan_settings=plan_settings
    )


class ControlLoop:
    """Controls the nodes of an application by their micro-batches.

    Without settings they are those for micro-batches. Callbacks are given every decision and
    every override, applied or rejected. Its `memory` is what the controller remembers. Without
    timing, time is what micro-batches say; without `strata` all keys are alike.
    """

    def __init__(  # noqa: PLR0913  # as many as there are choices
        self,
        application: Application,
        nodes: Mapping[str, PlannedNode],
        settings: ControlSettings | None = None,
        *,
        on_decision: Callable[[Decision], None] | None = None,
        overrides: OverrideWatcher | None = None,
        on_override: Callable[[OverrideOutcome], None] | None = None,
        timing: LoopTiming | None = None,
        strata: KeyTracker | None = None,
    ) -> None:
        self._strata = strata
        self._application, self._on_decision = application, on_decision
        self._overrides, self._on_override, self._forced_reason = overrides, on_override, ""
        self._timing = timing or LoopTiming(clock=None)
        self.memory = Memory(
            application=application, settings=settings or micro_batch_settings()
        )
        self._nodes = {
            name: NodeState(
                node, node.plans.active or ActivePlan(1), NodeActivity(self._timing.trigger)
            )
            for name, node in nodes.items()
        }
        self._bounded = [name for name in nodes if application.nodes[name].bound is not None]
        self._awaited = self._bounded  # the nodes without which nothing is decided
        self._last_decision: float | None = None
        self._last_settled, self._failures = -inf, FailureLog()
        self.is_held = False  # whether bounds do not count yet

    def start(self, now: float) -> None:
        """Say when the run begins, in seconds since 1970: what was there arrives then."""
        for node in self._nodes.values():
            node.window_start = now
            node.activity.start(self._timing.now(now))
        self.poll_overrides(now)

    def hold(self) -> None:
        """Have nodes keep everything, and decide nothing, until it is released."""
        self.is_held = True
        shares = sheddable_by_pressure(self._application)
        for name in self._bounded:
            number = self._nodes[name].planned.publish(shares)
            self._activate(name, replace(self._nodes[name].active, plan=number, pressure=1.0))

    def release(self, now: float) -> None:
        """Have bounds count from now on, in seconds since 1970."""
        self.is_held = False
        for node in self._nodes.values():
            node.begin_window(now)

    def poll_overrides(self, now: float) -> None:
        """Apply an override, if there is a new one; it is planned for at the next decision.

        One that cannot be read or applied is reported, and changes nothing.
        """
        if self._overrides is None:
            return
        taken = next_override(self._overrides, self._application, now)
        if taken is None:
            return
        if taken.application is not None and taken.application != self.memory.application:
            self.memory = replace(self.memory, application=taken.application)
            self._forced_reason = taken.reason
        if self._on_override is not None:
            self._on_override(taken.outcome)
        elif taken.outcome.rejected:
            _LOG.warning("an override was rejected: %s", taken.outcome.rejected)

    def on_micro_batch(self, batch: MicroBatchReport) -> Decision | None:
        """Take a micro-batch; give the decision, if there was one to make."""
        node = self._nodes[batch.node]
        batch = self._follow_keys(batch)
        node.add(batch)
        if self.is_held:
            self._publish_pressure(batch, 1.0)
            return None
        if batch.events == 0:  # it was about watermarks, or there is nothing to do
            self._publish_pressure(batch, node.active.pressure)
            return None
        now = self._timing.now(batch.end)
        node.activity.on_events(now, batch.seconds)
        pressure = node.active.pressure
        if batch.node in self._bounded:
            where = f"reckoning the pressure of node {batch.node}"
            with self._failures.tolerate(where, "it stays as it is until the next micro-batch"):
                pressure = node.update_pressure(batch, self._spec(batch.node))
        self._publish_pressure(batch, pressure)
        return self._decide(batch.end, now)

    def _follow_keys(self, batch: MicroBatchReport) -> MicroBatchReport:
        """Learn of keys that are shed in strata; give a micro-batch with counts of them."""
        if self._strata is None:
            return batch
        name, node = batch.node, self._nodes[batch.node]
        with self._failures.tolerate(f"following the keys of node {name}", _PLAN_STAYS):
            batch = self._strata.add(batch)
            self.adopt(name, self._strata.update_plan(name, node.active, batch))
        return batch

    def _spec(self, name: str) -> Node:
        """Give what is asked of a node, by overrides too."""
        return self.memory.application.nodes[name]

    def _publish_pressure(self, batch: MicroBatchReport, pressure: float) -> None:
        """Put pressure on a node, and record after which micro-batch this was decided."""
        is_bounded, active = batch.node in self._bounded, self._nodes[batch.node].active
        plan = with_latest(active, self._application, batch)
        where = f"writing the pressure of node {batch.node}"
        with self._failures.tolerate(where, "the last one stays; it is tried again"):
            self._activate(batch.node, replace(plan, pressure=pressure, awaited=is_bounded))

    def adopt(self, name: str, active: ActivePlan) -> None:
        """Take over what was activated at a node besides its plan and its pressure."""
        self._nodes[name].active = active

    def _activate(self, name: str, active: ActivePlan) -> None:
        self._nodes[name].planned.plans.activate(active)
        self._nodes[name].active = active

    def _decide(self, time: float, now: float) -> Decision | None:
        """Have the controller decide, if it is due; the time is in seconds since 1970."""
        nodes = [self._nodes[name] for name in self._awaited]
        has_moved = any(node.has_jumped or node.has_settled for node in nodes)
        interval = JUMP_INTERVAL if has_moved else INTERVAL
        is_due = self._last_decision is None or now - self._last_decision >= interval
        if not is_due or not any(node.new_batches for node in nodes):
            return None
        idle = {name for name in self._nodes if self._is_idle(name, now)}
        if any(not self._nodes[n].new_batches and n not in idle for n in self._awaited):
            return None
        windows = {
            name: node.window(self._spec(name))
            for name, node in self._nodes.items()
            if node.batches and name not in idle
        }
        self._replan_if_settled(now)
        decision, memory = None, self.memory
        with self._failures.tolerate("the controller", _PLAN_STAYS):
            decision = self._make_decision(windows, time)
        if decision is None:
            self.memory = memory  # as if there had been no observation
        if self._strata is not None and decision is not None:
            self._strata.renew()
        for name, window in windows.items():
            self._nodes[name].on_observed(window)
        self._last_decision = now
        if decision is not None and self._on_decision is not None:
            self._on_decision(decision)
        return decision

    def _make_decision(
        self, windows: Mapping[str, ObservationWindow], time: float
    ) -> Decision | None:
        """Have the controller decide, and activate what it planned."""
        histories = None if self._strata is None else self._strata.histories
        observation = observation_of(windows, time, histories)
        observation = self._with_pressed_backlog(observation)
        self.memory, decision = decide(
            self.memory, observation, forced_reason=self._forced_reason
        )
        for name in self._bounded:
            health = decision.health.get(name, NodeHealth(NodeStatus.OK))
            self._nodes[name].is_infeasible = health.is_bound_infeasible
        if decision.plan is not None:
            self._activate_plan(decision)
        if decision.attempted:
            self._forced_reason = ""
        return decision

    def _replan_if_settled(self, now: float) -> None:
        """Have a plan made whatever was observed, if the last one was made in a jump."""
        settled = [name for name in self._bounded if self._nodes[name].has_settled]
        is_due = now - self._last_settled >= SETTLED_INTERVAL
        if settled and is_due and not self._forced_reason:
            self._last_settled = now
            self._forced_reason = (
                f"the load of {', '.join(settled)} is steady again; the plan was made while it "
                "changed"
            )

    def _with_pressed_backlog(self, observation: Observation) -> Observation:
        """Give the backlogs that are left under pressure.

        All that waits is in the next micro-batch, and pressure has that take no longer than the
        bound allows. A plan that worked off the same would shed it twice.
        """
        bounds = {name: self._spec(name).bound for name in self._bounded}
        pressed = {
            name: min(seconds, bounds.get(name) or seconds)
            for name, seconds in observation.backlog.items()
            if name not in self._nodes or not self._nodes[name].is_infeasible
        }
        return replace(observation, backlog={**observation.backlog, **pressed})

    def _is_idle(self, name: str, now: float) -> bool:
        """Say whether a node has had no events since the last observation, and for long."""
        node = self._nodes[name]
        is_busy = partial(self._timing.is_busy, name)
        return not node.new_batches and node.activity.is_idle(now, is_busy)

    def _activate_plan(self, decision: Decision) -> None:
        shares = {**sheddable_by_pressure(self._application), **decision.shares}
        for name in self._bounded:
            if any(self._is_at(stream, name) for stream in decision.shares):
                node = self._nodes[name]
                number = node.planned.publish(shares)
                node.work *= self._work_ratio(name, decision)
                pressure = node.pressure(self._spec(name))
                self._activate(name, replace(node.active, plan=number, pressure=pressure))

    def _work_ratio(self, name: str, decision: Decision) -> float:
        """Say by which factor a new plan changes the work of an event."""
        before = decision.loads.get(name, 0.0)
        return self.memory.history.expected.get(name, before) / before if before > 0 else 1.0

    def _is_at(self, stream: Stream, node: str) -> bool:
        return self._application.operators[str(stream.operator)].node == node
