"""Which events a run has shed for a pattern: decided again, by the plans that are on record.

An event was kept if the hash of its id, or of its key, was below the share of its type in the
plan of the micro-batch that read it. Where it is not on record which one did, all that may have
are asked; if they disagree, the event is taken to have come in order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shedlight.engines.spark.support.batch_record import BatchRecord, Row
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.found_record import FoundRecord
from shedlight.engines.spark.support.placement import NodeContext, node_context
from shedlight.engines.spark.support.read_spans import ReadSpans, read_spans
from shedlight.engines.spark.support.shed_record import (
    read_active,
    read_heavy,
    read_plan_shares,
)
from shedlight.graph import Application, Stream
from shedlight.graph.topology import key_name
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.hashing import hash_keys
from shedlight.matching.jit import Array
from shedlight.matching.operators.cep_operator import CepOperator, with_all_columns
from shedlight.matching.operators.classify import EventTypes, classify
from shedlight.matching.operators.reorder import judge_arrivals
from shedlight.matching.permuted import row_column
from shedlight.shedding.found_keys import NOTHING
from shedlight.shedding.shares import PatternShares, Shares
from shedlight.shedding.shedder import event_hashes, key_hashes, thresholds
from shedlight.shedding.strata import EventHashes, kept_by_strata
from shedlight.shedding.thresholds import salted_hashes
from shedlight.why.judged_events import Shedding, ShedRows


def shed_rows(
    application: Application,
    paths: CheckpointPaths,
    stream: Stream,
    operator: CepOperator,
    tables: Sequence[pa.Table],
) -> Mapping[int, ShedRows]:
    """Say which events of sources a run shed for a pattern, by the number of the input.

    The operator is that of the pattern, the tables are the events of its inputs.

    Raises:
        StateError: The record or a plan of it is damaged or gone.
    """
    spec = application.operators[str(stream.operator)]
    used = _read_used(application, paths, spec.node, stream)
    if used is None:
        return {}
    found = {}
    for number, (source, table) in enumerate(zip(spec.inputs, tables, strict=True)):
        if source.operator is None:
            spans = read_spans(used.rows, used.active, application.sources[source.name])
            found[number] = _shed_of(used, spans, _arrivals(operator, stream, number, table))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Used:
    """What the micro-batches of a node have used for a pattern."""

    node: str
    rows: tuple[Row, ...]  # the record
    active: Row | None
    plans: Mapping[int, PatternShares]  # by number; by others nothing is shed of it
    heavy: Mapping[int, tuple[int, ...]]  # the lists of heavy hitters, by number
    context: NodeContext
    found: FoundRecord  # what was known of keys that are shed in strata


def _read_used(
    application: Application, paths: CheckpointPaths, node: str, stream: Stream
) -> _Used | None:
    """Read the record of a node; None if it says nothing of the pattern."""
    folder, shed_at_all = paths.plan(node), dict[Stream, PatternShares]()
    for each in application.nodes:
        for number in {row["plan"] for row in BatchRecord(paths.plan(each) / "record").rows()}:
            shed_at_all |= read_plan_shares(paths.plan(each), number)
    rows = tuple(BatchRecord(folder / "record").rows())
    by_number: Mapping[int, Shares] = {
        number: read_plan_shares(folder, number) for number in {row["plan"] for row in rows}
    }
    plans = {number: each[stream] for number, each in by_number.items() if stream in each}
    if not plans:
        return None
    heavy = {number: read_heavy(folder, number) for number in {_heavy(row) for row in rows}}
    context = node_context(application, shed_at_all)
    found = FoundRecord(folder / "found")
    return _Used(node, rows, read_active(folder), plans, heavy, context, found)


def _heavy(row: Row) -> int:
    return int(row.get("heavy", 0))


@dataclass(frozen=True, slots=True, eq=False)
class _Arrivals:
    """The events of a source, and which of them a pattern can use."""

    stream: Stream  # the pattern
    matcher: Matcher
    ids: Sequence[str]
    table: pa.Table
    time: Array
    types: EventTypes
    numbers: Array  # the type of each event
    relevant: Array  # whether the pattern can use each event


def _arrivals(operator: CepOperator, stream: Stream, number: int, table: pa.Table) -> _Arrivals:
    place = next(i for i, each in enumerate(operator.matchers) if each.name == stream.name)
    table = with_all_columns(operator, {number: table})[number]
    time, _ = judge_arrivals(operator.inputs[number], table, operator.dedup_horizon)
    types, numbers = classify(
        operator.no_types, len(table), lambda node: row_column(table, node)
    )
    uses = [place in operator.dispatch.uses(each).patterns for each in types.signatures]
    return _Arrivals(
        stream,
        operator.matchers[place],
        operator.ids,
        table,
        time,
        types,
        numbers,
        np.array(uses, np.bool_)[numbers] if uses else np.zeros(0, np.bool_),
    )


def _shed_of(used: _Used, spans: ReadSpans, events: _Arrivals) -> ShedRows:
    """Decide about the events of a source."""
    first, end = spans.batches(events.time)
    asked = np.flatnonzero(events.relevant & (first < end))
    decisions = _Decisions(used, events)
    shed = decisions.shed(first[asked], asked)
    is_certain = _is_certain(decisions, (first[asked], end[asked]), asked, shed)
    rows, is_certain = asked[shed], is_certain[shed]
    batches = np.where(end - first == 1, first, -1)[rows]
    kinds = np.column_stack([first[rows], batches, events.numbers[rows], is_certain])
    kinds, numbers = np.unique(kinds, axis=0, return_inverse=True)
    of_row = np.full(len(events.time), -1)
    of_row[rows] = numbers.reshape(-1)
    return ShedRows(of_row, tuple(decisions.describe(*kind) for kind in kinds.tolist()))


def _is_certain(
    decisions: "_Decisions", places: tuple[Array, Array], rows: Array, shed: Array
) -> Array:
    """Say of which events all micro-batches that may have read them decided alike."""
    stretches = decisions.stretches
    first = np.searchsorted(stretches, places[0], side="right") - 1
    last = np.searchsorted(stretches, places[1] - 1, side="right") - 1
    is_certain = np.ones(len(rows), np.bool_)
    further = 1
    while (left := np.flatnonzero(is_certain & (first + further <= last))).size:
        others = decisions.shed(stretches[first[left] + further], rows[left])
        is_certain[left] = others == shed[left]
        further += 1
    return is_certain


class _Decisions:
    """Decides about events by what micro-batches used; these are named by their places."""

    def __init__(self, used: _Used, events: _Arrivals) -> None:
        self._used, self._events = used, events
        kinds = [
            (row["plan"], row.get("pressure", 1.0), _heavy(row), self._known(row))
            for row in used.rows
        ]
        distinct = list(dict.fromkeys(kinds))
        numbers = {kind: number for number, kind in enumerate(distinct)}
        self._kind = np.array([numbers[kind] for kind in kinds], np.int64)
        # the places from which on micro-batches used something else than the one before
        self.stretches = np.flatnonzero(np.diff(self._kind, prepend=-1))
        labels = [events.types.label(n) for n in range(len(events.types.signatures))]
        shares = [
            [_share(used.plans.get(plan), label, pressure) for label in labels]
            for plan, pressure, *_ in distinct
        ]
        self._distinct = distinct
        self._shares = np.array(shares).reshape(len(distinct), len(labels))
        self._thresholds = thresholds(self._shares)
        by_key = {number: each.by_key for number, each in used.plans.items()}
        self._by_key = np.array([by_key.get(plan, False) for plan, *_ in distinct])
        self._heavy = [heavy for _, _, heavy, _ in distinct]
        self._hashes = {by_key: _hashes(used, events, by_key) for by_key in {*self._by_key}}
        self._sampled = {heavy: _sampled(used, events, heavy) for heavy in {*self._heavy}}

    def _known(self, row: Row) -> int:
        """Number what was known of keys, if a plan sheds them in strata."""
        plan = self._used.plans.get(row["plan"])
        return int(row.get("found", 0)) if plan is not None and plan.strata else 0

    def _by_strata(self, kind: int, rows: Array) -> Array | None:
        """Say which events a plan keeps by their strata; None: it does not know any."""
        number, pressure, _, known = self._distinct[kind]
        plan = self._used.plans.get(number)
        if plan is None or not plan.strata:
            return None
        used, events = self._used, self._events
        name = events.stream.name
        found = used.found.read(known).get(str(events.stream.operator), NOTHING)
        hashes = EventHashes(
            _keys(events)[rows],
            _hashes(used, events, True)[rows],  # noqa: FBT003
            _hashes(used, events, False)[rows],  # noqa: FBT003
            found.opened(name),
        )
        shares, numbers = plan.lower_by(pressure), events.numbers[rows]
        return kept_by_strata(shares, found.table, events.types, numbers, hashes).mask

    def shed(self, places: Array, rows: Array) -> Array:
        """Say which events were shed, each by the micro-batch at its place."""
        kinds, numbers = self._kind[places], self._events.numbers[rows]
        hashes = np.zeros(len(rows), np.int64)
        sampled = np.zeros(len(rows), np.bool_)
        for by_key, each in self._hashes.items():
            mine = self._by_key[kinds] == by_key
            hashes[mine] = each[rows[mine]]
        for heavy, chosen in self._sampled.items():
            mine = np.array([each == heavy for each in self._heavy])[kinds]
            sampled[mine] = chosen[rows[mine]]
        kept = (self._shares[kinds, numbers] >= 1) | (hashes < self._thresholds[kinds, numbers])
        for kind in np.unique(kinds).tolist():
            mine = np.flatnonzero(kinds == kind)
            by_strata = self._by_strata(kind, rows[mine])
            if by_strata is not None:
                kept[mine] = by_strata
        return ~(kept | sampled)

    def describe(self, place: int, batch: int, number: int, is_certain: int) -> Shedding:
        """Give the facts about events of a type that were shed."""
        row, label = self._used.rows[place], self._events.types.label(number)
        plan = self._used.plans[row["plan"]]
        return Shedding(
            node=self._used.node,
            micro_batch=None if batch < 0 else self._used.rows[batch]["batch"],
            plan=row["plan"],
            event_type=label,
            share=_share(plan, label, 1.0),
            pressure=row.get("pressure", 1.0),
            by_key=plan.by_key,
            is_certain=bool(is_certain),
        )


def _share(shares: PatternShares | None, label: str, pressure: float) -> float:
    if shares is None:
        return 1.0
    lowered = shares.lower_by(pressure)
    return lowered.shares.get(label, lowered.mean)


def _hashes(used: _Used, events: _Arrivals, by_key: bool) -> Array:  # noqa: FBT001  # from a plan
    """Hash what decides about events: their ids, or their keys with an epoch."""
    key = events.matcher.pattern.partition_by if by_key else ()
    if not key:
        return event_hashes(events.table, events.ids)
    guard = used.context.guards.get(events.stream)
    if guard is not None and guard.epoch:
        return salted_hashes(_keys(events), events.time // guard.epoch)
    window = used.context.windows.get(key_name(key), 1)
    return key_hashes(events.table, key, events.time, window)


def _sampled(used: _Used, events: _Arrivals, heavy: int) -> Array:
    """Say which events the run kept for the unshed sample."""
    if events.stream not in used.context.sample.groups:
        return np.zeros(len(events.time), np.bool_)
    left_out = np.array(used.heavy[heavy], np.int64)
    return used.context.sample.choose(_keys(events), left_out)


def _keys(events: _Arrivals) -> Array:
    columns = [row_column(events.table, each) for each in events.matcher.pattern.partition_by]
    return hash_keys(columns, len(events.table))[0]
