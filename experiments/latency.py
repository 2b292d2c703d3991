"""The experiment on latency: when the bottleneck keeps its limit and its bound.

Two parts. *Timeline*, as in the paper: busy time against its limit and latency against the
bound, interval by interval, on a stream whose load jumps and on a trace. *Steady state*: a
stationary stream and a bound of 0.1 s, by the limit of the paper and by ours, without pressure.

The paper's limit is from M/M/1: it takes the mean over all events, of which those that are shed
take no time, for the mean of events that are processed. With a share k kept it so promises
k s / (1 - rho) where these spend s / (1 - rho): at its limit, B / k instead of B.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import product

import numpy as np

from experiments.data_sets import BORG_HALVES, STEPS, DataSet, GeneratedData
from experiments.run import ExperimentRun, RunSetting, run
from experiments.running_example import SERVICE, capacity
from experiments.shedders import PAPER_SETTINGS, ShedderSettings
from shedlight.engines.simulator.shedders import Shedder
from shedlight.shedding.shares import PatternShares, Shares


class Method(Enum):
    """Which shedder, and by which rule it keeps the bound."""

    NONE = "none"
    LOCAL = "local"
    GLOBAL = "global"
    PAPER = "paper"
    PAPER_KNOWN = "paper, known stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRow:
    """An interval of a run: a row of the timeline.

    Attributes:
        data: The data set.
        method: The shedder and its rule.
        seed: Of the streams, or of the excerpt of the trace; and of the processing times.
        time: When it began, in seconds.
        events: Relevant events per second at the bottleneck.
        busy: Busy seconds per second that were taken on.
        limit: The limit of busy time.
        sheds: Whether any event was shed.
        latency: Mean seconds that its events spent at the bottleneck, if any was processed.
        bound: The bound of that latency.
        backlog: Busy seconds that were queued at the end.
        pressure: The factor that the node put on its shares after it.
        replans: How many plans were made in the whole run.
    """

    data: str
    method: Method
    seed: int
    time: float
    events: float
    busy: float
    limit: float
    sheds: bool
    latency: float | None
    bound: float
    backlog: float
    pressure: float
    replans: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyStateRow:
    """A run in steady state: a row of the results on the bound.

    Attributes:
        method: By which limit; ours is that of `local`.
        load: Of the bottleneck without shedding, over its capacity.
        seed: Of the streams and the processing times.
        bound: Seconds that an event may spend at the bottleneck, on average.
        kept: The share of the events that was processed.
        busy: Busy seconds per second.
        latency: Mean seconds that processed events spent there.
        promised: What they spend by the paper's formula, at this share and this busy time.
        expected: What they spend by M/M/1 if events that are shed do not count.
        replans: How many plans were made.
    """

    method: Method
    load: float
    seed: int
    bound: float
    kept: float
    busy: float
    latency: float
    promised: float
    expected: float
    replans: int


STEADY_STATE = RunSetting(bound=0.1, duration=300.0, warm_up=50.0, interval=5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyExperiment:
    """The experiment.

    Attributes:
        name: The name of its files.
        data: The data sets of the timelines.
        load: Their load on average, in multiples of the capacity.
        timeline: Bound and times of that part.
        loads: Of the part in steady state.
        steady_state: Bound and times of that part.
        seeds: How often each is run.
    """

    name: str
    data: tuple[DataSet, ...] = (STEPS, BORG_HALVES)
    load: float = 2.0
    timeline: RunSetting = field(default_factory=lambda: RunSetting(duration=120.0))
    loads: tuple[float, ...] = (1.2, 1.5, 2.0, 3.0)
    steady_state: RunSetting = field(default_factory=lambda: STEADY_STATE)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)

    @property
    def timeline_jobs(self) -> tuple["TimelineJob", ...]:
        """The runs of the timelines."""
        methods = (Method.NONE, Method.LOCAL, Method.GLOBAL, Method.PAPER)
        return tuple(
            TimelineJob(
                data, method, self.load, seed, replace(self.timeline, window=data.window)
            )
            for data, seed, method in product(self.data, self.seeds, methods)
        )

    @property
    def steady_state_jobs(self) -> tuple["SteadyStateJob", ...]:
        """The runs in steady state."""
        methods = (Method.PAPER_KNOWN, Method.PAPER, Method.LOCAL)
        return tuple(
            SteadyStateJob(method, load, seed, self.steady_state)
            for load, method, seed in product(self.loads, methods, self.seeds)
        )


@dataclass(frozen=True, slots=True)
class TimelineJob:
    """A run of which each interval is a row."""

    data: DataSet
    method: Method
    load: float
    seed: int
    setting: RunSetting


@dataclass(frozen=True, slots=True)
class SteadyStateJob:
    """A run in steady state, which is one row."""

    method: Method
    load: float
    seed: int
    setting: RunSetting


FIGURE = LatencyExperiment(name="latency")
QUICK = LatencyExperiment(
    name="latency-quick",
    timeline=RunSetting(duration=16.0, warm_up=4.0),
    loads=(2.0,),
    steady_state=replace(STEADY_STATE, duration=60.0, warm_up=20.0),
    seeds=(1,),
)

_ONE_SOURCE = GeneratedData(name="steady state", ratio=0.01)
"""The other source has no part in latency."""
_KNOWN_STREAM_FACTOR = 4
_SHEDDERS = {
    Method.NONE: Shedder.NONE,
    Method.LOCAL: Shedder.LOCAL,
    Method.GLOBAL: Shedder.GLOBAL,
    Method.PAPER: Shedder.GLOBAL,
}


def run_timeline(job: TimelineJob) -> tuple[IntervalRow, ...]:
    """Run a timeline; each interval is a row."""
    data = job.data.draw(job.load, job.setting.duration, job.seed)
    control = PAPER_SETTINGS if job.method is Method.PAPER else ShedderSettings()
    done = run(data, _SHEDDERS[job.method], control, job.setting, seed=job.seed)
    limits = _limits(done, job.method)
    latencies = done.latencies()
    return tuple(
        IntervalRow(
            data=job.data.name,
            method=job.method,
            seed=job.seed,
            time=round(float(done.starts[i]), 6),
            events=float(done.relevant[i]),
            busy=float(done.busy[i]),
            limit=float(limits[i]),
            sheds=bool(done.sheds[i]),
            latency=None if np.isnan(latencies[i]) else float(latencies[i]),
            bound=job.setting.bound,
            backlog=float(done.backlog[i]),
            pressure=float(done.pressure[i]) if i < len(done.pressure) else 1.0,
            replans=done.replans,
        )
        for i in range(len(done.starts))
    )


def run_steady_state(job: SteadyStateJob) -> SteadyStateRow:
    """Run in steady state."""
    setting = job.setting
    data = _ONE_SOURCE.draw(job.load, setting.duration, job.seed)
    if job.method is Method.PAPER_KNOWN:  # longer, for nothing is decided and so near the cliff
        setting = replace(
            setting, duration=_KNOWN_STREAM_FACTOR * setting.duration, interval=25.0
        )
        data = _ONE_SOURCE.draw(job.load, setting.duration, job.seed)
        shares = paper_shares(job.load, setting.bound)
        done = run(data, Shedder.NONE, ShedderSettings(), setting, seed=job.seed, shares=shares)
    else:
        control = (
            PAPER_SETTINGS
            if job.method is Method.PAPER
            else ShedderSettings(with_pressure=False)
        )
        control = replace(control, every=1)
        done = run(data, Shedder.LOCAL, control, setting, seed=job.seed)
    measured = done.is_measured
    span = float(measured.sum()) * setting.interval
    arrived, processed = float(done.relevant[measured].mean()) * span, len(done.measured_times)
    kept, busy = processed / arrived, float(done.busy[measured].mean())
    expected = busy * span / processed / (1 - busy) if busy < 1 else float("inf")
    return SteadyStateRow(
        method=job.method,
        load=job.load,
        seed=job.seed,
        bound=setting.bound,
        kept=kept,
        busy=busy,
        latency=float(done.measured_times.mean()),
        promised=kept * expected,
        expected=expected,
        replans=done.replans,
    )


def paper_shares(load: float, bound: float) -> Shares:
    """Keep as much of everything as the paper's p* = 1 / (lambda + 1/B) allows."""
    most = capacity(_ONE_SOURCE.second)
    share = most / (load * most + 1 / bound)
    types = {f"type={number}": min(1.0, share) for number in range(4)}
    return {stream: PatternShares(types) for stream in SERVICE.seconds}


def _limits(done: ExperimentRun, method: Method) -> "np.typing.NDArray[np.float64]":
    """Give the limit of each interval: by M/M/1 it depends on what arrives."""
    if method is not Method.PAPER:
        return np.full(len(done.starts), done.limit())
    arrivals = done.relevant * done.setting.bound
    return arrivals / (1 + arrivals)


def limit_deviation(rows: Iterable[IntervalRow]) -> float:
    """Add up how far busy time is off its limit, in busy seconds, as the paper does.

    What is missing to the limit counts while events are shed; what is over it counts always.
    """
    ordered = sorted(rows, key=lambda row: row.time)
    times = np.array([row.time for row in ordered])
    lengths = np.diff(times, append=2 * times[-1] - times[-2])
    off = np.array(
        [
            row.busy - row.limit
            if row.busy > row.limit or not row.sheds
            else row.limit - row.busy
            for row in ordered
        ]
    )
    return float((np.maximum(off, 0.0) * lengths).sum())
