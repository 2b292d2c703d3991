"""The experiment on latency: does the bottleneck keep its limit and its bound, and when.

Two parts. *Over time*, as in the paper: busy time against its limit and latency against the
bound, interval by interval, on a stream whose load jumps and on a trace. *At rest*: a
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

from experiments.data_sets import BORG_HALVES, STEPS, DataSet, Generated
from experiments.run import ExperimentRun, RunSetting, run
from experiments.running_example import SERVICE, capacity
from shedlight.engines.simulator.shedders import PAPER_SETTINGS, Shedder, ShedderSettings
from shedlight.shedding.shares import PatternShares, Shares


class Way(Enum):
    """Who sheds, and how the bound is kept."""

    NONE = "none"
    LOCAL = "local"
    GLOBAL = "global"
    PAPER = "paper"
    PAPER_KNOWN = "paper, known stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An interval of a run: a row of the results over time.

    Attributes:
        data: The data set.
        way: Who shed, and how.
        seed: Of the streams, or of the piece of the trace; and of the processing times.
        time: When it began, in seconds.
        events: Per second, at the bottleneck, that some pattern has a use for.
        busy: Busy seconds per second that were taken on.
        limit: What they may be.
        sheds: Whether any event was shed.
        latency: Mean seconds that its events spent at the bottleneck, if any was processed.
        bound: What that may be.
        backlog: Busy seconds that were queued at the end.
        pressure: The factor that the node put on its shares after it.
        replans: How many plans were made in the whole run.
    """

    data: str
    way: Way
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
class Rest:
    """A run at rest: a row of the results on the bound.

    Attributes:
        way: By which limit; ours is that of `local`.
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

    way: Way
    load: float
    seed: int
    bound: float
    kept: float
    busy: float
    latency: float
    promised: float
    expected: float
    replans: int


AT_REST = RunSetting(bound=0.1, duration=300.0, settled=50.0, interval=5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compliance:
    """The experiment.

    Attributes:
        name: The name of its files.
        data: The data sets of the part over time.
        load: Their load on average, in multiples of the capacity.
        over_time: Bound and times of that part.
        loads: Of the part at rest.
        at_rest: Bound and times of that part.
        seeds: How often each is run.
    """

    name: str
    data: tuple[DataSet, ...] = (STEPS, BORG_HALVES)
    load: float = 2.0
    over_time: RunSetting = field(default_factory=lambda: RunSetting(duration=120.0))
    loads: tuple[float, ...] = (1.2, 1.5, 2.0, 3.0)
    at_rest: RunSetting = field(default_factory=lambda: AT_REST)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)

    @property
    def courses(self) -> tuple["CourseJob", ...]:
        """The runs over time."""
        ways = (Way.NONE, Way.LOCAL, Way.GLOBAL, Way.PAPER)
        return tuple(
            CourseJob(data, way, self.load, seed, replace(self.over_time, window=data.window))
            for data, seed, way in product(self.data, self.seeds, ways)
        )

    @property
    def rests(self) -> tuple["Stay", ...]:
        """The runs at rest."""
        ways = (Way.PAPER_KNOWN, Way.PAPER, Way.LOCAL)
        return tuple(
            Stay(way, load, seed, self.at_rest)
            for load, way, seed in product(self.loads, ways, self.seeds)
        )


@dataclass(frozen=True, slots=True)
class CourseJob:
    """A run over time."""

    data: DataSet
    way: Way
    load: float
    seed: int
    setting: RunSetting


@dataclass(frozen=True, slots=True)
class Stay:
    """A run at rest."""

    way: Way
    load: float
    seed: int
    setting: RunSetting


FIGURE = Compliance(name="latency")
QUICK = Compliance(
    name="latency-quick",
    over_time=RunSetting(duration=16.0, settled=4.0),
    loads=(2.0,),
    at_rest=replace(AT_REST, duration=60.0, settled=20.0),
    seeds=(1,),
)

_ONE_SOURCE = Generated(name="at rest", ratio=0.01)
"""What the other source brings has no part in latency."""
_LONGER = 4
_SHEDDERS = {
    Way.NONE: Shedder.NONE,
    Way.LOCAL: Shedder.LOCAL,
    Way.GLOBAL: Shedder.GLOBAL,
    Way.PAPER: Shedder.GLOBAL,
}


def moments(course: CourseJob) -> tuple[Moment, ...]:
    """Run over time."""
    drawn = course.data.draw(course.load, course.setting.duration, course.seed)
    control = PAPER_SETTINGS if course.way is Way.PAPER else ShedderSettings()
    done = run(drawn, _SHEDDERS[course.way], control, course.setting, seed=course.seed)
    limits = _limits(done, course.way)
    latencies = done.latencies()
    return tuple(
        Moment(
            data=course.data.name,
            way=course.way,
            seed=course.seed,
            time=round(float(done.starts[i]), 6),
            events=float(done.used[i]),
            busy=float(done.busy[i]),
            limit=float(limits[i]),
            sheds=bool(done.sheds[i]),
            latency=None if np.isnan(latencies[i]) else float(latencies[i]),
            bound=course.setting.bound,
            backlog=float(done.backlog[i]),
            pressure=float(done.pressure[i]) if i < len(done.pressure) else 1.0,
            replans=done.replans,
        )
        for i in range(len(done.starts))
    )


def rest(stay: Stay) -> Rest:
    """Run at rest."""
    setting = stay.setting
    drawn = _ONE_SOURCE.draw(stay.load, setting.duration, stay.seed)
    if stay.way is Way.PAPER_KNOWN:  # longer, for nothing is decided and so near the cliff
        setting = replace(setting, duration=_LONGER * setting.duration, interval=25.0)
        drawn = _ONE_SOURCE.draw(stay.load, setting.duration, stay.seed)
        shares = papers_shares(stay.load, setting.bound)
        done = run(
            drawn, Shedder.NONE, ShedderSettings(), setting, seed=stay.seed, shares=shares
        )
    else:
        control = PAPER_SETTINGS if stay.way is Way.PAPER else ShedderSettings(pressed=False)
        control = replace(control, every=1)
        done = run(drawn, Shedder.LOCAL, control, setting, seed=stay.seed)
    settled = done.is_settled
    span = float(settled.sum()) * setting.interval
    arrived, processed = float(done.used[settled].mean()) * span, len(done.settled_spent)
    kept, busy = processed / arrived, float(done.busy[settled].mean())
    expected = busy * span / processed / (1 - busy) if busy < 1 else float("inf")
    return Rest(
        way=stay.way,
        load=stay.load,
        seed=stay.seed,
        bound=setting.bound,
        kept=kept,
        busy=busy,
        latency=float(done.settled_spent.mean()),
        promised=kept * expected,
        expected=expected,
        replans=done.replans,
    )


def papers_shares(load: float, bound: float) -> Shares:
    """Keep as much of everything as the paper's p* = 1 / (lambda + 1/B) allows."""
    most = capacity(_ONE_SOURCE.second)
    share = most / (load * most + 1 / bound)
    types = {f"type={number}": min(1.0, share) for number in range(4)}
    return {stream: PatternShares(types) for stream in SERVICE.seconds}


def _limits(done: ExperimentRun, way: Way) -> "np.typing.NDArray[np.float64]":
    """Give the limit of each interval: by M/M/1 it depends on what arrives."""
    if way is not Way.PAPER:
        return np.full(len(done.starts), done.limit())
    arrivals = done.used * done.setting.bound
    return arrivals / (1 + arrivals)


def deviation(rows: Iterable[Moment]) -> float:
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
