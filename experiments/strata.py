"""The experiment on strata: what is left of the results where keys are not alike.

A job is one data set at one load with one seed. All shedders of a job have the same events, and
the names of its keys are of its seed, so that means are over other heavy keys, too. The hash
keeps 0.9 / load of the keys, whatever comes of it; its results are compared at equal work,
which is the events that the bottleneck keeps.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import product
from pathlib import Path

import numpy as np

from experiments.keyed_data import (
    BOUND,
    DATA_SETS,
    NODE,
    PAIR,
    SECONDS_PER_EVENT,
    BorgFail,
    KeyedRun,
)
from experiments.shedders import planning_effort
from shedlight.control.controller import ControlSettings
from shedlight.control.strata import StrataSettings
from shedlight.engines.simulator import Interval, Simulation, simulate
from shedlight.engines.simulator.api import Policy
from shedlight.engines.simulator.policies import PressurePolicy
from shedlight.engines.simulator.shedders import Shedder, make_policy
from shedlight.matching.output.complex_events import TIME
from shedlight.shedding.shares import PatternShares, Shares

LIMIT = 1 / (1 + SECONDS_PER_EVENT / (BOUND - SECONDS_PER_EVENT))
"""Busy seconds per second at which events spend the bound: processing times are exponential."""

_AIM = 0.9
_OBSERVATIONS = 20  # after a switch of phases, before what is left counts again
_SWITCHING = "phases"  # the data set that has one, in the middle of a run


class KeyShedder(Enum):
    """Who sheds keys."""

    GLOBAL = "global"
    LOCAL = "local"
    RANDOM = "random"
    HASH = "hash"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrataRow:
    """One run: a row of the results, measured after the warm-up.

    Attributes:
        data: The data set.
        load: Of the bottleneck without shedding, in busy seconds per second.
        shedder: Who sheds; `global` and `local` do so in strata, `hash` by the key alone.
        seed: Of the events, the names of keys and the processing times.
        results: At the sink.
        unshed: Results if nothing is shed.
        kept: Events that the bottleneck kept.
        busy: Its busy time over its limit.
        before: Results per second before a switch of phases; None: there is none.
        after: The same from 20 observations after it on.
        replans: How many plans were made.
        planning_seconds: How long that took, in all.
        seconds: How long the run took on a processor.
    """

    data: str
    load: float
    shedder: KeyShedder
    seed: int
    results: int
    unshed: int
    kept: int
    busy: float
    before: float | None
    after: float | None
    replans: int
    planning_seconds: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StrataExperiment:
    """The experiment.

    Attributes:
        name: The name of its files.
        data: The names of the data sets.
        loads: In multiples of the capacity.
        seeds: How often each is run.
        duration: How long events come, in seconds; four times as long where phases switch.
        interval: Between two looks at the backlog, in seconds; an observation has two.
        folder: Where the files of the trace are; None: a stand-in is generated.
    """

    name: str
    data: tuple[str, ...] = tuple(DATA_SETS)
    loads: tuple[float, ...] = (1.2, 1.5, 2.0, 3.0, 5.0)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    duration: float = 120.0
    interval: float = 0.5
    folder: Path | None = None

    @property
    def jobs(self) -> tuple["StrataJob", ...]:
        """The jobs, which do not depend on one another."""
        return tuple(
            StrataJob(data, load, seed, self)
            for data, load, seed in product(self.data, self.loads, self.seeds)
        )


@dataclass(frozen=True, slots=True)
class StrataJob:
    """One data set at one load with one seed."""

    data: str
    load: float
    seed: int
    experiment: StrataExperiment

    @property
    def duration(self) -> float:
        """How long events come, in seconds."""
        return self.experiment.duration * (4 if self.data == _SWITCHING else 1)

    @property
    def warm_up(self) -> float:
        """Seconds before the measurement begins."""
        return self.duration / 4

    def draw(self) -> KeyedRun:
        """Draw the application and its events."""
        data = DATA_SETS[self.data]
        if isinstance(data, BorgFail):
            data = replace(data, folder=self.experiment.folder)
        return data.draw(self.load, self.duration, self.seed, self.seed)


FIGURE = StrataExperiment(name="strata")
QUICK = StrataExperiment(
    name="strata-quick", data=("half", "chain"), loads=(2.0,), seeds=(1, 2), duration=16.0
)


@dataclass(frozen=True, slots=True)
class _HashPolicy:
    """Keeps a share of the keys for good."""

    shares: Shares

    def decide(self, _interval: Interval) -> Shares:
        return self.shares


def _make_policy(shedder: KeyShedder, run: KeyedRun, load: float) -> Policy | None:
    if shedder is KeyShedder.HASH:
        share = min(1.0, _AIM / load)
        labels = dict.fromkeys(("type=0", "type=1"), share)
        return _HashPolicy({PAIR: PatternShares(labels, by_key=True, default_share=share)})
    settings = ControlSettings(strata=StrataSettings(enabled=True))
    return make_policy(Shedder(shedder.value), run.application, settings, 2)


def run_job(job: StrataJob) -> tuple[StrataRow, ...]:
    """Run all shedders of a job; `local` where there is more than one level."""
    run = job.draw()
    has_levels = len(run.application.operators) > 1
    shedders = [each for each in KeyShedder if has_levels or each is not KeyShedder.LOCAL]
    done = {each: _simulate(job, run, each) for each in shedders}
    unshed = done[KeyShedder.NONE].results
    return tuple(replace(row, unshed=unshed) for row in done.values())


def _simulate(job: StrataJob, run: KeyedRun, shedder: KeyShedder) -> StrataRow:
    began = time.process_time()
    policy = _make_policy(shedder, run, job.load)
    done = simulate(
        run.application,
        {"s": run.events},
        run.service,
        interval=job.experiment.interval,
        policy=policy,
        seed=job.seed,
        pace=run.pace,
        squeeze=False,
    )
    replans, planning = planning_effort(policy if isinstance(policy, PressurePolicy) else None)
    times = _arrival_seconds(run, done)
    before, after = rates_around_switch(job, times)
    return StrataRow(
        data=job.data,
        load=job.load,
        shedder=shedder,
        seed=job.seed,
        results=int((times >= job.warm_up).sum()),
        unshed=0,
        busy=_busy(done, job.warm_up),
        kept=sum(_kept(each) for each in done.intervals if _since(done, each) >= job.warm_up),
        before=before,
        after=after,
        replans=replans,
        planning_seconds=planning,
        seconds=time.process_time() - began,
    )


def _arrival_seconds(run: KeyedRun, done: Simulation) -> "np.typing.NDArray[np.float64]":
    """Say when the last events of results arrived, in seconds from the first event on."""
    first = int(run.events["time"][0].as_py())
    times = done.sinks["found"][TIME].to_numpy()
    return np.asarray((times - first) / 1e6 / run.pace, np.float64)


def rates_around_switch(
    job: StrataJob, times: "np.typing.NDArray[np.float64]"
) -> tuple[float, float] | tuple[None, None]:
    """Give results per second before a switch of phases, and from a while after it on."""
    if job.data != _SWITCHING:
        return None, None
    switch = job.duration / 2
    again = switch + 2 * _OBSERVATIONS * job.experiment.interval
    before = ((times >= job.warm_up) & (times < switch)).sum() / (switch - job.warm_up)
    return float(before), float((times >= again).sum() / (job.duration - again))


def _since(done: Simulation, interval: Interval) -> float:
    return interval.start - done.intervals[0].start


def _kept(interval: Interval) -> int:
    return sum(interval.kept.get(PAIR, {}).values())


def _busy(done: Simulation, warm_up: float) -> float:
    """Give busy time over the limit; in the last interval what is queued is worked off."""
    measured = [each for each in done.intervals[:-1] if _since(done, each) >= warm_up]
    busy = sum(each.busy[NODE] for each in measured)
    return busy / sum(each.length for each in measured) / LIMIT


@dataclass(frozen=True, slots=True)
class StrataGroup:
    """The rows of one data set at one load, by shedder, over all seeds."""

    rows: Mapping[KeyShedder, tuple[StrataRow, ...]]

    def left(self, shedder: KeyShedder) -> float | None:
        """Give the mean share of the results that is left; None: it was not run."""
        shares = [row.results / max(1, row.unshed) for row in self.rows.get(shedder, ())]
        return sum(shares) / len(shares) if shares else None

    def over(self, other: KeyShedder) -> float | None:
        """Give the results of `global` over those of another, over all seeds."""
        theirs = sum(row.results for row in self.rows.get(other, ()))
        mine = sum(row.results for row in self.rows[KeyShedder.GLOBAL])
        return mine / theirs if theirs else None

    @property
    def over_hash(self) -> float:
        """The results of `global` over those of a hash at equal work, over all seeds."""
        pairs = zip(self.rows[KeyShedder.GLOBAL], self.rows[KeyShedder.HASH], strict=True)
        equal = sum(theirs.results * mine.kept / max(1, theirs.kept) for mine, theirs in pairs)
        return sum(row.results for row in self.rows[KeyShedder.GLOBAL]) / max(1.0, equal)

    @property
    def busy(self) -> tuple[float, float]:
        """The least and the most busy time of `global` over its limit."""
        values = [row.busy for row in self.rows[KeyShedder.GLOBAL]]
        return min(values), max(values)

    @property
    def recovered(self) -> float | None:
        """Results after a switch of phases over those before; None: there is none."""
        rows = [r for r in self.rows[KeyShedder.GLOBAL] if r.before and r.after is not None]
        shares = [(row.after or 0.0) / (row.before or 1.0) for row in rows]
        return sum(shares) / len(shares) if shares else None


def group_rows(rows: list[StrataRow]) -> Iterator[tuple[str, float, StrataGroup]]:
    """Group rows by data set and load, in their order."""
    for data, load in dict.fromkeys((row.data, row.load) for row in rows):
        mine = [row for row in rows if (row.data, row.load) == (data, load)]
        by_shedder = {s: tuple(r for r in mine if r.shedder is s) for s in KeyShedder}
        yield data, load, StrataGroup({s: group for s, group in by_shedder.items() if group})
