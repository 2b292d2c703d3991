"""The operators of one group, run one after the other in one process; nothing of Spark is here.

Events of sources say themselves how far their stream is. Complex events from another node do
not, for they come from several groups in no common order: there, each group tells how far it
is (a `Mark`), and the stream is as far as the group that is furthest behind.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shedlight.automaton.intake import FOREVER, NEVER, Input
from shedlight.automaton.matching import Ready
from shedlight.automaton.operator import (
    Masks,
    Operator,
    OperatorState,
    build_operator,
    match_ready,
    new_operator_state,
    take_in,
)
from shedlight.automaton.pools import Array
from shedlight.automaton.selection import EVENTS, ID, TIME
from shedlight.engines.spark.layout import Part, key_name
from shedlight.graph import OperatorSpec, Stream
from shedlight.shedding.shares import PatternShares, Shares
from shedlight.shedding.shedder import event_hashes, kept_events, key_hashes

WORD = 62
"""How many patterns a column of keep flags is for."""


def kept_names(patterns: int) -> list[str]:
    """Name the columns that say which patterns of an operator keep an event."""
    return [f"#kept{number}" for number in range(-(-patterns // WORD))]


def carried(operator: str, name: str) -> str:
    """Name such a column while the events of several operators are in one table."""
    return f"{name} {operator}"


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a group is with a stream, in microseconds."""

    stream: Stream
    origin: int
    frontier: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSpec:
    """What all groups of a part need to know; it travels to where they run.

    Attributes:
        part: The operators.
        inputs: The external streams and the columns of each.
        origins: The groups that tell how far each external stream is.
        shares: What patterns keep; a pattern that is not in it keeps everything.
        windows: The longest window of each key, for shedding by key.
        listed: The patterns whose complex events list the ids of their events.
    """

    part: Part
    inputs: Mapping[Stream, tuple[Input, pa.Schema]]
    origins: Mapping[Stream, tuple[int, ...]]
    shares: Shares
    windows: Mapping[str, int]
    listed: frozenset[Stream]


@dataclass(frozen=True, slots=True, eq=False)
class Fused:
    """The operators of a part, ready to run.

    Attributes:
        spec: What they were built of.
        operators: Each after those that feed it, with its columns of keep flags if it sheds.
        outputs: The columns of the complex events of each pattern.
    """

    spec: PartSpec
    operators: tuple[Operator, ...]
    outputs: Mapping[Stream, pa.Schema]


@dataclass(frozen=True, slots=True, eq=False)
class FusedState:
    """Where a group stands: each operator, and how far its external streams are by origin."""

    operators: tuple[OperatorState, ...]
    marks: Mapping[tuple[str, int], int]


def build_fused(given: PartSpec) -> Fused:
    """Build the operators of a part."""
    known = dict(given.inputs)
    operators = []
    outputs: dict[Stream, pa.Schema] = {}
    for spec in given.part.operators:
        operator = build_operator([known[stream] for stream in spec.inputs], spec.patterns)
        for stream, schema in output_schemas(operator, spec, given.listed).items():
            outputs[stream] = schema
            known[stream] = outside_input(stream, schema)
        operators.append(_widened(operator) if sheds(spec, given.shares) else operator)
    return Fused(given, tuple(operators), outputs)


def output_schemas(
    operator: Operator, spec: OperatorSpec, listed: frozenset[Stream]
) -> Mapping[Stream, pa.Schema]:
    """Find the columns of the complex events of an operator's patterns."""
    state, ready, _ = take_in(operator, new_operator_state(operator), {}, frozenset())
    unlisted = {stream.name for stream in spec.outputs} - {one.name for one in listed}
    _, found = match_ready(operator, state, ready, {}, unlisted)
    return {stream: found[stream.name].schema for stream in spec.outputs}


def outside_input(stream: Stream, schema: pa.Schema) -> tuple[Input, pa.Schema]:
    """Describe complex events as an input that is told how far it is."""
    names = [name for name in schema.names if name != EVENTS]
    columns = pa.schema([schema.field(name) for name in names])
    return Input(str(stream), (ID,), TIME, FOREVER), columns


def sheds(spec: OperatorSpec, shares: Shares) -> bool:
    """Say whether a plan has shares for any pattern of an operator."""
    return any(stream in shares for stream in spec.outputs)


def _widened(operator: Operator) -> Operator:
    """Let events carry what was decided about them until they are ready."""
    flags = [pa.field(name, pa.int64()) for name in kept_names(len(operator.matchers))]
    return replace(operator, schema=pa.schema([*operator.schema, *flags]))


def new_fused_state(fused: Fused) -> FusedState:
    """Make the state before any event."""
    return FusedState(tuple(map(new_operator_state, fused.operators)), {})


def advance(
    fused: Fused,
    state: FusedState,
    arrivals: Mapping[Stream, pa.Table],
    marks: Iterable[Mark],
) -> tuple[FusedState, Mapping[Stream, pa.Table]]:
    """Take in what arrived at a group, and match what is ready.

    Args:
        fused: The operators.
        state: Where the group stands; not changed.
        arrivals: New events of external streams, in any order.
        marks: How far origins are with these streams, the new events included.

    Returns:
        The new state, and the complex events of each pattern.
    """
    told = dict(state.marks)
    for mark in marks:
        place = (str(mark.stream), mark.origin)
        told[place] = max(told.get(place, NEVER), mark.frontier)
    tables = {stream: table.sort_by(_time(fused, stream)) for stream, table in arrivals.items()}
    frontiers = {
        stream: min(told.get((str(stream), origin), NEVER) for origin in origins)
        for stream, origins in fused.spec.origins.items()
    }
    states, found = [], {}
    for spec, operator, old in zip(
        fused.spec.part.operators, fused.operators, state.operators, strict=True
    ):
        new, results = _run(fused, (spec, operator), old, tables, frontiers)
        states.append(new)
        for stream in spec.outputs:
            found[stream] = tables[stream] = results[stream.name]
            frontiers[stream] = new.waiting.frontier
    return FusedState(tuple(states), told), found


def frontiers_of(fused: Fused, state: FusedState) -> Mapping[str, int]:
    """Say how far each operator is: all its complex events before that time are out."""
    names = (spec.name for spec in fused.spec.part.operators)
    return dict(zip(names, (one.waiting.frontier for one in state.operators), strict=True))


def _time(fused: Fused, stream: Stream) -> str:
    return fused.spec.inputs[stream][0].time


def _run(
    fused: Fused,
    which: tuple[OperatorSpec, Operator],
    state: OperatorState,
    tables: Mapping[Stream, pa.Table],
    frontiers: Mapping[Stream, int],
) -> tuple[OperatorState, Mapping[str, pa.Table]]:
    """Run one operator: first what arrived, then how far its inputs are told to be."""
    spec, operator = which
    arrivals = {
        number: _own_columns(operator, spec, tables[stream])
        for number, stream in enumerate(spec.inputs)
        if stream in tables and len(tables[stream])
    }
    unlisted = {stream.name for stream in spec.outputs} - {s.name for s in fused.spec.listed}
    parts = []
    for step in (arrivals, None):
        if step is None:
            state = _told(state, [frontiers[stream] for stream in spec.inputs])
        state, ready, _ = take_in(operator, state, step or {}, frozenset())
        masks = decided(fused.spec, spec, operator, ready)
        state, found = match_ready(operator, state, ready, masks, unlisted)
        parts.append(found)
    return state, {
        name: pa.concat_tables([part[name] for part in parts]) for name in spec.patterns
    }


def _own_columns(operator: Operator, spec: OperatorSpec, table: pa.Table) -> pa.Table:
    """Take the columns that an operator knows, and its own keep flags among those."""
    flags = {carried(spec.name, name): name for name in kept_names(len(operator.matchers))}
    names = [flags.get(name, name) for name in table.column_names]
    table = table.rename_columns(names)
    return table.select([name for name in names if name in operator.schema.names])


def _told(state: OperatorState, frontiers: list[int]) -> OperatorState:
    """Move the frontiers of inputs ahead."""
    seen = tuple(
        replace(one, frontier=max(one.frontier, frontier))
        for one, frontier in zip(state.waiting.seen, frontiers, strict=True)
    )
    return replace(state, waiting=replace(state.waiting, seen=seen))


def decided(given: PartSpec, spec: OperatorSpec, operator: Operator, ready: Ready) -> Masks:
    """Say which events each pattern gets to see: as they carry it, or by their hashes here."""
    if not sheds(spec, given.shares):
        return {}
    words = [ready.table[name] for name in kept_names(len(operator.matchers))]
    carries = np.asarray(words[0].is_valid())
    flags = [word.fill_null(0).to_numpy() for word in words]
    masks = {}
    for number, stream in enumerate(spec.outputs):
        mask = (flags[number // WORD] >> (number % WORD)) & 1 == 1
        if not carries.all():
            here = _by_hash(given, spec, operator, (ready, stream))
            mask = np.where(carries, mask, here)
        masks[stream.name] = mask
    return masks


def _by_hash(
    given: PartSpec, spec: OperatorSpec, operator: Operator, which: tuple[Ready, Stream]
) -> Array:
    ready, stream = which
    shares: PatternShares | None = given.shares.get(stream)
    if shares is None:
        return np.ones(len(ready.time), np.bool_)
    key = spec.patterns[stream.name].partition_by if shares.by_key else ()
    if key:
        window = given.windows.get(key_name(key), 1)
        hashes = key_hashes(ready.table, key, ready.time, window)
    else:
        hashes = event_hashes(ready.table, operator.ids)
    return kept_events(shares, ready.types, ready.numbers, hashes).mask
