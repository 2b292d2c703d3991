"""What the control loop knows of a node, and the pressure that follows from it."""

from collections import deque
from dataclasses import dataclass, field, replace

from shedlight.control.pressure import batch_pressure
from shedlight.engines.spark.control import cost_fit, loop_settings
from shedlight.engines.spark.control.activity import NodeActivity
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.observe import ObservationWindow
from shedlight.engines.spark.shed.keep_sql import PlannedNode
from shedlight.engines.spark.support.plan_store import ActivePlan
from shedlight.graph import Node
from shedlight.model.latency import batches_per_event
from shedlight.model.spark_costs import DEFAULT_COSTS, Costs

_MIN_PRESSURE_FOR_COST_FIT = 0.01
"""Under more pressure than this what is kept says too little about what it costs."""


@dataclass(slots=True)
class NodeState:
    """A node: its plans, its latest micro-batches, and what they cost."""

    planned: PlannedNode  # its operators and plans
    active: ActivePlan  # the active plan and the pressure
    activity: NodeActivity  # when it had events
    batches: list[MicroBatchReport] = field(default_factory=list)  # the latest micro-batches
    batch_count: int = 0  # how many there were
    new_batches: int = 0  # how many there were since the last observation
    window_start: float | None = None  # when the newest event before those had arrived
    rate: float = 0.0  # how many events arrived per second in those
    newest: float = 0.0  # when the newest of them arrived
    has_jumped: bool = False  # whether much more or less arrives since the last observation
    has_settled: bool = (
        False  # whether it does not since then, but is not as it was in the jump
    )
    jumped_to: float | None = None  # what arrived per second in a jump that was the last
    work: float = 0.0  # seconds of work for each event, before pressure
    unread: float = 0.0  # how many events waited to be read after the last micro-batch
    costs: Costs = DEFAULT_COSTS  # what a micro-batch costs
    is_infeasible: bool = False  # whether its bound cannot be kept whatever is shed
    # what the latest steady micro-batches took besides matching, empty ones too
    besides: deque[float] = field(
        default_factory=lambda: deque(maxlen=loop_settings.SHORTEST_OF)
    )

    @property
    def is_steady(self) -> bool:
        """Whether its start is over: class loading, compiling."""
        return self.batch_count > loop_settings.STARTUP_BATCHES

    def add(self, batch: MicroBatchReport) -> None:
        """Take a micro-batch, which may be empty: then it only says how long these take."""
        if batch.events:
            self._note_jump(batch)
            self.batch_count += 1
            self.batches = [*self.batches, batch][-cost_fit.MAX_BATCHES :]
            self.new_batches = min(self.new_batches + 1, cost_fit.MAX_BATCHES)
            window = self._window_of(self.batches[-self.new_batches :], self.costs)
            self.rate, self.newest = window.rate, window.newest
        if self.is_steady:
            self.besides.append(max(0.0, batch.seconds - batch.matching))

    def _note_jump(self, batch: MicroBatchReport) -> None:
        """Begin the window anew if much more or less arrives than before."""
        if not self.batches:
            return
        alone = replace(self._window_of([batch], self.costs), window_start=self.newest)
        jumped_to, self.jumped_to = self.jumped_to, None
        has_jumped = _differ(alone.rate, self.rate, loop_settings.JUMP)
        if has_jumped:
            self.has_jumped, self.jumped_to = True, alone.rate
        has_settled = jumped_to is not None and _differ(
            alone.rate, jumped_to, loop_settings.SETTLED
        )
        if has_settled:
            self.has_settled = True
        if has_jumped or has_settled:
            self.window_start, self.new_batches = self.newest, 0

    def window(self, spec: Node) -> ObservationWindow:
        """Give the micro-batches since the last observation, and what they cost."""
        return self._window_of(self.batches[-max(self.new_batches, 1) :], self._costs(spec))

    def _window_of(self, batches: list[MicroBatchReport], costs: Costs) -> ObservationWindow:
        start = self.window_start if self.window_start is not None else batches[0].start
        return ObservationWindow(
            node=self.planned, batches=tuple(batches), window_start=start, costs=costs
        )

    def on_observed(self, window: ObservationWindow) -> None:
        """Begin a new window after an observation."""
        self.begin_window(window.newest)

    def begin_window(self, since: float) -> None:
        """Begin a new window, of what arrives after a time in seconds since 1970."""
        self.window_start, self.new_batches = since, 0
        self.has_jumped = self.has_settled = False

    def update_pressure(self, batch: MicroBatchReport, spec: Node) -> float:
        """Find the pressure by the events that wait to be read after a micro-batch."""
        window = self.window(spec)
        self.costs = window.costs
        used = self.planned.plans.plan_for_batch(batch.number)
        if used.pressure > _MIN_PRESSURE_FOR_COST_FIT and batch.kept:
            spent = batch.matching + self.costs.carrying * batch.kept
            self.work = spent / batch.events / used.pressure
        self.unread = max(0.0, batch.end - window.newest) * window.rate
        return min(self.pressure(spec), loop_settings.MAX_RISE * self.active.pressure)

    def pressure(self, spec: Node) -> float:
        """Give the pressure under the active plan; none if the bound cannot be kept."""
        if self.is_infeasible:
            return 1.0
        is_startup = self.batch_count < loop_settings.STARTUP_BATCHES
        factor = loop_settings.STARTUP_COST_FACTOR if is_startup else 1.0
        pressure = batch_pressure(
            self.unread,
            self.work * factor,
            fixed=self.costs.fixed,
            reading=self.costs.reading,
            bound=spec.bound,
            percentile=spec.percentile,
        )
        return round(max(pressure, loop_settings.MIN_PRESSURE), 4)

    def _costs(self, spec: Node) -> Costs:
        """Fit the costs to steady micro-batches; what these do not show is not INFEASIBLE.

        Before there are any, costs are a guess. A fit may be off, too, if all micro-batches
        are alike: no micro-batch takes less than an empty one, so the shortest says more.
        """
        startup = max(0, loop_settings.STARTUP_BATCHES - self.batch_count + len(self.batches))
        costs = cost_fit.fit_costs(self.batches[startup:])
        if spec.bound is None:
            return costs
        longest = spec.bound / batches_per_event(spec.percentile)
        shortest = min(self.besides, default=longest / 2)
        if costs.fixed >= longest > shortest:
            return replace(costs, fixed=shortest)
        return costs


def _differ(rate: float, other: float, factor: float) -> bool:
    """Say whether one rate is more than so many times the other."""
    return max(rate, other) > factor * min(rate, other)
