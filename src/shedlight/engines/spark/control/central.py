"""The controller apart from its nodes: reports in, plans out.

It knows of a node what was last reported, and decides every two seconds by what it knows of all
that report and are not idle. A plan has the epoch of the controller and a number, one more than
that of the plan before, whoever made it.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from shedlight.control.averages import Averages
from shedlight.control.controller import ControlSettings, Decision, Memory, decide
from shedlight.control.monitor import observation_of
from shedlight.control.override import current_values
from shedlight.engines.spark.control.loop import micro_batch_settings
from shedlight.engines.spark.control.loop_settings import INTERVAL, SETTLED_INTERVAL
from shedlight.engines.spark.control.messages import NodeReport, PlanMessage
from shedlight.engines.spark.control.override_store import (
    OverrideOutcome,
    OverrideWatcher,
    next_override,
)
from shedlight.engines.spark.support.tolerance import FailureLog
from shedlight.graph import Application

_LOG = logging.getLogger(__name__)

LOST_S = 15.0
"""After how many seconds without a word of a node it is planned for without it."""
ALIVE_S = 2.0  # how often the controller says that it lives


class PlanLink(Protocol):
    """The way between the controller and its nodes."""

    def publish(self, plan: PlanMessage) -> None:
        """Send a plan to all nodes, or without shares that the controller lives."""

    def poll(self) -> list[NodeReport]:
        """Give the reports that have come."""


@dataclass(frozen=True, slots=True)
class _KnownNode:
    """What is known of a node."""

    report: NodeReport  # the last
    reported: float  # when that was, in seconds by the steady clock
    values: Averages = field(default_factory=dict)  # all that was reported


@dataclass(frozen=True, slots=True)
class ControllerListener:
    """Callbacks for decisions, overrides, and reports of nodes."""

    on_decision: Callable[[Decision], None] = lambda _: None
    on_override: Callable[[OverrideOutcome], None] = lambda _: None
    on_report: Callable[[NodeReport], None] = lambda _: None


class CentralController:
    """Decides for nodes that are elsewhere.

    It begins with the last plan of the controller before, in an epoch of its own. Its `memory`
    is what the controller remembers.
    """

    def __init__(
        self,
        application: Application,
        link: PlanLink,
        last: PlanMessage,
        listener: ControllerListener,
        overrides: OverrideWatcher,
        settings: ControlSettings | None = None,
    ) -> None:
        self._application, self._link, self._listener = application, link, listener
        self._overrides = overrides
        self.memory = Memory(
            application=application,
            settings=settings or micro_batch_settings(),
            shares=last.shares,
        )
        self.last = replace(last, epoch=last.epoch + 1)
        self._known: dict[str, _KnownNode] = {}
        self._lost: set[str] = set()
        self._last_decision = self._last_settled = self._last_word = float("-inf")
        self._forced_reason, self._failures = "", FailureLog()
        self._bounded = [n for n, node in application.nodes.items() if node.bound is not None]

    def tick(self, now: float, steady: float) -> Decision | None:
        """Take what has come, and decide if it is time.

        Now is in seconds since 1970; what waits goes by the steady clock.
        """
        self._poll_overrides(now)
        for report in self._link.poll():
            self._take(report, steady)
        decision = None
        if steady - self._last_decision >= INTERVAL:
            self._last_decision = steady
            memory = self.memory
            with self._failures.tolerate("the controller", "the active plan stays"):
                decision = self._decide(now, steady)
            if decision is None:
                self.memory = memory
            else:
                self._publish(decision, steady)
        if steady - self._last_word >= ALIVE_S:
            self._say_alive(steady)
        return decision

    def _take(self, report: NodeReport, steady: float) -> None:
        before = self._known.get(report.node)
        if report.node not in self._application.nodes:
            return
        if before is not None and before.report.boot == report.boot:
            if report.number <= before.report.number:
                return  # it was overtaken
            known = {} if report.is_whole else before.values
        elif report.is_whole or not report.values:
            known = {}
        else:
            return  # what came before went to another controller
        self._known[report.node] = _KnownNode(report, steady, {**known, **report.values})
        self._lost.discard(report.node)
        self._listener.on_report(report)
        if report.has_settled and steady - self._last_settled >= SETTLED_INTERVAL:
            self._last_settled = steady
            self._forced_reason = self._forced_reason or (
                f"the load of {report.node} is steady again; the plan was made while it changed"
            )

    def _decide(self, now: float, steady: float) -> Decision | None:
        live = {}
        for name, known in self._known.items():
            if steady - known.reported > LOST_S:
                if name not in self._lost:
                    _LOG.warning(
                        "node %s has not reported for %g s; plans are made without it, and it "
                        "keeps the one that it has",
                        name,
                        LOST_S,
                    )
                    self._lost.add(name)
            elif known.values and not known.report.is_idle:
                live[name] = known
        if not any(name in live for name in self._bounded):
            return None
        values = {key: value for known in live.values() for key, value in known.values.items()}
        interval = max(known.report.interval for known in live.values())
        observation = observation_of(values, now, interval)
        self.memory, decision = decide(
            self.memory, observation, forced_reason=self._forced_reason
        )
        if decision.attempted:
            self._forced_reason = ""
        infeasible = tuple(
            name for name, health in decision.health.items() if health.is_bound_infeasible
        )
        self.last = replace(self.last, infeasible=infeasible, bounds=self._bounds())
        return decision

    def _publish(self, decision: Decision, steady: float) -> None:
        if decision.plan is not None:
            self.last = replace(
                self.last,
                number=self.last.number + 1,
                shares=decision.shares,
                work=self._work_ratios(decision),
            )
            self._link.publish(self.last)
            self._last_word = steady
        self._listener.on_decision(decision)

    def _bounds(self) -> Mapping[str, float]:
        return current_values(self.memory.application).bounds

    def _work_ratios(self, decision: Decision) -> Mapping[str, float]:
        """Say by which factor a new plan changes the work of an event at each node."""
        expected = self.memory.history.expected
        return {
            name: expected.get(name, load) / load
            for name, load in decision.loads.items()
            if load > 0
        }

    def _poll_overrides(self, now: float) -> None:
        taken = next_override(self._overrides, self._application, now)
        if taken is None:
            return
        if taken.application is not None and taken.application != self.memory.application:
            self.memory = replace(self.memory, application=taken.application)
            self._forced_reason = taken.reason
            self.last = replace(self.last, bounds=self._bounds())
            self._last_word = float("-inf")
        self._listener.on_override(taken.outcome)

    def _say_alive(self, steady: float) -> None:
        """Say that the controller lives, with what else holds besides the plan."""
        self._last_word = steady
        alive = replace(self.last, number=0, shares={}, work={}, bounds=self._bounds())
        self._link.publish(alive)
