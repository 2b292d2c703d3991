"""The control loop of a node whose controller is elsewhere: observations out, plans in.

Pressure is its own. Who hears nothing keeps the plan and the pressure that there are. A plan is
taken only if its epoch and number are higher than those of the last one, in this run or before.

What has moved by more than 5 % since it was last reported is reported, and nothing else; now
and then that the node lives. A controller that is new gets everything.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Protocol

from shedlight.control.averages import Averages
from shedlight.control.controller import Decision
from shedlight.control.monitor import ReportingRule, find_moved, values_of
from shedlight.control.override import Override, apply_override
from shedlight.engines.spark.control.activity import LoopTiming
from shedlight.engines.spark.control.event_log import BatchRecorder
from shedlight.engines.spark.control.loop import ControlLoop
from shedlight.engines.spark.control.messages import NodeReport, PlanMessage
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.observe import ObservationWindow, observation_of
from shedlight.engines.spark.shed.keep_sql import PlannedNode
from shedlight.engines.spark.support.storage import StoredPath, replace_file
from shedlight.engines.spark.support.tolerance import UNREADABLE_PLAN
from shedlight.graph import Application
from shedlight.runlog.merge import add_batches
from shedlight.runlog.records import MicroBatchRecord
from shedlight.shedding.shares import sheddable_by_pressure

HEARTBEAT_S = 5.0  # how often a node says that it lives, at least


class ControllerLink(Protocol):
    """The way between a node and its controller."""

    def report(self, report: NodeReport) -> bool:
        """Send a report; False if one before it was lost."""

    def poll(self) -> list[PlanMessage]:
        """Give the plans that have come."""


class RemoteLoop(ControlLoop):
    """Controls the pressure of a node, and has plans made elsewhere.

    `taken` is the file with the epoch and number of the last plan.
    """

    def __init__(
        self,
        application: Application,
        node: str,
        planned: PlannedNode,
        link: ControllerLink,
        taken: StoredPath,
        *,
        timing: LoopTiming,
    ) -> None:
        super().__init__(application, {node: planned}, timing=timing)
        self._awaited = [node]
        self._node, self._link, self._taken = node, link, taken
        self._boot, self._number = uuid.uuid4().hex[:8], 0
        self._reported: Averages = {}
        self._last_report = self._last_batch = -HEARTBEAT_S
        self._interval = 1.0  # of the last observation, in seconds
        self._order = _read_order(taken)
        self._epoch = -1  # of the controller that got everything
        self._untaken: list[PlanMessage] = []  # what came and could not be taken yet
        self._recorder = BatchRecorder()
        self._batch: MicroBatchRecord | None = None  # what was not sent yet

    def start(self, now: float) -> None:
        """Say when the run begins, in seconds since 1970."""
        self._last_report = self._timing.now(now)
        super().start(now)

    def poll_overrides(self, now: float) -> None:
        """Take the plans that have come, and say from time to time that the node lives."""
        with self._failures.tolerate("asking for plans", "the plan and the pressure stay"):
            self._untaken = sorted(
                [*self._untaken, *self._link.poll()], key=attrgetter("order")
            )
            while self._untaken:
                self._take(self._untaken[0])
                del self._untaken[0]
        steady = self._timing.now(now)
        if steady - self._last_report >= HEARTBEAT_S:
            self._send(now, steady, is_idle=self._is_idle(self._node, steady))

    def _take(self, plan: PlanMessage) -> None:
        if plan.epoch < self._epoch:
            return  # of a controller that is no more
        if plan.epoch > self._epoch:  # it knows nothing of this node yet
            self._epoch, self._reported = plan.epoch, {}
        application = apply_override(self._application, Override(plan.bounds))
        self.memory = replace(self.memory, application=application)
        node = self._nodes[self._node]
        node.is_infeasible = self._node in plan.infeasible
        if not plan.number or plan.order <= self._order:
            return
        if self._bounded:
            shares = {**sheddable_by_pressure(self._application), **plan.shares}
            number = node.planned.publish(shares)
            node.work *= plan.work.get(self._node, 1.0)
            pressure = node.pressure(self._spec(self._node))
            self._activate(self._node, replace(node.active, plan=number, pressure=pressure))
        self._order = plan.order
        replace_file(self._taken, json.dumps(self._order))

    def on_micro_batch(self, batch: MicroBatchReport) -> Decision | None:
        """Take a micro-batch, and add it to what the controller gets for its log."""
        plan, pressure = None, None
        if self._bounded:
            plans = self._nodes[self._node].planned.plans
            with self._failures.tolerate(*UNREADABLE_PLAN):
                used = plans.plan_for_batch(batch.number)
                plan, pressure = used.plan, used.pressure
        record = self._recorder.record(batch, plan=plan, pressure=pressure)
        self._batch = add_batches(self._batch, record)
        return super().on_micro_batch(batch)

    def _make_decision(
        self, windows: Mapping[str, ObservationWindow], time: float
    ) -> Decision | None:
        """Report what was observed; what follows from it is decided elsewhere."""
        observed = self._with_pressed_backlog(observation_of(windows, time))
        self._interval = observed.interval
        self._send(time, self._timing.now(time), values_of(observed))
        return None

    def _replan_if_settled(self, now: float) -> None:
        """Leave it to the controller, who learns whether the load has settled."""

    def _send(
        self,
        time: float,
        steady: float,
        values: Averages | None = None,
        *,
        is_idle: bool = False,
    ) -> None:
        moved: Averages = {}
        if values is not None:
            moved = find_moved(self._reported, values, ReportingRule().threshold)
            if not moved and steady - self._last_report < HEARTBEAT_S:
                return
        batch = self._batch if steady - self._last_batch >= HEARTBEAT_S else None
        report = NodeReport(
            node=self._node,
            boot=self._boot,
            number=self._number,
            time=time,
            interval=self._interval,
            values=moved,
            is_whole=values is not None and not self._reported,
            is_idle=is_idle,
            has_settled=self._nodes[self._node].has_settled,
            batch=batch,
        )
        self._last_report, self._number = steady, self._number + 1
        with self._failures.tolerate("reporting to the controller", "it is tried again"):
            is_sent = self._link.report(report)
            self._reported = {**self._reported, **moved} if is_sent else {}
            if batch is not None:
                self._batch, self._last_batch = None, steady


def _read_order(taken: StoredPath) -> tuple[int, int]:
    try:
        epoch, number = json.loads(taken.read_text())
        return int(epoch), int(number)
    except (OSError, ValueError, TypeError):
        return -1, 0
