"""Runs the compiled matcher over the reference's events, so that the two can be compared."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pyarrow as pa

from shedlight.language.ast.pattern import Pattern
from shedlight.matching.kernel.match_state import MatchState
from shedlight.matching.kernel.records import BINDINGS, KEY_SLOTS, NODES, PARTIAL_MATCHES
from shedlight.matching.operators.cep_operator import (
    CepOperator,
    OperatorState,
    build_operator,
    new_operator_state,
    operator_keys,
)
from shedlight.matching.operators.classify import classify
from shedlight.matching.operators.reorder import StreamInput, admit_arrivals
from shedlight.matching.operators.step import ReadyBatch, match
from shedlight.matching.output.complex_events import complex_events
from shedlight.matching.output.matches import Matches
from shedlight.matching.permuted import row_column
from shedlight.matching.state.container import read_container, write_container
from shedlight.matching.state.saved import operator_sections, operator_state
from tests.reference import Event

SCHEMA = pa.schema(
    {
        "kind": pa.int64(),
        "x": pa.int64(),
        "y": pa.float64(),
        "key": pa.int64(),
        "name": pa.string(),
        "at": pa.int64(),
        "id0": pa.int64(),
        "id1": pa.string(),
    }
)

Found = tuple[int, tuple[int, ...], tuple[str, ...]]
"""A match: its time, the first column of the ids of its events, and who took each."""


def table_of(events: Sequence[Event]) -> pa.Table:
    """Put events into columns."""
    columns = {name: [e.values.get(name) for e in events] for name in SCHEMA.names[:5]}
    columns["at"] = [event.time for event in events]
    columns["id0"] = [event.id[0] for event in events]
    columns["id1"] = [event.id[1] if event.id[1:] else "" for event in events]
    return pa.table(columns, SCHEMA)


def operator_for(
    pattern: Pattern, lateness: Sequence[int] = (0, 0), *, timed_out: bool = False
) -> CepOperator:
    """Prepare a pattern for two inputs of the test schema."""
    inputs = [
        (StreamInput(f"input {i}", ("id0", "id1"), "at", late), SCHEMA)
        for i, late in enumerate(lateness)
    ]
    return build_operator(inputs, {"P": pattern}, timed_out={"P"} if timed_out else ())


def to_bytes(operator: CepOperator, state: OperatorState) -> bytes:
    """Save the state of an operator alone."""
    return write_container(operator_sections(operator, state))


def from_bytes(operator: CepOperator, data: bytes) -> OperatorState:
    """Read the saved state of an operator alone."""
    return operator_state(operator, read_container(data))


def run(
    operator: CepOperator,
    arrivals: Sequence[Event],
    cuts: Iterable[int] = (),
    *,
    saved: bool = True,
) -> tuple[list[Found], list[dict[str, object]], OperatorState]:
    """Match arrivals in batches that end at the cuts, with the state as bytes in between."""
    found, selected, _, _, state = run_all(operator, arrivals, cuts, saved=saved)
    return found, selected, state


def run_all(
    operator: CepOperator,
    arrivals: Sequence[Event],
    cuts: Iterable[int] = (),
    *,
    saved: bool = True,
) -> tuple[
    list[Found], list[dict[str, object]], list[Found], list[dict[str, object]], OperatorState
]:
    """Do the same, and give what timed out too."""
    state = new_operator_state(operator)
    bounds = [0, *sorted(cuts), len(arrivals)]
    found, selected, over, over_selected = [], [], [], []
    for start, end in pairwise(bounds):
        last = end == len(arrivals) and start == bounds[-2]
        state, matches = step(operator, state, arrivals[start:end], ended=last)
        found += listed(operator, matches)
        matcher, ended = operator.matchers[0], matches.timed_out
        selected += complex_events(matcher, matches, operator.ids).to_pylist()
        if ended is not None:
            over += listed(operator, ended)
            table = complex_events(matcher, ended, operator.ids, timed_out=True)
            over_selected += table.to_pylist()
        if saved:
            state = from_bytes(operator, to_bytes(operator, state))
    return found, selected, over, over_selected, state


def step(
    operator: CepOperator, state: OperatorState, arrivals: Sequence[Event], *, ended: bool
) -> tuple[OperatorState, Matches]:
    """Do what `operator.process` does, but give the matches themselves."""
    tables = {i: table_of([e for e in arrivals if e.input == i]) for i in (0, 1)}
    everyone = frozenset({0, 1}) if ended else frozenset[int]()
    reorder_buffer, table, _ = admit_arrivals(
        state.reorder_buffer, operator.inputs, tables, operator.dedup_horizon, everyone
    )
    types, numbers = classify(state.types, len(table), lambda node: row_column(table, node))
    ready = ReadyBatch(
        table.numbers("#time"),
        table,
        types,
        numbers,
        operator_keys(operator, table),
        reorder_buffer.watermark,
    )
    new, matches = match(operator.matchers[0], state.states[0], ready)
    check_sizes(new)
    return OperatorState(reorder_buffer, types, (new,)), matches


def check_sizes(state: MatchState) -> None:
    """Check that no more partial matches, nodes, keys, bindings are in use than there are."""
    counts, records = state.records.counts, state.records
    assert counts[PARTIAL_MATCHES] <= len(records.partial_matches)
    assert counts[NODES] <= len(records.nodes)
    assert counts[KEY_SLOTS] <= len(records.key_slots)
    assert counts[BINDINGS] <= len(state.bindings.records)


def listed(operator: CepOperator, matches: Matches) -> list[Found]:
    """Give matches as values that can be compared."""
    names = [element.variable for element in operator.matchers[0].automaton.elements]
    ids = matches.events(["id0"])["id0"].to_pylist()
    found, start = [], 0
    for time, end in zip(matches.time.tolist(), matches.ends.tolist(), strict=True):
        takers = tuple(names[i] for i in matches.elements[start:end])
        found.append((time, tuple(ids[start:end]), takers))
        start = end
    return found
