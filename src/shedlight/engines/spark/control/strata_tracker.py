"""What the driver learns of keys that are shed in strata, and has the next micro-batch know.

Heavy hitters are found among the keys of some thousand events of each micro-batch, shed or not;
what keys yield, by what shards say of those that were kept; open keys, by the bits that shards
send where a plan asks for them. Strata are found anew when a decision is due, so that what was
counted of them is of one table; open keys after each micro-batch.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.sample_tracker import steady_share, wanted_share
from shedlight.engines.spark.control.stratum_rates import count_strata, shard_metrics
from shedlight.engines.spark.shed.keep_sql import PlannedNode
from shedlight.engines.spark.shed.strata_sql import KeyEvents
from shedlight.engines.spark.shed.type_catalog import TypeCatalog
from shedlight.engines.spark.step.strata_counts import from_text
from shedlight.engines.spark.support.plan_store import ActivePlan
from shedlight.graph import Application
from shedlight.graph.strata import find_stratified
from shedlight.matching.jit import Array
from shedlight.model.sampled.key_history import KeyHistory
from shedlight.shedding.found_keys import Found, FoundKeys
from shedlight.shedding.key_bitmap import KeyBitmap
from shedlight.shedding.key_knowledge import know_keys
from shedlight.shedding.key_sample import NAMES, KeySample, chances, strata_in_history
from shedlight.shedding.stratum_shares import StrataTable

FIRST_EVENTS = 500  # so many events of a micro-batch are in histories when they begin
MOST_EVENTS = 2000  # and no more than so many later

_Opened = dict[int, KeyBitmap]  # by shard


class KeyTracker:
    """Follows the keys of the operators of nodes that shed them in strata.

    What nodes know from before a restart is known again: their strata and open keys.
    """

    def __init__(self, application: Application, nodes: Mapping[str, PlannedNode]) -> None:
        self._nodes = nodes
        self._operators = {  # with the names of their keys
            name: key
            for name, key in find_stratified(application).items()
            for node in nodes.values()
            if name in node.catalogs and node.catalogs[name].by_strata
        }
        self._keys = know_keys(application, self._operators)
        self._samples = {
            name: KeySample(self._keys[key].window, share=0.0)
            for name, key in self._operators.items()
        }
        self._opened: dict[str, dict[str, _Opened]] = {name: {} for name in self._operators}
        self._opened_before: dict[str, Mapping[str, KeyBitmap]] = {}
        for node in nodes.values():
            active = node.plans.active
            for name, found in node.plans.found(active).items() if active else ():
                if name in self._operators:
                    key = self._operators[name]
                    self._keys[key] = replace(self._keys[key], table=found.table)
                    self._opened_before[name] = found.open

    @property
    def histories(self) -> Mapping[str, KeyHistory]:
        """The histories of a sample of keys so far, by operator."""
        known = {name: sample.history for name, sample in self._samples.items()}
        return {name: history for name, history in known.items() if len(history.time)}

    def add(self, report: MicroBatchReport) -> MicroBatchReport:
        """Take a micro-batch; give it with what was counted of strata."""
        node = self._nodes[report.node]
        mine = [name for name in self._operators if name in node.catalogs]
        if not mine:
            return report
        plan = node.plans.plan_for_batch(report.number)
        used = node.plans.found(plan)
        tables = {name: used[name].table if name in used else StrataTable() for name in mine}
        latest = [stats.latest for stats in report.arrived.values() if stats.latest is not None]
        for name in mine:
            self._learn(report, name, max(latest, default=None))
            seen = report.key_events.get(name, KeyEvents())
            self._record(name, node.catalogs[name], tables[name], seen, report.number)
            if not self._samples[name].share and seen.looked:
                share = min(1.0, FIRST_EVENTS * plan.looked_at / len(seen.looked))
                self._samples[name] = replace(self._samples[name], share=share)
        return replace(
            report,
            strata={
                name: count_strata(report, name, node.catalogs[name], tables[name])
                for name in mine
            },
        )

    def renew(self) -> None:
        """Find the strata of keys anew."""
        self._keys = {key: known.renew() for key, known in self._keys.items()}

    def update_plan(
        self, node: str, active: ActivePlan, report: MicroBatchReport
    ) -> ActivePlan:
        """Have the next micro-batch of a node know what is known by now."""
        planned = self._nodes[node]
        mine = [name for name in self._operators if name in planned.catalogs]
        if not mine:
            return active
        before = planned.plans.found(active) if active.found else {}
        found = {name: self._found(planned, name) for name in mine}
        if _differ(found, before):
            number = planned.plans.found_record.append(found, active.found)
            active = replace(active, found=number)
        share = max(self._samples[name].share for name in mine)
        looked_at = steady_share(active.looked_at, wanted_share(report))
        return replace(active, history=share, looked_at=looked_at)

    def _found(self, node: PlannedNode, operator: str) -> FoundKeys:
        """Say what is known; which keys are open, where all shards have said so."""
        table = self._keys[self._operators[operator]].table
        opened = dict(self._opened_before.get(operator, {}))
        shards = next(
            chain.spec.placement.shards
            for chain in node.chains
            if any(spec.name == operator for spec in chain.spec.placement.operators)
        )
        for pattern, by_shard in self._opened[operator].items():
            if len(by_shard) == len(shards):
                joined = KeyBitmap()
                for each in by_shard.values():
                    joined = joined.join(each)
                opened[pattern] = joined
        return FoundKeys(table, opened)

    def _learn(self, report: MicroBatchReport, operator: str, latest: int | None) -> None:
        """Learn what keys there are and what they yield, and which are open."""
        key = self._operators[operator]
        looked = np.array(report.key_events.get(operator, KeyEvents()).looked, np.int64)
        kept, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        opened, named = self._opened[operator], set[str]()
        shards = list(shard_metrics(report, operator))
        for shard, metrics in shards:
            keys, times_kept, results = from_text(metrics.keys, 3)
            kept.append(np.repeat(keys, times_kept))
            found.append(np.repeat(keys, results))
            for pattern, text in metrics.opened.items():
                named.add(pattern)
                opened.setdefault(pattern, {})[shard] = KeyBitmap(from_text(text))
        if shards:  # of other patterns nobody asks any more
            before = self._opened_before.get(operator, {})
            self._opened[operator] = {n: each for n, each in opened.items() if n in named}
            self._opened_before[operator] = {
                n: each for n, each in before.items() if n in named
            }
        known = self._keys[key] if latest is None else self._keys[key].age(latest)
        self._keys[key] = known.add(looked, np.concatenate(kept), np.concatenate(found))

    def _record(
        self,
        operator: str,
        catalog: TypeCatalog,
        table: StrataTable,
        seen: KeyEvents,
        batch: int,
    ) -> None:
        """Add to the histories of an operator's keys."""
        sample = self._samples[operator]
        rows = np.array(seen.histories, np.int64).reshape(-1, 4)
        rows = rows[np.lexsort((rows[:, 3], rows[:, 0]))]
        strata = table.find(rows[:, 1]) - len(table.heavy)
        rows, strata = rows[strata >= 0], strata[strata >= 0]
        more = KeyHistory(
            catalog.labels,
            NAMES,
            rows[:, 0],
            np.stack([rows[:, 1], np.zeros_like(rows[:, 1])], axis=1),
            rows[:, 2].astype(np.int32),
            chances(rows[:, 3]),
            strata_in_history(strata, table.names),
            np.full(len(rows), batch),
        )
        sample = sample.add(more)
        if len(rows) > MOST_EVENTS:
            sample = sample.limit(sample.share / 2)
        self._samples[operator] = sample


def _differ(found: Found, before: Found) -> bool:
    return found.keys() != before.keys() or any(
        not _is_same(mine, before[name]) for name, mine in found.items()
    )


def _is_same(one: FoundKeys, other: FoundKeys) -> bool:
    if one.table.classes != other.table.classes or one.open.keys() != other.open.keys():
        return False
    pairs: list[tuple[Array, Array]] = [
        (one.table.heavy, other.table.heavy),
        (one.table.codes.words, other.table.codes.words),
        *((one.open[name].words, other.open[name].words) for name in one.open),
    ]
    return all(np.array_equal(mine, theirs) for mine, theirs in pairs)
