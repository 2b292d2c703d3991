"""The control loop on Spark: micro-batches in, plans and pressure out.

After every micro-batch of a node with a bound its pressure is set anew. When every such node
has had one and enough time has passed, the controller is asked, and a new plan is put in force
at all nodes that it changes. Each is used by the next micro-batch that begins.

A wish for other bounds or weights is taken up when it is seen, and planned for at the next
decision, whatever was observed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from shedlight.control.controller import ControlSettings, Decision, Memory, decide
from shedlight.control.override import Override, apply_override, current_values
from shedlight.control.pressure import batch_pressure
from shedlight.control.replan_trigger import DEFAULT_POLICY
from shedlight.engines.spark.control.cost_fit import DEFAULT_COSTS, LATEST, Costs, fit_costs
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.observe import (
    ObservationWindow,
    observation_of,
)
from shedlight.engines.spark.control.override_store import OverrideOutcome, OverrideWatcher
from shedlight.engines.spark.shed.type_catalog import Catalogs
from shedlight.engines.spark.step.chain import ChainRuntime
from shedlight.engines.spark.support.plan_store import ActivePlan, PlanStore
from shedlight.errors import ShedlightError
from shedlight.graph import Application, Stream
from shedlight.model.latency import LatencyModel, Target
from shedlight.planning.plan import PlanSettings
from shedlight.shedding.shares import Shares, sheddable_by_pressure

INTERVAL = 2.0
"""After how many seconds there is an observation, or after a micro-batch that is longer."""
_EARLY_BATCHES, _EARLY_COST_FACTOR = 4, 2.0
"""Before so many micro-batches an event is taken to cost so many times what it did: machines
are still to be opened, and each makes it dearer."""
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
    """What the loop knows of a node.

    Attributes:
        batches: The latest micro-batches.
        seen: How many there were.
        fresh: How many there were since the last observation.
        since: When the newest event before those had arrived.
        used: The plan and the pressure in force.
        work: Seconds of work for each event, before pressure.
        waiting: How many events waited to be read after the last micro-batch.
        costs: What a micro-batch costs.
    """

    batches: list[MicroBatchReport] = field(default_factory=list)
    seen: int = 0
    fresh: int = 0
    since: float | None = None
    used: ActivePlan = field(default_factory=lambda: ActivePlan(1))
    work: float = 0.0
    waiting: float = 0.0
    costs: Costs = DEFAULT_COSTS


class Query(Protocol):
    """A node that runs."""

    @property
    def chains(self) -> tuple[ChainRuntime, ...]:
        """Its operator chains."""

    @property
    def catalogs(self) -> Catalogs:
        """The event types of its operators."""


class Running(Protocol):
    """What the loop needs of an assembly."""

    @property
    def application(self) -> Application:
        """What it runs."""

    @property
    def nodes(self) -> Mapping[str, Query]:
        """Its nodes by name."""

    def plans(self, node: str) -> PlanStore:
        """Find the plans of a node."""

    def publish(self, node: str, shares: Shares) -> int:
        """Write down what the patterns of a node keep; give the number of the plan."""


class ControlLoop:
    """Follows the micro-batches of all nodes.

    Args:
        deployment: What runs.
        settings: How to control; None: for micro-batches, with our rule.
        on_decision: Called with every decision.
        overrides: Where overrides come from; None: there are none.
        on_override: Called with every override, applied or rejected.

    Attributes:
        memory: What the controller remembers.
    """

    def __init__(
        self,
        deployment: Running,
        settings: ControlSettings | None = None,
        *,
        on_decision: Callable[[Decision], None] | None = None,
        overrides: OverrideWatcher | None = None,
        on_override: Callable[[OverrideOutcome], None] | None = None,
    ) -> None:
        self._deployment, self._on_decision = deployment, on_decision
        self._overrides, self._on_override, self._forced_reason = overrides, on_override, ""
        application = deployment.application
        self.memory = Memory(
            application=application, settings=settings or micro_batch_settings()
        )
        self._nodes = {name: _Node() for name in deployment.nodes}
        for name, node in self._nodes.items():
            node.used = deployment.plans(name).active or ActivePlan(1)
        self._bounded = [
            name for name in deployment.nodes if application.nodes[name].bound is not None
        ]
        self._last: float | None = None

    def start(self, now: float) -> None:
        """Say when the run begins, in seconds since 1970: what was there arrives then."""
        for node in self._nodes.values():
            node.since = now
        self.poll_overrides(now)

    def poll_overrides(self, now: float) -> None:
        """Take up a wish, if there is a new one; it is planned for at the next decision."""
        if self._overrides is None:
            return
        try:
            wish = self._overrides.new()
            if wish is None:
                return
            application = apply_override(self._deployment.application, wish)
        except ShedlightError as error:
            heard = OverrideOutcome(now, Override(), str(error))
        else:
            if application != self.memory.application:
                self.memory = replace(self.memory, application=application)
                self._forced_reason = f"as was asked for, {wish or 'all is as in the file'}"
            heard = OverrideOutcome(now, current_values(application))
        if self._on_override is not None:
            self._on_override(heard)

    def on_micro_batch(self, batch: MicroBatchReport) -> Decision | None:
        """Take a micro-batch in; give the decision, if there was one to make."""
        node = self._nodes[batch.node]
        if batch.events == 0:  # it was about marks, or there is nothing to do
            self._publish_pressure(batch, node.used.pressure)
            return None
        node.seen += 1
        node.batches = [*node.batches, batch][-LATEST:]
        node.fresh = min(node.fresh + 1, LATEST)
        if batch.node in self._bounded:
            self._update_pressure(batch)
        return self._decided(batch.end)

    def _update_pressure(self, batch: MicroBatchReport) -> None:
        """Set the pressure of a node by what waits to be read."""
        node, watched = self._nodes[batch.node], self._watched(batch.node)
        node.costs = watched.costs
        used = self._deployment.plans(batch.node).plan_for_batch(batch.number)
        if used.pressure > _MIN_PRESSURE_FOR_COST_FIT and batch.kept:
            spent = batch.matching + node.costs.carrying * batch.kept
            node.work = spent / batch.events / used.pressure
        node.waiting = max(0.0, batch.end - watched.newest) * watched.rate
        self._publish_pressure(batch, self._pressure(batch.node))

    def _pressure(self, name: str) -> float:
        node = self._nodes[name]
        caution = _EARLY_COST_FACTOR if node.seen < _EARLY_BATCHES else 1.0
        factor = batch_pressure(
            node.waiting,
            node.work * caution,
            fixed=node.costs.fixed,
            reading=node.costs.reading,
            bound=self.memory.application.nodes[name].bound,
        )
        return round(factor, 4)

    def _publish_pressure(self, batch: MicroBatchReport, factor: float) -> None:
        """Put pressure on a node, and say after which micro-batch this was decided."""
        if batch.node in self._bounded:
            plan = self._nodes[batch.node].used.plan
            self._activate(batch.node, ActivePlan(plan, factor, batch.number))

    def _activate(self, name: str, used: ActivePlan) -> None:
        self._nodes[name].used = used
        self._deployment.plans(name).activate(used)

    def _watched(self, name: str) -> ObservationWindow:
        node, query = self._nodes[name], self._deployment.nodes[name]
        batches = tuple(node.batches[-max(node.fresh, 1) :])
        since = node.since if node.since is not None else batches[0].start
        warmup = max(0, _WARMUP_BATCHES - node.seen + len(node.batches))
        return ObservationWindow(
            chains=query.chains,
            catalogs=query.catalogs,
            batches=batches,
            window_start=since,
            costs=fit_costs(node.batches[warmup:]),
        )

    def _decided(self, now: float) -> Decision | None:
        """Ask the controller, if it is time."""
        due = self._last is None or now - self._last >= INTERVAL
        if not due or not self._bounded or not all(self._nodes[n].fresh for n in self._bounded):
            return None
        seen = {name: self._watched(name) for name, node in self._nodes.items() if node.batches}
        observation = observation_of(seen, now)
        self.memory, decision = decide(
            self.memory, observation, forced_reason=self._forced_reason
        )
        if decision.attempted:
            self._forced_reason = ""
        for name, one in seen.items():
            self._nodes[name].since, self._nodes[name].fresh = one.newest, 0
        self._last = now
        if decision.plan is not None:
            self._put_in_force(decision)
        if self._on_decision is not None:
            self._on_decision(decision)
        return decision

    def _put_in_force(self, decision: Decision) -> None:
        shares = {**sheddable_by_pressure(self._deployment.application), **decision.shares}
        for name in self._bounded:
            if any(self._is_at(stream, name) for stream in decision.shares):
                number = self._deployment.publish(name, shares)
                node = self._nodes[name]
                node.work *= self._work_ratio(name, decision)
                self._activate(name, ActivePlan(number, self._pressure(name), node.used.after))

    def _work_ratio(self, name: str, decision: Decision) -> float:
        """Say how the work of an event changes by a new plan."""
        before = decision.loads.get(name, 0.0)
        return self.memory.expected.get(name, before) / before if before > 0 else 1.0

    def _is_at(self, stream: Stream, node: str) -> bool:
        return self._deployment.application.operators[str(stream.operator)].node == node
