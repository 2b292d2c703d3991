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
from shedlight.matching.jit import Array
from shedlight.matching.operators.classify import gather
from shedlight.model.sampled.key_history import KeyHistory
from shedlight.shedding.key_knowledge import know_keys
from shedlight.shedding.shedder import event_hashes
from shedlight.shedding.stratum_shares import StrataTable


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
        self._keys = know_keys(application, self.operators)
        self._counts = {name: _Counts() for name in self.operators}
        self._recorders = {
            name: HistoryRecorder(self._keys[key].window)
            for name, key in self.operators.items()
        }

    @property
    def histories(self) -> Mapping[str, KeyHistory]:
        """The histories of a sample of keys so far, by operator."""
        return {name: each.history for name, each in self._recorders.items()}

    def table(self, operator: str) -> StrataTable:
        """Give the strata of the keys of an operator."""
        key = self.operators.get(operator)
        return StrataTable() if key is None else self._keys[key].table

    def count(self, server: Server, batch: ServiceBatch) -> None:
        """Count a batch of an operator, after it was matched."""
        key = self.operators.get(server.spec.name)
        if key is None:
            return
        ready, labels = batch.ready, server.decider.labels(batch.ready)
        hashes = next(iter(ready.keys.values()))[0]
        table, counts = self._keys[key].table, self._counts[server.spec.name]
        strata, names = table.find(hashes), table.names
        _count(counts.arrivals, names, strata, labels, ready.numbers)
        ids = event_hashes(ready.table, server.operator.ids)
        self._recorders[server.spec.name].add(ready, ids, strata - len(table.heavy), names)
        keys = self._keys[key].age(ready.watermark)
        for stream in server.spec.outputs:
            relevant = gather(server.decider.relevant(ready)[stream.name], ready.numbers)
            kept = batch.decided.masks[stream.name]
            mine = counts.kept.setdefault(stream.name, {})
            _count(mine, names, strata[kept], labels, ready.numbers[kept])
            results = server.result_keys.get(stream.name, np.zeros(0, np.int64))
            keys = keys.add(hashes[relevant], hashes[kept], results)
            numbers = np.bincount(table.find(results), minlength=len(names)).tolist()
            by_name = dict(zip(names, numbers, strict=True))
            counts.outputs.setdefault(stream.name, Counter()).update(by_name)
        self._keys[key] = keys

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
                for stratum in self._keys[key].table.names
            }
        self._keys = {key: known.renew() for key, known in self._keys.items()}
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
