"""The operators of one group, run one after the other in one process; nothing of Spark is here.

Events of sources say themselves how far their stream is. Complex events from another node do
not, for they come from several groups in no common order: there, each group tells how far it
is (a `Mark`), and the stream is as far as the group that is furthest behind. A group or a
source that has nothing to say is idle, and holds nobody back until it says something again.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache

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
from shedlight.engines.spark.layout import Part
from shedlight.engines.spark.tallies import Counting, Tally
from shedlight.graph import OperatorSpec, Stream
from shedlight.graph.keys import key_name
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
    """How far a group is with a stream, in microseconds, and whether it holds nobody back."""

    stream: Stream
    origin: int
    frontier: int
    idle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSpec:
    """What all groups of a part need to know; it travels to where they run.

    Attributes:
        part: The operators.
        inputs: The external streams and the columns of each.
        origins: The groups that tell how far each external stream is.
        shares: What patterns keep until told otherwise; one that is not in it never sheds.
        windows: The longest window of each key, for shedding by key.
        listed: The patterns whose complex events list the ids of their events.
        timed_out: The patterns of which somebody asks for what timed out.
    """

    part: Part
    inputs: Mapping[Stream, tuple[Input, pa.Schema]]
    origins: Mapping[Stream, tuple[int, ...]]
    shares: Shares
    windows: Mapping[str, int]
    listed: frozenset[Stream]
    timed_out: frozenset[Stream] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Fused:
    """The operators of a part, ready to run.

    Attributes:
        spec: What they were built of.
        operators: Each after those that feed it, with its columns of keep flags if it sheds.
        outputs: The columns of the complex events of each pattern, and of what timed out.
    """

    spec: PartSpec
    operators: tuple[Operator, ...]
    outputs: Mapping[Stream, pa.Schema]


@dataclass(frozen=True, slots=True, eq=False)
class FusedState:
    """Where a group stands.

    Attributes:
        operators: Where each operator stands.
        marks: How far external streams are, by stream and origin.
        idle: The origins of streams that hold nobody back.
    """

    operators: tuple[OperatorState, ...]
    marks: Mapping[tuple[str, int], int]
    idle: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Advanced:
    """What came of a micro-batch in a group.

    Attributes:
        found: The complex events of each pattern, and what timed out where it is asked for.
        late: The late events at each operator.
        tallies: What was counted at each operator.
        idle: The operators all of whose inputs are idle.
        together: What part of the seconds of all operators passed on the clock.
    """

    found: Mapping[Stream, pa.Table]
    late: Mapping[str, pa.Table]
    tallies: Mapping[str, Tally]
    idle: frozenset[str]
    together: float = 1.0


def build_fused(given: PartSpec) -> Fused:
    """Build the operators of a part."""
    known = dict(given.inputs)
    operators = []
    outputs: dict[Stream, pa.Schema] = {}
    for spec in given.part.operators:
        asked = {stream.name for stream in spec.outputs if stream in given.timed_out}
        inputs = [known[stream] for stream in spec.inputs]
        operator = build_operator(inputs, spec.patterns, timed_out=asked)
        for stream, schema in output_schemas(operator, spec, given.listed).items():
            outputs[stream] = schema
            known[stream] = outside_input(stream, schema)
        operators.append(_widened(operator) if sheds(spec, given.shares) else operator)
    return Fused(given, tuple(operators), outputs)


def output_schemas(
    operator: Operator, spec: OperatorSpec, listed: frozenset[Stream]
) -> Mapping[Stream, pa.Schema]:
    """Find the columns of the complex events of an operator's patterns, and what timed out."""
    state, ready, _ = take_in(operator, new_operator_state(operator), {}, frozenset())
    unlisted = {stream.name for stream in spec.outputs} - {one.name for one in listed}
    _, found = match_ready(operator, state, ready, {}, unlisted)
    return {Stream(name, spec.name): table.schema for name, table in found.items()}


def outside_input(stream: Stream, schema: pa.Schema) -> tuple[Input, pa.Schema]:
    """Describe complex events as an input that is told how far it is."""
    names = [name for name in schema.names if name != EVENTS]
    columns = pa.schema([schema.field(name) for name in names])
    return Input(str(stream), (ID,), TIME, FOREVER), columns


def sheds(spec: OperatorSpec, shares: Shares) -> bool:
    """Say whether a plan has shares for any pattern of an operator."""
    return any(stream in shares for stream in spec.outputs)


def passes(given: PartSpec, stream: Stream) -> bool:
    """Say whether complex events of another node come as they were packed there.

    They do where none is shed and all go to one group.
    """
    if stream.operator is None or len(given.part.groups) > 1:
        return False
    return not any(sheds(spec, given.shares) for spec in given.part.readers(stream))


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
    shares: Shares | None = None,
) -> tuple[FusedState, Advanced]:
    """Take in what arrived at a group, and match what is ready.

    Args:
        fused: The operators.
        state: Where the group stands; not changed.
        arrivals: New events of external streams, in any order.
        marks: How far origins are with these streams, the new events included.
        shares: What patterns keep now, where that is not decided yet; None: as at first.
    """
    told, idle = _with_marks(state, arrivals, marks)
    tables = {stream: _by_time(fused, stream, table) for stream, table in arrivals.items()}
    course = _Course(
        fused,
        tables,
        *_frontiers(fused, told, idle),
        fused.spec.shares if shares is None else shares,
    )
    states, together = run_all(fused, state, course.run)
    own = frozenset(str(spec.name) for spec in fused.spec.part.operators)
    silent = frozenset(name for name in own if name in course.silent)
    done = Advanced(course.found, course.late, course.tallies, silent, together)
    return FusedState(states, told, idle), done


_Run = Callable[[OperatorSpec, Operator, OperatorState], OperatorState]


def run_all(
    fused: Fused, state: FusedState, run: _Run
) -> tuple[tuple[OperatorState, ...], float]:
    """Run all operators of a group, those side by side that do not need each other.

    A group that is the only one of its part has its machine's other cores to itself; where
    there are several, they are side by side already.

    Returns:
        Where the operators stand, and what part of their seconds passed on the clock.
    """
    specs = fused.spec.part.operators
    new: dict[str, OperatorState] = {}
    spent = 0.0

    def one(place: int) -> float:
        start = time.perf_counter()
        spec = specs[place]
        new[spec.name] = run(spec, fused.operators[place], state.operators[place])
        return time.perf_counter() - start

    begun = time.perf_counter()
    for places in levels(specs):
        if len(places) == 1 or len(fused.spec.part.groups) > 1:
            spent += sum(map(one, places))
        else:
            spent += sum(_threads().map(one, places))
    together = (time.perf_counter() - begun) / spent if spent else 1.0
    return tuple(new[spec.name] for spec in specs), min(together, 1.0)


def levels(specs: Sequence[OperatorSpec]) -> list[list[int]]:
    """Put operators, each after those that feed it, into levels that do not feed themselves."""
    level: dict[str | None, int] = {}
    found: list[list[int]] = []
    for place, spec in enumerate(specs):
        own = 1 + max((level.get(stream.operator, -1) for stream in spec.inputs), default=-1)
        level[spec.name] = own
        found += [[] for _ in range(own + 1 - len(found))]
        found[own].append(place)
    return found


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(2, os.cpu_count() or 1), thread_name_prefix="operator")


def _with_marks(
    state: FusedState, arrivals: Mapping[Stream, pa.Table], marks: Iterable[Mark]
) -> tuple[dict[tuple[str, int], int], frozenset[tuple[str, int]]]:
    """Take in how far origins are, and which of them are idle; one with events is not."""
    told, idle = dict(state.marks), set(state.idle)
    for mark in marks:
        place = (str(mark.stream), mark.origin)
        told[place] = max(told.get(place, NEVER), mark.frontier)
        (idle.add if mark.idle else idle.discard)(place)
    heard = {str(stream) for stream, table in arrivals.items() if len(table)}
    return told, frozenset(place for place in idle if place[0] not in heard)


def _frontiers(
    fused: Fused,
    told: Mapping[tuple[str, int], int],
    idle: frozenset[tuple[str, int]],
) -> tuple[dict[Stream, int], set[Stream]]:
    """Say how far external streams are, and which of them are idle."""
    frontiers, silent = {}, set()
    for stream, origins in fused.spec.origins.items():
        places = [(str(stream), origin) for origin in origins]
        awake = [told.get(place, NEVER) for place in places if place not in idle]
        frontiers[stream] = min(awake) if awake else max(told.get(p, NEVER) for p in places)
        if not awake:
            silent.add(stream)
    return frontiers, silent


def frontiers_of(fused: Fused, state: FusedState) -> Mapping[str, int]:
    """Say how far each operator is: all its complex events before that time are out."""
    names = (spec.name for spec in fused.spec.part.operators)
    return dict(zip(names, (one.waiting.frontier for one in state.operators), strict=True))


def _by_time(fused: Fused, stream: Stream, table: pa.Table) -> pa.Table:
    """Sort events by time, unless they are sorted already."""
    name = fused.spec.inputs[stream][0].time
    times = table[name].to_numpy()
    return table if (times[1:] >= times[:-1]).all() else table.sort_by(name)


class _Course:
    """The way of a micro-batch through the operators of a group."""

    def __init__(
        self,
        fused: Fused,
        tables: dict[Stream, pa.Table],
        frontiers: dict[Stream, int],
        idle: set[Stream],
        shares: Shares,
    ) -> None:
        self._fused, self._tables, self._frontiers = fused, tables, frontiers
        self._idle, self._shares = idle, shares
        spec = fused.spec
        self._uncounted = {
            *spec.part.outputs,
            *(s for s in spec.part.external if passes(spec, s)),
        }
        self.found: dict[Stream, pa.Table] = {}
        self.late: dict[str, pa.Table] = {}
        self.tallies: dict[str, Tally] = {}
        self.silent: set[str] = set()

    def run(
        self, spec: OperatorSpec, operator: Operator, state: OperatorState
    ) -> OperatorState:
        """Run one operator: first what arrived, then how far its inputs are told to be."""
        tables = self._tables
        arrivals = {
            number: _own_columns(operator, spec, tables[stream])
            for number, stream in enumerate(spec.inputs)
            if stream in tables and len(tables[stream])
        }
        unlisted = {stream.name for stream in spec.outputs}
        unlisted -= {one.name for one in self._fused.spec.listed}
        ended = self._ended(spec, state)
        unique = all(stream.operator for stream in spec.inputs)  # nothing is emitted twice
        counting = Counting(spec, operator, self._uncounted)
        parts, late = [], []
        for step in (arrivals, None):
            if step is None:
                state = _told(state, [self._frontiers[stream] for stream in spec.inputs])
            state, ready, behind = take_in(operator, state, step or {}, ended, unique=unique)
            masks = decided(self._fused.spec, spec, operator, ready, self._shares)
            counting.starts(ready, masks)
            state, found = match_ready(
                operator, state, ready, masks, unlisted, counting.is_done
            )
            parts.append(found)
            late.append(behind)
        for name in parts[0]:
            both = [part[name] for part in parts]
            self.found[Stream(name, spec.name)] = pa.concat_tables(both)
        for stream in spec.outputs:
            tables[stream] = self.found[stream]
            self._frontiers[stream] = state.waiting.frontier
        self.late[spec.name] = pa.concat_tables(late)
        self.tallies[spec.name] = counting.tally(state)
        return state

    def _ended(self, spec: OperatorSpec, state: OperatorState) -> frozenset[int]:
        """Find the inputs that hold nobody back; if all are idle, the furthest leads."""
        idle = {number for number, one in enumerate(spec.inputs) if one in self._idle}
        if len(idle) < len(spec.inputs):
            return frozenset(idle)
        self.silent.add(spec.name)
        self._idle.update(spec.outputs)
        seen = state.waiting.seen
        far = [
            max(one.frontier, self._frontiers[stream])
            for one, stream in zip(seen, spec.inputs, strict=True)
        ]
        return frozenset(idle - {far.index(max(far))})


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


def decided(
    given: PartSpec, spec: OperatorSpec, operator: Operator, ready: Ready, shares: Shares
) -> Masks:
    """Say which events each pattern gets to see: as they carry it, or by their hashes here."""
    if not sheds(spec, given.shares):
        return {}
    words = [ready.table.column(name) for name in kept_names(len(operator.matchers))]
    carries = np.asarray(words[0].is_valid())
    flags = [word.fill_null(0).to_numpy() for word in words]
    masks = {}
    for number, stream in enumerate(spec.outputs):
        mask = (flags[number // WORD] >> (number % WORD)) & 1 == 1
        if not carries.all():
            here = _by_hash(given, (spec, operator), (ready, stream), shares)
            mask = np.where(carries, mask, here)
        if not mask.all():
            masks[stream.name] = mask
    return masks


def _by_hash(
    given: PartSpec,
    which: tuple[OperatorSpec, Operator],
    read: tuple[Ready, Stream],
    plan: Shares,
) -> Array:
    spec, operator = which
    ready, stream = read
    shares: PatternShares | None = plan.get(stream)
    if shares is None:
        return np.ones(len(ready.time), np.bool_)
    key = spec.patterns[stream.name].partition_by if shares.by_key else ()
    if key:
        window = given.windows.get(key_name(key), 1)
        hashes = key_hashes(ready.table, key, ready.time, window)
    else:
        hashes = event_hashes(ready.table, operator.ids)
    return kept_events(shares, ready.types, ready.numbers, hashes).mask
