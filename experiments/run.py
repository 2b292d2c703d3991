"""One run of an experiment, and what is measured of it at the bottleneck.

The limit is what an independent judge would say: the busy time at which events like those that
were kept, if they came at random, would spend just the bound at the node (Pollaczek and
Khinchine). By mean s and second moment m2 of processing times, 1 / (1 + m2 / (2 s (B - s))).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from experiments.data_sets import DrawnData
from experiments.running_example import BOTTLENECK, BOUND, SERVICE, running_example
from shedlight.engines.simulator import ServedEvents, Simulation, simulate
from shedlight.engines.simulator.shedders import Shedder, ShedderSettings, planning, policy_of
from shedlight.generate.streams import MICROSECONDS
from shedlight.matching.output.complex_events import TIME
from shedlight.model.selectivity.needs import Floats
from shedlight.shedding.shares import Shares

Marks = np.typing.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetting:
    """What runs have in common.

    Attributes:
        bound: Of the bottleneck, in seconds.
        window: Of the patterns, in seconds.
        duration: How long events come, in seconds.
        settled: From when on it is measured, in seconds.
        interval: Between two looks at the backlog, in seconds.
    """

    bound: float = BOUND
    window: float = 10.0
    duration: float = 60.0
    settled: float = 15.0
    interval: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExperimentRun:
    """What came of a run; all of it is of the bottleneck, and of all of the time.

    Attributes:
        setting: What it was.
        results: The times at which complex events at each sink are complete, in seconds.
        starts: Of the intervals, in seconds; the last one, in which the rest is done, is left
            out.
        busy: Busy seconds per second that were taken on in each interval.
        used: Events per second that some pattern has a use for, in each interval.
        sheds: Whether any of these was shed in an interval.
        backlog: Busy seconds that were queued at the end of each interval.
        pressure: The factor that the node put on its shares after each interval.
        arrival: When each event that was processed arrived, in seconds.
        spent: How long it spent there, waiting and being processed.
        processing: How long it was processed.
        replans: How often there was a new plan.
        planning_seconds: How long planning took, in all.
        seconds: How long the run took on a processor.
    """

    setting: RunSetting
    results: Mapping[str, Floats]
    starts: Floats
    busy: Floats
    used: Floats
    sheds: Marks
    backlog: Floats
    pressure: Floats
    arrival: Floats
    spent: Floats
    processing: Floats
    replans: int
    planning_seconds: float
    seconds: float

    @property
    def is_settled(self) -> Marks:
        """Which intervals count."""
        return self.starts >= self.setting.settled - 1e-9

    @property
    def settled_spent(self) -> Floats:
        """What the processed events spent that arrived when it was settled."""
        return self.spent[self.arrival >= self.setting.settled]

    def found(self, sink: str) -> int:
        """Count the results of a sink from when on it was settled."""
        return int(np.count_nonzero(self.results[sink] >= self.setting.settled))

    def latencies(self) -> Floats:
        """Give the mean that the events of each interval spent; NaN if none was processed."""
        places = ((self.arrival - self.starts[0]) / self.setting.interval).astype(np.int64)
        places = np.clip(places, 0, len(self.starts) - 1)
        number = np.bincount(places, minlength=len(self.starts))
        total = np.bincount(places, self.spent, len(self.starts))
        means: Floats = np.where(number > 0, total / np.maximum(number, 1), np.nan)
        return means

    def limit(self) -> float:
        """Say how busy the node may be, given what it kept; 0 if no bound could be kept."""
        kept = self.processing[self.arrival >= self.setting.settled]
        mean = float(kept.mean()) if len(kept) else 0.0
        if not 0 < mean < self.setting.bound:
            return 0.0 if mean else 1.0
        spare = self.setting.bound - mean
        return 1 / (1 + float((kept * kept).mean()) / (2 * mean * spare))


def run(
    drawn: DrawnData,
    shedder: Shedder,
    control: ShedderSettings,
    setting: RunSetting,
    *,
    seed: int = 0,
    shares: Shares | None = None,
) -> ExperimentRun:
    """Run the paper's application.

    Args:
        drawn: The events of its sources.
        shedder: Who sheds.
        control: How is decided.
        setting: The bound, the windows and the times.
        seed: Of the processing times.
        shares: What is kept at first, or all the time if nobody sheds.
    """
    application = running_example(setting.bound, setting.window)
    policy = policy_of(shedder, application, control, BOTTLENECK)
    served: list[ServedEvents] = []
    began = time.process_time()
    done = simulate(
        application,
        drawn.tables,
        SERVICE,
        interval=setting.interval,
        shares=shares,
        policy=policy,
        seed=seed,
        watch=served.append,
    )
    seconds = time.process_time() - began
    replans, planning_seconds = planning(policy)
    factors = [one[BOTTLENECK] for one in policy.factors] if policy else []
    mine = [one for one in served if one.node == BOTTLENECK]
    processing = _joined([one.processing for one in mine])
    return ExperimentRun(
        setting=setting,
        results=_results(done),
        **_by_interval(done),
        sheds=np.array([one.shed[BOTTLENECK] > 0 for one in done.intervals[:-1]]),
        pressure=np.array(factors or [1.0] * (len(done.intervals) - 1)),
        arrival=_joined([one.arrival for one in mine]),
        spent=_joined([one.queueing for one in mine]) + processing,
        processing=processing,
        replans=replans,
        planning_seconds=planning_seconds,
        seconds=seconds,
    )


def _results(done: Simulation) -> dict[str, Floats]:
    return {
        name: table[TIME].to_numpy() / MICROSECONDS if len(table) else np.zeros(0)
        for name, table in done.sinks.items()
    }


def _by_interval(done: Simulation) -> dict[str, Floats]:
    parts = done.intervals[:-1]
    lengths = np.array([one.length for one in parts])
    shed = np.array([one.shed[BOTTLENECK] for one in parts])
    processed = np.array([one.processed[BOTTLENECK] for one in parts])
    return {
        "starts": np.array([one.start for one in parts]),
        "busy": np.array([one.busy[BOTTLENECK] for one in parts]) / lengths,
        "used": (shed + processed) / lengths,
        "backlog": np.array([one.backlog[BOTTLENECK] for one in parts]),
    }


def _joined(parts: list[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.zeros(0)
