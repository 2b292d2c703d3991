"""What the driver makes of the unshed sample: heavy hitters, and estimates of sinks.

Heavy hitters are found among the keys of some thousand events of each micro-batch, shed or not:
a key is one when chance alone would not have it so often. Shards count the results of the
sample's keys; what all of them have counted is estimated from now and then.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.shed.keep_sql import PlannedNode
from shedlight.engines.spark.step.sample_counts import SampleMetrics
from shedlight.engines.spark.support.placement import OperatorChain
from shedlight.engines.spark.support.plan_store import ActivePlan
from shedlight.engines.spark.support.sample_spec import SampleSpec
from shedlight.graph import Application, Stream
from shedlight.graph.closures import find_closures
from shedlight.graph.sampled import find_sampled_sinks
from shedlight.shedding.estimate import SampleCounts, SinkEstimate, estimate_sink
from shedlight.shedding.unshed_sample import KeyWork

INTERVAL = 5.0  # seconds from one estimate of a sink to the next, at least
KEYS_PER_BATCH = 2000  # how many events of a micro-batch have their keys looked at, about
MAX_LOOKED_AT = 0.1  # of which share of the events at most; the next micro-batch may be larger
MIN_KEYS_LOOKED_AT = 1000  # of fewer it is not known which keys are heavy hitters


class SampleTracker:
    """Follows the unshed sample of a run.

    Args:
        application: The application.
        sample: Which patterns keep the sample.
        chains: The operator chains of each node.
        heavy: The hashes of heavy hitters that are known from before a restart.
    """

    def __init__(
        self,
        application: Application,
        sample: SampleSpec,
        chains: Mapping[str, tuple[OperatorChain, ...]],
        heavy: Iterable[int] = (),
    ) -> None:
        self._share = sample.share
        known = KeyWork(dropped=np.unique(np.array(list(heavy), np.int64)))
        self._work = dict.fromkeys(sample.groups.values(), known)
        sinks = find_sampled_sinks(application, find_closures(application))
        nodes = {name: spec.node for name, spec in application.operators.items()}
        streams = {name: sink.stream for name, sink in application.sinks.items()}
        self._node = {name: nodes[str(stream.operator)] for name, stream in streams.items()}
        self._unknown = sinks.unknown if self._share else {}
        # the stream of each sink that the sample speaks of, and the group of its patterns
        self._sinks = {
            name: (streams[name], sample.groups[patterns[0]])
            for name, patterns in sinks.patterns.items()
            if patterns[0] in sample.groups
        }
        self._shards = {
            stream: chain.shards
            for of_node in chains.values()
            for chain in of_node
            for stream in chain.outputs
        }
        self._counted: dict[tuple[str, int], SampleMetrics] = {}  # by pattern and shard
        self._estimated: dict[str, float] = {}  # when, by node
        self._looked_at: dict[str, float] = {}  # of which share of the events, by node

    @property
    def heavy(self) -> tuple[int, ...]:
        """The hashes of all keys that are heavy hitters."""
        found = [work.dropped for work in self._work.values()]
        return tuple(np.unique(np.concatenate([np.zeros(0, np.int64), *found])).tolist())

    def add(self, report: MicroBatchReport) -> MicroBatchReport:
        """Take a micro-batch; give it with estimates of its node's sinks, if it is time."""
        for group, hashes in report.keys.items():
            if hashes:
                self._work[group] = self._work[group].add(np.array(hashes, np.int64))
        for shard in report.shards:
            for name, counted in shard.samples.items():
                self._counted[name, shard.shard] = counted
        share = wanted_share(report)
        if share is not None:
            self._looked_at[report.node] = share
        if 0 <= report.end - self._estimated.get(report.node, -INTERVAL) < INTERVAL:
            return report  # if the clock was set back, it is time
        self._estimated[report.node] = report.end
        return replace(report, unshed_sample=self.estimates(report.node, report.number))

    def update_plan(self, node: str, active: ActivePlan, heavy: int | None) -> ActivePlan:
        """Have a node look at as many keys as are wanted, and leave out a new list of them."""
        share = steady_share(active.looked_at, self._looked_at.get(node))
        return replace(active, heavy=active.heavy if heavy is None else heavy, looked_at=share)

    def estimates(self, node: str, seed: int) -> Mapping[str, SinkEstimate]:
        """Say what the sample says of the sinks of a node by now."""
        here = [name for name in self._sinks if self._node[name] == node]
        unknown = {
            name: SinkEstimate(unknown=why)
            for name, why in self._unknown.items()
            if self._node[name] == node
        }
        return {name: self._estimate(*self._sinks[name], seed) for name in here} | unknown

    def _estimate(self, stream: Stream, group: str, seed: int) -> SinkEstimate:
        keys = [(str(stream), shard) for shard in self._shards[stream]]
        work = self._work[group]
        if any(key not in self._counted for key in keys):
            return SinkEstimate(unknown="not all shards have counted results yet")
        if work.total < MIN_KEYS_LOOKED_AT:
            why = f"the keys of {work.total} events are known, to find heavy hitters takes"
            return SinkEstimate(unknown=f"{why} {MIN_KEYS_LOOKED_AT}")
        counted = [self._counted[key] for key in keys]
        since, until = min(c.since for c in counted), max(c.until for c in counted)
        return replace(
            estimate_sink(_joined(counted), self._share, (until - since) / 1e6, seed),
            heavy_hitters=int(np.isin(work.dropped, work.keys).sum()),
            heavy_work=work.share_of(work.dropped),
            heavy_results=sum(each.heavy for each in counted),
        )


def wanted_share(report: MicroBatchReport) -> float | None:
    """Say of which share of a node's events keys are to be looked at; None: nothing came."""
    most = max((stats.number for stats in report.arrived.values()), default=0)
    return round(min(MAX_LOOKED_AT, KEYS_PER_BATCH / most), 6) if most else None


def steady_share(active: float, wanted: float | None) -> float:
    """Give the share that is wanted if it is another by far, else the active one."""
    return active if wanted is None or active / 2 <= wanted <= active * 2 else wanted


def _joined(counted: Iterable[SampleMetrics]) -> SampleCounts:
    """Put the keys of all shards together; which ones they are no longer matters."""
    rows = [row for each in counted for row in each.keys]
    unshed, same, numbers = np.array(rows, np.int64).reshape(-1, 3).T
    results, left = np.repeat(unshed, numbers), np.repeat(same, numbers)
    return SampleCounts(np.arange(len(results)), results, left, left)


def build_tracker(
    application: Application,
    sample: SampleSpec,
    chains: Mapping[str, tuple[OperatorChain, ...]],
    nodes: Mapping[str, PlannedNode],
) -> SampleTracker | None:
    """Follow the sample of a run with what its nodes know from before; None: there is none."""
    if not sample.share:
        return None
    stores = [node.plans for node in nodes.values()]
    heavy = {key for plans in stores if plans.active for key in plans.heavy(plans.active)}
    return SampleTracker(application, sample, chains, heavy)


def follow_sample(
    tracker: SampleTracker,
    nodes: Mapping[str, PlannedNode],
    report: MicroBatchReport,
    adopt: Callable[[str, ActivePlan], None] | None = None,
) -> MicroBatchReport:
    """Take a micro-batch, and have nodes know of heavy hitters that are new.

    Gives it with estimates, if it is time; `adopt` is called with what is activated.
    """
    known = tracker.heavy
    report = tracker.add(report)
    for name, node in nodes.items():
        is_new = tracker.heavy != known
        heavy = node.plans.publish_heavy(tracker.heavy) if is_new else None
        active = node.plans.active or ActivePlan(1)
        plan = tracker.update_plan(name, active, heavy)
        if plan != active:
            node.plans.activate(plan)
            if adopt is not None:
                adopt(name, plan)
    return report
