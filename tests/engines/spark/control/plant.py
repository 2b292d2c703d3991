"""Nodes that run micro-batches as Spark would, in virtual time, and tell a real control loop.

A micro-batch reads all that has arrived since the one before, keeps what the active plan says
and takes

    fixed + reading x events + carrying x kept + (what patterns take for what they keep)

seconds, each of these a little off by chance. The next one begins at once, or when events have
come and its query looks again. The loop's clock is that of the plant.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shedlight.control.controller import Decision
from shedlight.engines.spark.control.activity import LoopTiming
from shedlight.engines.spark.control.loop import ControlLoop
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.shed.keep_sql import PlannedNode
from shedlight.engines.spark.shed.type_catalog import type_catalogs
from shedlight.engines.spark.source.arrival import ArrivalStats
from shedlight.engines.spark.step.chain import define_chain
from shedlight.engines.spark.step.metrics import OperatorMetrics, PatternMetrics, ShardMetrics
from shedlight.engines.spark.support.arrival_sketch import ArrivalSketch
from shedlight.engines.spark.support.placement import ChainSpec, NodeContext, operator_chains
from shedlight.engines.spark.support.plan_store import ActivePlan, PlanStore
from shedlight.graph import Application, Node, OperatorSpec, Sink, Source, Stream
from shedlight.graph.application import build_application
from shedlight.graph.topology import longest_windows
from shedlight.language import parse_pattern
from shedlight.matching.operators.reorder import StreamInput
from shedlight.model.latency import batches_per_event
from shedlight.shedding.shares import sheddable, sheddable_by_pressure

SCHEMA = pa.schema(
    {"time": pa.int64(), "id": pa.int64(), "type": pa.int64(), "#at": pa.int64()}
)
START = 1_000.0
TRIGGER = 0.2
Rate = Callable[[float], float]
"""Events per second at a time, in seconds since the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCosts:
    """What the micro-batches of a node take, and by how much that is off by chance."""

    fixed: float = 0.4
    reading: float = 2e-6
    carrying: float = 3e-6
    matching: float = 50e-6  # seconds of each pattern for each event that it keeps
    noise: float = 0.05  # the relative standard deviation of each of these
    startup: tuple[float, ...] = ()  # how much longer the first micro-batches take


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """A micro-batch of the plant."""

    node: str
    report: MicroBatchReport
    used: ActivePlan
    read_since: float  # when the one before had read what was there
    start: float
    work: float  # seconds that its kept events took

    @property
    def end(self) -> float:
        """When it ended."""
        return self.start + self.report.seconds

    @property
    def busy(self) -> float:
        """Busy seconds for each second in which its events arrived."""
        return self.work / (self.start - self.read_since)


@dataclass(slots=True)
class _PlantNode:
    """A node, and how far it is."""

    name: str
    planned: PlannedNode
    rate: Rate
    costs: NodeCosts
    read_until: float = START
    next_start: float = START + TRIGGER  # when its query looks for events
    running: BatchOutcome | None = None  # the micro-batch that is under way
    number: int = 0
    done: list[BatchOutcome] = field(default_factory=list)


def plant_application(
    bounds: Mapping[str, float], percentile: int | None = None
) -> Application:
    """Make an application of nodes with bounds, each with a source and two patterns."""
    texts = {
        "P": "SEQ(a.type = 0, b.type = 0, c.type = 1)",
        "Q": "AND(a.type = 1, b.type = 2, c.type = 3)",
    }
    patterns = {
        name: parse_pattern(f"SELECT a.type WHERE {text} WITHIN 2 s").pattern
        for name, text in texts.items()
    }
    return build_application(
        "plant",
        [
            Source(name=f"s-{n}", format="parquet", path=n, time="time", id=("id",))
            for n in bounds
        ],
        [Node(name=n, bound=bound, percentile=percentile) for n, bound in bounds.items()],
        [
            OperatorSpec(name=f"w-{n}", node=n, inputs=(Stream(f"s-{n}"),), patterns=patterns)
            for n in bounds
        ],
        [
            Sink(name=f"k-{n}-{p}", input=Stream(p, f"w-{n}"), format="parquet", path=f"{n}{p}")
            for n in bounds
            for p in texts
        ],
    )


class Plant:
    """Runs the micro-batches of nodes in the order of their ends, and tells the loop."""

    def __init__(  # noqa: PLR0913  # as many as there are choices
        self, folder, rates, *, bounds, costs=None, percentile=None, seed=1, settings=None
    ):
        self.application = plant_application(bounds, percentile)
        self.now, self._step = START, 0.0
        self._random = np.random.default_rng(seed)
        self.nodes = {
            name: _PlantNode(
                name,
                self._planned(folder, name),
                rates[name],
                (costs or {}).get(name, NodeCosts()),
            )
            for name in bounds
        }
        self.decisions: list[Decision] = []
        self.loop = ControlLoop(
            self.application,
            {name: node.planned for name, node in self.nodes.items()},
            settings,
            on_decision=self.decisions.append,
            timing=LoopTiming(
                clock=lambda: self.now,
                is_busy=lambda name: self.nodes[name].running is not None,
                trigger=TRIGGER,
            ),
        )
        self.loop.start(self.now)

    def _planned(self, folder, name):
        (placement,) = operator_chains(self.application, name, 2)
        source = Stream(f"s-{name}")
        context = NodeContext(
            shares=sheddable(self.application), windows=longest_windows(self.application)
        )
        chain = define_chain(
            ChainSpec(
                placement=placement,
                inputs={source: (StreamInput(source.name, ("id",), "#at"), SCHEMA)},
                origins={source: (0,)},
                context=context,
            )
        )
        planned = PlannedNode((chain,), type_catalogs([chain]), PlanStore(folder / name))
        first = sheddable_by_pressure(self.application)
        planned.plans.activate(ActivePlan(planned.publish(first)))
        return planned

    def run(self, seconds: float) -> None:
        """Go on for so many seconds."""
        until = self.now + seconds
        while True:
            due = {name: self._next_instant(node) for name, node in self.nodes.items()}
            name = min(due, key=due.__getitem__)
            if due[name] > until:
                self.now = until
                return
            self.now, node = due[name], self.nodes[name]
            if node.running is not None:
                self._end_batch(node)
            else:
                self._begin_batch(node)

    def observed(self):
        """Name the operators of the latest observation."""
        latest = self.loop.memory.latest
        return set(latest.arrivals if latest else ())

    def step_wall_clock(self, seconds: float) -> None:
        """Set the wall clock, which reports are written by."""
        self._step += seconds

    def limit(self, name, rate):
        """Give the busy seconds per second that the bound of a node allows."""
        node, costs = self.application.nodes[name], self.nodes[name].costs
        waiting = batches_per_event(node.percentile) * costs.fixed / (node.bound or 1.0)
        return 1 - waiting - rate * costs.reading

    @staticmethod
    def _next_instant(node: _PlantNode) -> float:
        return node.next_start if node.running is None else node.running.end

    def _begin_batch(self, node: _PlantNode) -> None:
        """Read what has arrived, keep what the plan says; nothing is run for no events."""
        events = _count(node.rate, node.read_until - START, self.now - START)
        if not events:
            node.next_start = self.now + TRIGGER
            return
        used = node.planned.plans.plan_for_batch(node.number)
        shares, labels = node.planned.plans.shares(used), self._labels(node)
        patterns, most, matching = {}, 0, 0.0
        for pattern, uses in (("P", labels[:2]), ("Q", labels[1:])):
            mine = shares[Stream(pattern, f"w-{node.name}")]
            kept = {u: round(events / 4 * mine.shares.get(u, mine.mean)) for u in uses}
            seconds = self._off(node) * node.costs.matching * sum(kept.values())
            matching, most = matching + seconds, max(most, sum(kept.values()))
            patterns[pattern] = PatternMetrics(kept, seconds, sum(kept.values()) // 6, 5, 0, 0)
        carrying = self._off(node) * node.costs.carrying * most
        besides = self._off(node) * (node.costs.fixed + node.costs.reading * events)
        startup = dict(enumerate(node.costs.startup)).get(node.number, 0.0)
        node.running = BatchOutcome(
            node.name,
            self._report(
                node, events, most, patterns, matching, matching + carrying + besides + startup
            ),
            used,
            node.read_until,
            self.now,
            matching + carrying,
        )
        node.read_until, node.number = self.now, node.number + 1

    def _end_batch(self, node):
        done = node.running
        node.running, node.next_start = None, self.now
        node.done.append(done)
        self.loop.on_micro_batch(done.report)

    def _off(self, node: _PlantNode) -> float:
        return max(0.2, 1 + node.costs.noise * self._random.standard_normal())

    @staticmethod
    def _labels(node: _PlantNode) -> list[str]:
        return [label for label in node.planned.catalogs[f"w-{node.name}"].labels if label]

    def _report(self, node, events, kept, patterns, matching, seconds):
        operator, source = f"w-{node.name}", f"s-{node.name}"
        catalog = node.planned.catalogs[operator].labels
        types = {catalog.index(label): events // 4 for label in self._labels(node)}
        wall = self.now + self._step
        middle = wall - (self.now - node.read_until) / 2
        sketch = ArrivalSketch(kept, middle * 1e6, (round(middle * 1e6),))
        metrics = {operator: OperatorMetrics(events, 0, 0, 0, patterns)}
        return MicroBatchReport(
            node=node.name,
            number=node.number,
            start=wall,
            seconds=seconds,
            arrived={(operator, source): ArrivalStats(events, 1, round(wall * 1e6), types)},
            kept_arrivals={source: sketch} if kept else {},
            shards=(ShardMetrics(0, matching, 10, metrics),),
        )


def _count(rate: Rate, start: float, end: float) -> int:
    """Count the events that arrive from one time to another."""
    points = np.linspace(start, end, 65)
    return round(float(np.mean([rate(at) for at in points[:-1]])) * (end - start))
