"""Strata of keys in a simulation: which keys are of which, and what came of each stratum.

Strata are found by what arrived and was found so far, lately more than before, and hold from
the next interval on: as on Spark, where a micro-batch has the table that the one before made.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from shedlight.engines.simulator.api import StratumCounts
from shedlight.engines.simulator.history import HistoryRecorder
from shedlight.engines.simulator.server import Server, ServiceBatch
from shedlight.graph import Application
from shedlight.graph.strata import find_stratified
from shedlight.graph.topology import longest_windows, readers
from shedlight.matching.jit import Array
from shedlight.matching.operators.classify import gather
from shedlight.model.sampled.key_history import KeyHistory
from shedlight.shedding.heavy_hitters import RecentWork
from shedlight.shedding.key_yields import KeyYields
from shedlight.shedding.shedder import event_hashes
from shedlight.shedding.stratum_shares import StrataTable
from shedlight.shedding.thresholds import END

_NO_WINDOW = 60_000_000  # stands for that of patterns of one event, in microseconds
_AGING = 0.98  # what an event of a key says of its yield a window later


@dataclass(slots=True, eq=False)
class _Counts:
    """The counts of an operator in an interval, by stratum."""

    arrivals: dict[str, Counter[str]] = field(default_factory=dict)
    kept: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)
    outputs: dict[str, Counter[str]] = field(default_factory=dict)


class StrataTracker:
    """Finds the strata of keys, and counts what arrives, is kept and is found of each."""

    def __init__(self, application: Application) -> None:
        self.operators = find_stratified(application)  # with the names of their keys
        self._work = dict.fromkeys(self.operators.values(), RecentWork())
        self._tables = dict.fromkeys(self.operators.values(), StrataTable())
        self._counts = {name: _Counts() for name in self.operators}
        self._yields = dict.fromkeys(self.operators.values(), KeyYields())
        windows = longest_windows(application)
        self._windows = {key: windows.get(key, _NO_WINDOW) for key in self._work}
        # keys of patterns that only sinks read: what others yield in the end is not known
        self._classed = set(self._work) - {
            key
            for name, key in self.operators.items()
            if any(readers(application, each) for each in application.operators[name].outputs)
        }
        self._times: dict[str, int] = {}  # the event time until which yields were aged
        self._recorders = {
            name: HistoryRecorder(self._windows[key]) for name, key in self.operators.items()
        }

    @property
    def histories(self) -> Mapping[str, KeyHistory]:
        """The histories of a sample of keys so far, by operator."""
        return {name: each.history for name, each in self._recorders.items()}

    def table(self, operator: str) -> StrataTable:
        """Give the strata of the keys of an operator."""
        key = self.operators.get(operator)
        return StrataTable() if key is None else self._tables[key]

    def count(self, server: Server, batch: ServiceBatch) -> None:
        """Count a batch of an operator, after it was matched."""
        key = self.operators.get(server.spec.name)
        if key is None:
            return
        ready, labels = batch.ready, server.decider.labels(batch.ready)
        hashes = next(iter(ready.keys.values()))[0]
        table, counts = self._tables[key], self._counts[server.spec.name]
        strata, names = table.find(hashes), table.names
        _count(counts.arrivals, names, strata, labels, ready.numbers)
        ids = event_hashes(ready.table, server.operator.ids)
        self._recorders[server.spec.name].add(ready, ids, strata - len(table.heavy), names)
        self._age_yields(key, ready.watermark)
        for stream in server.spec.outputs:
            relevant = gather(server.decider.relevant(ready)[stream.name], ready.numbers)
            self._work[key] = self._work[key].add(hashes[relevant])
            kept = batch.decided.masks[stream.name]
            mine = counts.kept.setdefault(stream.name, {})
            _count(mine, names, strata[kept], labels, ready.numbers[kept])
            results = server.result_keys.get(stream.name, np.zeros(0, np.int64))
            added = self._yields[key].add(hashes[relevant], hashes[kept], results)
            self._yields[key] = added
            numbers = np.bincount(table.find(results), minlength=len(names)).tolist()
            by_name = dict(zip(names, numbers, strict=True))
            counts.outputs.setdefault(stream.name, Counter()).update(by_name)

    def _age_yields(self, key: str, time: int) -> None:
        """Let yields age by the event time that has passed, in windows."""
        before = self._times.get(key)
        if before is not None and before < time < END:
            windows = (time - before) / self._windows[key]
            self._yields[key] = self._yields[key].age(_AGING**windows)
        if time < END:
            self._times[key] = time

    def take(self) -> Mapping[str, Mapping[str, StratumCounts]]:
        """Give the counts of an interval, and begin the next with new heavy hitters."""
        taken = {}
        for recorder in self._recorders.values():
            recorder.end_batch()
        for name, key in self.operators.items():
            counts, self._counts[name] = self._counts[name], _Counts()
            taken[name] = {
                stratum: StratumCounts(
                    counts.arrivals.get(stratum, {}),
                    {p: by_name.get(stratum, {}) for p, by_name in counts.kept.items()},
                    {p: by_name.get(stratum, 0) for p, by_name in counts.outputs.items()},
                )
                for stratum in self._tables[key].names
            }
        for key, work in self._work.items():
            before = self._tables[key].heavy
            heavy = work.heavy_hitters(before)
            classes = self._yields[key].classes() if key in self._classed else {}
            self._tables[key] = StrataTable.of(heavy, classes)
            self._work[key] = work.age()
        return taken


def _count(
    counts: dict[str, Counter[str]],
    names: tuple[str, ...],
    strata: Array,
    labels: list[str],
    numbers: Array,
) -> None:
    """Count the events of each stratum and type."""
    size = len(labels)
    cells = np.bincount(strata * size + numbers, minlength=len(names) * size)
    for cell in np.flatnonzero(cells).tolist():
        stratum, number = divmod(cell, size)
        by_type = counts.setdefault(names[stratum], Counter())
        by_type[labels[number]] += int(cells[cell])
