"""The experiment on quality: how many results are left, and which, by shedder, load and data.

A job is one data set at one load with one seed. All shedders of a job have the same events and
the same bound. The global one is also run without pressure, which shows what pressure costs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from experiments.data_sets import (
    BALANCED,
    BORG_HALVES,
    BORG_ODD_EVEN,
    BURSTY,
    EXAMPLE,
    MIRRORED,
    SPARSE,
    DataSet,
    DrawnData,
)
from experiments.run import ExperimentRun, RunSetting, run
from experiments.shedders import ShedderSettings
from shedlight.engines.simulator.recall import Recall
from shedlight.engines.simulator.shedders import Shedder


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityRow:
    """One run: a row of the results, measured after the warm-up.

    Attributes:
        data: The data set.
        load: Of the bottleneck without shedding, over its capacity, on average.
        shedder: The shedder.
        pressed: Whether there was pressure between decisions.
        seed: Of the streams, or of the excerpt of the trace; and of the processing times.
        compression: How many times as fast as it happened; None if it was generated.
        events: Of source 2.
        sink1: Results of SEQ with SEQ.
        sink2: Results of AND with AND.
        results: Of both sinks.
        unshed: Results of both sinks if nothing is shed.
        unshed1: Results of SEQ with SEQ if nothing is shed.
        recall1: The share of these that is there, of the same events; None if there is none.
        precision1: The share of `sink1` that is there if nothing is shed, too.
        recall1_by_overlap: As `recall1`, if half of the events in common are enough.
        precision1_by_overlap: As `precision1`, if half of the events in common are enough.
        unshed2: As `unshed1`, of AND with AND; and so are those below.
        recall2: See there.
        precision2: See there.
        recall2_by_overlap: See there.
        precision2_by_overlap: See there.
        loss: The share of the results of `global` that is missing, as in the paper; less than
            nothing if there are more.
        lost_to_pressure: How many results more there are without pressure; None if it was not
            tried.
        bound: Seconds that an event may spend at the bottleneck, on average.
        limit: Busy seconds per second at which it would.
        busy: Busy time over that limit.
        latency: Mean seconds that processed events spent there.
        latency_95: Of 95 % of them, no more than this.
        over: The share of the intervals whose events spent more than the bound on average.
        pressure: The mean factor that pressure put on shares.
        replans: How many plans were made.
        planning_seconds: How long that took, in all.
        seconds: How long the run took on a processor.
    """

    data: str
    load: float
    shedder: Shedder
    pressed: bool
    seed: int
    compression: float | None
    events: int
    sink1: int
    sink2: int
    results: int
    unshed: int
    unshed1: int
    recall1: float | None
    precision1: float | None
    recall1_by_overlap: float | None
    precision1_by_overlap: float | None
    unshed2: int
    recall2: float | None
    precision2: float | None
    recall2_by_overlap: float | None
    precision2_by_overlap: float | None
    loss: float
    lost_to_pressure: int | None
    bound: float
    limit: float
    busy: float
    latency: float
    latency_95: float
    over: float
    pressure: float
    replans: int
    planning_seconds: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityExperiment:
    """The experiment.

    Attributes:
        name: The name of its files.
        data: The data sets.
        loads: In multiples of the capacity.
        seeds: How often each is run.
        setting: Bound and times.
        every: After how many intervals there is an observation; in less than the bound.
    """

    name: str
    data: tuple[DataSet, ...]
    loads: tuple[float, ...] = (1.2, 1.5, 2.0, 3.0)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    setting: RunSetting = field(default_factory=RunSetting)
    every: int = 2

    @property
    def jobs(self) -> tuple["QualityJob", ...]:
        """The jobs, which do not depend on one another."""
        return tuple(
            QualityJob(data, load, seed, replace(self.setting, window=data.window), self.every)
            for data, load, seed in product(self.data, self.loads, self.seeds)
        )


@dataclass(frozen=True, slots=True)
class QualityJob:
    """One data set at one load with one seed."""

    data: DataSet
    load: float
    seed: int
    setting: RunSetting
    every: int


FIGURE = QualityExperiment(
    name="quality",
    data=(BALANCED, MIRRORED, EXAMPLE, SPARSE, BURSTY, BORG_HALVES, BORG_ODD_EVEN),
)
QUICK = QualityExperiment(
    name="quality-quick",
    data=(BALANCED, MIRRORED, BORG_HALVES),
    loads=(2.0,),
    seeds=(1, 2),
    setting=RunSetting(duration=14.0, warm_up=6.0),
)

_RUNS = (
    (Shedder.NONE, True),
    (Shedder.GLOBAL, True),
    (Shedder.LOCAL, True),
    (Shedder.RANDOM, True),
    (Shedder.UTILITY, True),
)
_WITHOUT_PRESSURE = (Shedder.GLOBAL, False)


def run_job(job: QualityJob) -> tuple[QualityRow, ...]:
    """Run all shedders of a job."""
    data = job.data.draw(job.load, job.setting.duration, job.seed)

    def run_one(which: tuple[Shedder, bool]) -> ExperimentRun:
        control = ShedderSettings(every=job.every, with_pressure=which[1])
        return run(data, which[0], control, job.setting, seed=job.seed, with_outputs=True)

    runs = {which: run_one(which) for which in _RUNS}
    pressed = runs[Shedder.GLOBAL, True]
    # where there was no pressure, it would be the same without
    runs[_WITHOUT_PRESSURE] = (
        run_one(_WITHOUT_PRESSURE) if (pressed.pressure < 1).any() else pressed
    )
    return tuple(_quality_row(job, data, which, runs) for which in runs)


def _quality_row(
    job: QualityJob,
    data: DrawnData,
    which: tuple[Shedder, bool],
    runs: "dict[tuple[Shedder, bool], ExperimentRun]",
) -> QualityRow:
    shedder, pressed = which
    mine = runs[which]
    measured, times, limit = mine.is_measured, mine.measured_times, mine.limit()
    latencies = mine.latencies()[measured]
    best = _results(runs[Shedder.GLOBAL, True])
    results = _results(mine)
    unpressed = runs.get((shedder, False)) if pressed else None
    unshed = runs[Shedder.NONE, True]
    recalls = mine.compare_results(unshed)
    return QualityRow(
        data=job.data.name,
        load=job.load,
        shedder=shedder,
        pressed=pressed,
        seed=job.seed,
        compression=data.compression,
        events=int((data.tables["s2"]["time"].to_numpy() >= job.setting.warm_up * 1e6).sum()),
        sink1=mine.count_results("sink1"),
        sink2=mine.count_results("sink2"),
        results=results,
        unshed=_results(unshed),
        **_measures("1", recalls["sink1"]),
        **_measures("2", recalls["sink2"]),
        loss=1 - results / best if best else 0.0,
        lost_to_pressure=None if unpressed is None else _results(unpressed) - results,
        bound=job.setting.bound,
        limit=limit,
        busy=float(mine.busy[measured].mean()) / limit if limit else float("inf"),
        latency=float(times.mean()) if len(times) else 0.0,
        latency_95=float(np.quantile(times, 0.95)) if len(times) else 0.0,
        over=_share(latencies[~np.isnan(latencies)] > job.setting.bound),
        pressure=float(mine.pressure[measured[: len(mine.pressure)]].mean()),
        replans=mine.replans,
        planning_seconds=mine.planning_seconds,
        seconds=mine.seconds,
    )


def _measures(sink: str, recall: Recall) -> dict[str, Any]:
    """Give the columns of a sink."""
    return {
        f"unshed{sink}": recall.unshed,
        f"recall{sink}": recall.recall,
        f"precision{sink}": recall.precision,
        f"recall{sink}_by_overlap": recall.recall_by_overlap,
        f"precision{sink}_by_overlap": recall.precision_by_overlap,
    }


def _results(run: ExperimentRun) -> int:
    return sum(run.count_results(sink) for sink in run.results)


def _share(mask: "np.typing.NDArray[np.bool_]") -> float:
    return float(mask.mean()) if len(mask) else 0.0


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean, a minimum and a maximum."""

    mean: float
    minimum: float
    maximum: float


@dataclass(frozen=True, slots=True)
class SeedGroup:
    """The rows of one shedder on one data set at one load, over all seeds."""

    rows: tuple[QualityRow, ...]

    def spread(self, value: Callable[[QualityRow], float]) -> Spread:
        """Compute the mean, the minimum and the maximum of a value."""
        values = [value(row) for row in self.rows]
        return Spread(sum(values) / len(values), min(values), max(values))

    def mean(self, column: str) -> float | None:
        """Compute the mean of a column where it has values; None: nowhere."""
        values = [v for row in self.rows if (v := getattr(row, column)) is not None]
        return sum(values) / len(values) if values else None


GroupKey = tuple[str, float, Shedder, bool]
"""Data set, load, shedder, and whether there was pressure."""


def group_by_seed(rows: Iterable[QualityRow]) -> dict[GroupKey, SeedGroup]:
    """Group the rows of all seeds by the rest of their setting."""
    groups: dict[GroupKey, list[QualityRow]] = {}
    for row in rows:
        groups.setdefault((row.data, row.load, row.shedder, row.pressed), []).append(row)
    return {key: SeedGroup(tuple(group)) for key, group in groups.items()}


def data_and_loads(rows: Sequence[QualityRow]) -> Iterator[tuple[str, float]]:
    """Give each data set and load once, in the order of the rows."""
    yield from dict.fromkeys((row.data, row.load) for row in rows)
