"""One run of an experiment, measured at the bottleneck.

The limit does not depend on the shedder: it is the busy time at which events like those that
were kept, arriving as a Poisson process, spend just the bound at the node (Pollaczek and
Khinchine). By mean s and second moment m2 of processing times, 1 / (1 + m2 / (2 s (B - s))).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from experiments.data_sets import DrawnData
from experiments.running_example import BOTTLENECK, BOUND, SERVICE, running_example
from experiments.shedders import ShedderSettings, bottleneck_policy, planning_effort
from shedlight.engines.simulator import ServedEvents, Simulation, simulate
from shedlight.engines.simulator.recall import Recall, compare_results
from shedlight.engines.simulator.shedders import Shedder
from shedlight.generate.streams import MICROSECONDS
from shedlight.graph import Application, Stream
from shedlight.matching.output.complex_events import TIME
from shedlight.model.arrays import Floats
from shedlight.shedding.shares import Shares

Mask = np.typing.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetting:
    """The setting of a run.

    Attributes:
        bound: Of the bottleneck, in seconds.
        window: Of the patterns, in seconds.
        duration: How long events come, in seconds.
        warm_up: Seconds before the measurement begins.
        interval: Between two measurements of the backlog, in seconds.
        percentile: Of which percentile of latency the bound is; None: of the mean.
    """

    bound: float = BOUND
    window: float = 10.0
    duration: float = 60.0
    warm_up: float = 15.0
    interval: float = 1.0
    percentile: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExperimentRun:
    """The results of a run: of the bottleneck, and of the whole run.

    Attributes:
        setting: Its setting.
        results: The times at which complex events at each sink are complete, in seconds.
        starts: Of the intervals, in seconds; the last one, in which the rest is done, is left
            out.
        busy: Busy seconds per second that were taken on in each interval.
        relevant: Relevant events per second, in each interval.
        sheds: Whether any of these was shed in an interval.
        backlog: Busy seconds that were queued at the end of each interval.
        pressure: The factor that the node put on its shares after each interval.
        arrival: When each event that was processed arrived, in seconds.
        times_in_node: How long it spent there, queued and processed.
        processing: How long it was processed.
        replans: How often there was a new plan.
        planning_seconds: How long planning took, in all.
        seconds: How long the run took on a processor.
        outputs: The complex events of all patterns; empty if nobody asked.
    """

    setting: RunSetting
    results: Mapping[str, Floats]
    starts: Floats
    busy: Floats
    relevant: Floats
    sheds: Mask
    backlog: Floats
    pressure: Floats
    arrival: Floats
    times_in_node: Floats
    processing: Floats
    replans: int
    planning_seconds: float
    seconds: float
    outputs: Mapping[Stream, pa.Table] = field(default_factory=dict)

    @property
    def is_measured(self) -> Mask:
        """Which intervals are after the warm-up."""
        return self.starts >= self.setting.warm_up - 1e-9

    @property
    def measured_times(self) -> Floats:
        """The times of the processed events that arrived after the warm-up."""
        return self.times_in_node[self.arrival >= self.setting.warm_up]

    def count_results(self, sink: str) -> int:
        """Count the results of a sink after the warm-up."""
        return int(np.count_nonzero(self.results[sink] >= self.setting.warm_up))

    def compare_results(self, unshed: "ExperimentRun") -> Mapping[str, Recall]:
        """Compare the results of each sink after the warm-up with those of a run unshed."""
        application = running_example(self.setting.bound, self.setting.window)
        return compare_results(
            application,
            self.measured_outputs(application),
            unshed.measured_outputs(application),
        )

    def measured_outputs(self, application: Application) -> Mapping[Stream, pa.Table]:
        """Leave out what reached a sink before the measurement began."""
        warm_up = round(self.setting.warm_up * MICROSECONDS)
        ends = {sink.stream for sink in application.sinks.values()}
        return {
            stream: table.filter(pc.field(TIME) >= warm_up) if stream in ends else table
            for stream, table in self.outputs.items()
        }

    def latencies(self) -> Floats:
        """Compute the mean time of the events of each interval; NaN if none was processed."""
        intervals = ((self.arrival - self.starts[0]) / self.setting.interval).astype(np.int64)
        intervals = np.clip(intervals, 0, len(self.starts) - 1)
        number = np.bincount(intervals, minlength=len(self.starts))
        total = np.bincount(intervals, self.times_in_node, len(self.starts))
        means: Floats = np.where(number > 0, total / np.maximum(number, 1), np.nan)
        return means

    def limit(self) -> float:
        """Compute how busy the node may be, given what it kept; 0 if no bound could be kept."""
        kept = self.processing[self.arrival >= self.setting.warm_up]
        mean = float(kept.mean()) if len(kept) else 0.0
        if not 0 < mean < self.setting.bound:
            return 0.0 if mean else 1.0
        spare = self.setting.bound - mean
        return 1 / (1 + float((kept * kept).mean()) / (2 * mean * spare))


def run(  # noqa: PLR0913  # what a run is of
    data: DrawnData,
    shedder: Shedder,
    control: ShedderSettings,
    setting: RunSetting,
    *,
    seed: int = 0,
    shares: Shares | None = None,
    with_outputs: bool = False,
) -> ExperimentRun:
    """Run the paper's application.

    Args:
        data: The events of its sources.
        shedder: The shedder.
        control: The settings of its controller.
        setting: The bound, the windows and the times.
        seed: Of the processing times.
        shares: Kept at first, or all the time if nothing is planned.
        with_outputs: Whether to give the complex events of all patterns.
    """
    application = running_example(setting.bound, setting.window, setting.percentile)
    policy = bottleneck_policy(shedder, application, control)
    served: list[ServedEvents] = []
    began = time.process_time()
    simulation = simulate(
        application,
        data.tables,
        SERVICE,
        interval=setting.interval,
        shares=shares,
        policy=policy,
        seed=seed,
        on_served=served.append,
        with_outputs=with_outputs,
        with_admission=policy is not None,
    )
    seconds = time.process_time() - began
    replans, planning_seconds = planning_effort(policy)
    factors = [factor[BOTTLENECK] for factor in policy.factors] if policy else []
    batches = [events for events in served if events.node == BOTTLENECK]
    processing = _concatenate([events.processing for events in batches])
    return ExperimentRun(
        setting=setting,
        results=_results(simulation),
        **_by_interval(simulation),
        sheds=np.array(
            [interval.shed[BOTTLENECK] > 0 for interval in simulation.intervals[:-1]]
        ),
        pressure=np.array(factors or [1.0] * (len(simulation.intervals) - 1)),
        arrival=_concatenate([events.arrival for events in batches]),
        times_in_node=_concatenate([events.queueing for events in batches]) + processing,
        processing=processing,
        replans=replans,
        planning_seconds=planning_seconds,
        seconds=seconds,
        outputs=simulation.outputs,
    )


def _results(simulation: Simulation) -> dict[str, Floats]:
    return {
        name: table[TIME].to_numpy() / MICROSECONDS if len(table) else np.zeros(0)
        for name, table in simulation.sinks.items()
    }


def _by_interval(simulation: Simulation) -> dict[str, Floats]:
    intervals = simulation.intervals[:-1]
    lengths = np.array([interval.length for interval in intervals])
    shed = np.array([interval.shed[BOTTLENECK] for interval in intervals])
    processed = np.array([interval.processed[BOTTLENECK] for interval in intervals])
    return {
        "starts": np.array([interval.start for interval in intervals]),
        "busy": np.array([interval.busy[BOTTLENECK] for interval in intervals]) / lengths,
        "relevant": (shed + processed) / lengths,
        "backlog": np.array([interval.backlog[BOTTLENECK] for interval in intervals]),
    }


def _concatenate(parts: list[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.zeros(0)
