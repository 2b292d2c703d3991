"""An operator at work: arrivals in, complex events of all its patterns out."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from shedlight.errors import InputError, known_names
from shedlight.language import check
from shedlight.language.ast.data_type import DataType, Schema
from shedlight.language.ast.expression import Attribute, Expression
from shedlight.language.ast.pattern import Pattern, WindowUnit, elements
from shedlight.language.eval.column import data_type_of_arrow
from shedlight.matching.compile.dispatch import Dispatch
from shedlight.matching.compile.matcher import MAX_PARTIAL_MATCHES, Matcher, build_matcher
from shedlight.matching.compile.predicates import Alphabet
from shedlight.matching.compile.type_labels import build_vocabulary
from shedlight.matching.hashing import hash_keys
from shedlight.matching.jit import Array
from shedlight.matching.kernel.match_state import MatchState, new_state
from shedlight.matching.operators import reorder
from shedlight.matching.operators.classify import EventTypes, classify
from shedlight.matching.operators.emit import Asked, Emitter
from shedlight.matching.operators.offer import Offers
from shedlight.matching.operators.reorder import ReorderBuffer, StreamInput
from shedlight.matching.operators.step import ReadyBatch, match, match_offered
from shedlight.matching.output.matches import Matches
from shedlight.matching.output.timed_out import timed_out_name
from shedlight.matching.permuted import PermutedTable, row_column


@dataclass(frozen=True, eq=False)
class CepOperator:
    """Patterns over the same inputs."""

    inputs: tuple[StreamInput, ...]  # where events come from, in order of declaration
    schema: pa.Schema  # the columns of all inputs together
    alphabet: Alphabet  # what the patterns can tell apart
    matchers: tuple[Matcher, ...]  # the patterns

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The columns that identify an event of any input."""
        return tuple(dict.fromkeys(name for stream in self.inputs for name in stream.ids))

    @cached_property
    def dispatch(self) -> Dispatch:
        """Which patterns can use which event types."""
        return Dispatch(self.matchers)

    @cached_property
    def no_types(self) -> EventTypes:
        """The event types before any event; what is found out about them is kept here."""
        return EventTypes(self.alphabet)

    @cached_property
    def emitter(self) -> Emitter:
        """What makes the complex events of the patterns."""
        return Emitter(self.matchers, self.ids)

    @cached_property
    def dedup_horizon(self) -> int:
        """How long ids are remembered, in microseconds: the longest window."""
        windows = (matcher.pattern.within for matcher in self.matchers)
        return max((w.length for w in windows if w and w.unit is WindowUnit.TIME), default=0)


@dataclass(frozen=True, slots=True, eq=False)
class OperatorState:
    """Where an operator stands: reorder buffer, event types, patterns' partial matches."""

    reorder_buffer: ReorderBuffer
    types: EventTypes
    states: tuple[MatchState, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OperatorResult:
    """What came of a batch."""

    complex_events: Mapping[str, pa.Table]  # by pattern
    ready: int  # how many events were ready
    late: pa.Table  # those that were late
    # what timed out, by pattern; of those that were asked for it
    timed_out: Mapping[str, pa.Table] = field(default_factory=dict)


def build_operator(
    inputs: Sequence[tuple[StreamInput, pa.Schema]],
    patterns: Mapping[str, Pattern],
    cap: int = MAX_PARTIAL_MATCHES,
    timed_out: Container[str] = (),
) -> CepOperator:
    """Prepare patterns for inputs of known columns.

    Of each pattern, `cap` partial matches may be open; `timed_out` names the patterns that are
    asked for partial matches that time out.

    Raises:
        InputError: A time or id column is missing, or inputs have one of different types.
        LanguageError: A pattern does not fit the columns.
    """
    for stream, schema in inputs:
        _check_columns(stream, schema)
    schema = _common_schema(inputs)
    data_types = schema_of(schema)
    for pattern in patterns.values():
        check(pattern, data_types)
    all_elements = (e for pattern in patterns.values() for e in elements(pattern.where))
    vocabulary = build_vocabulary(all_elements)
    ids = dict.fromkeys(name for stream, _ in inputs for name in stream.ids)

    matchers = tuple(
        build_matcher(
            name,
            pattern,
            vocabulary,
            schema,
            ids=list(ids),
            data_type_of_row=lambda node: data_type_in(data_types, node),
            cap=cap,
            timed_out=name in timed_out,
        )
        for name, pattern in patterns.items()
    )
    return CepOperator(
        tuple(stream for stream, _ in inputs), schema, vocabulary.alphabet, matchers
    )


def new_operator_state(operator: CepOperator) -> OperatorState:
    """Make the state before any event."""
    return OperatorState(
        reorder.new_reorder_buffer(operator.schema, len(operator.inputs)),
        operator.no_types,
        tuple(map(new_state, operator.matchers)),
    )


Masks = Mapping[str, Array]
"""Which ready events each pattern gets to see, by its name; all, for one that is not in it."""


def step_operator(
    operator: CepOperator,
    state: OperatorState,
    arrivals: Mapping[int, pa.Table],
    inputs_not_awaited: frozenset[int] = frozenset(),
    shed: Callable[[ReadyBatch], Masks] | None = None,
    watermarks: Sequence[int] | None = None,
) -> tuple[OperatorState, OperatorResult]:
    """Take in arrivals and match what is ready; see `ingest` and `match_batch`.

    `shed` says which of the events that are ready each pattern gets to see (None: all).
    """
    state, ready, late = ingest(operator, state, arrivals, inputs_not_awaited, watermarks)
    state, outputs = match_batch(operator, state, ready, shed(ready) if shed else {})
    names = [matcher.name for matcher in operator.matchers]
    timed_out = ((name, timed_out_name(name)) for name in names)
    return state, OperatorResult(
        {name: outputs[name] for name in names},
        len(ready.time),
        late,
        {name: outputs[key] for name, key in timed_out if key in outputs},
    )


def ingest(
    operator: CepOperator,
    state: OperatorState,
    arrivals: Mapping[int, pa.Table],
    inputs_not_awaited: frozenset[int] = frozenset(),
    watermarks: Sequence[int] | None = None,
    *,
    unique: bool = False,
) -> tuple[OperatorState, ReadyBatch, pa.Table]:
    """Take in arrivals, and give the events that are ready and those that are late.

    Arrivals are by the number of their input, in the order of their arrival. Inputs that are
    not awaited have ended. Watermarks are those of each input after these arrivals; None: as
    they say. If events are known to be unique, no ids are remembered.
    """
    full = with_all_columns(operator, arrivals)
    length = None if unique else operator.dedup_horizon
    reorder_buffer, table, late = reorder.admit_arrivals(
        state.reorder_buffer, operator.inputs, full, length, inputs_not_awaited, watermarks
    )
    types, numbers = classify(state.types, len(table), lambda node: row_column(table, node))
    ready = ReadyBatch(
        table.numbers(reorder.TIME),
        table.without([reorder.TIME, reorder.INPUT]),
        types,
        numbers,
        operator_keys(operator, table),
        reorder_buffer.watermark,
        table.numbers(reorder.INPUT),
    )
    return replace(state, reorder_buffer=reorder_buffer, types=types), ready, late


MatchStep = Callable[
    [Matcher, MatchState, ReadyBatch, Array | None], tuple[MatchState, Sequence[Matches]]
]
"""Matches a batch in one step or several, each with its matches."""


def match_batch(  # noqa: PLR0913  # what the patterns of an operator see, and what is asked for
    operator: CepOperator,
    state: OperatorState,
    ready: ReadyBatch,
    masks: Masks,
    without_event_ids: Container[str] = (),
    *,
    on_pattern_done: Callable[[Matcher, MatchState, pa.Table], None] | None = None,
    steps: Mapping[str, MatchStep] | None = None,
    with_began: Container[str] = (),
) -> tuple[OperatorState, Mapping[str, pa.Table]]:
    """Match events that are ready, and give the complex events of each pattern.

    Those of partial matches that timed out, where a pattern is asked for them, are under the
    name that `timed_out_name` gives. The complex events of patterns `without_event_ids` need no
    list of them. When a pattern is done, `on_pattern_done` is called with its new state and
    what it found. The patterns in `steps` are matched by what is given there, and
    those in `with_began` say when their complex events began.
    """
    asked, emitter = Asked(without_event_ids, with_began), operator.emitter
    visits = _Visits(operator, state, ready, masks, steps or {})
    states, found = list(state.states), []
    outputs: dict[str, pa.Table] = {}
    for number, matcher in enumerate(operator.matchers):
        visited = visits.match(number, matcher)
        if visited is None:
            outputs |= emitter.nothing(number, asked)
            continue
        states[number], matches = visited
        if on_pattern_done is None:
            found.append((number, matches))
            continue
        outputs |= emitter.emit((number, matches), asked)
        on_pattern_done(matcher, states[number], outputs[matcher.name])
    outputs |= emitter.emit_together(found, asked)
    return replace(state, states=tuple(states)), outputs


class _Visits:
    """Matches a batch, pattern by pattern, but for those that it cannot change."""

    def __init__(
        self,
        operator: CepOperator,
        state: OperatorState,
        ready: ReadyBatch,
        masks: Masks,
        steps: Mapping[str, MatchStep],
    ) -> None:
        self._states, self._ready, self._masks, self._steps = state.states, ready, masks, steps
        self._offers = Offers(operator.dispatch, len(operator.matchers), ready)

    def match(
        self, number: int, matcher: Matcher
    ) -> tuple[MatchState, Sequence[Matches]] | None:
        """Match what a pattern can use; None if there is nothing and no window ends."""
        state, kept = self._states[number], self._masks.get(matcher.name)
        if matcher.name in self._steps:
            return self._steps[matcher.name](matcher, state, self._ready, kept)
        window = matcher.pattern.within
        if window is not None and window.unit is WindowUnit.EVENTS:  # any event counts
            new, matches = match(matcher, state, self._ready, kept)
            return new, [matches]
        if not self._offers.totals[number] and state.due >= self._ready.watermark:
            return None
        new, matches = match_offered(matcher, state, self._offers.offer(number, matcher, kept))
        return new, [matches]


def schema_of(schema: pa.Schema) -> Schema:
    """Give the data types of the columns; a field of a struct is named after its column."""
    data_types: dict[str, DataType] = {}

    def add(prefix: str, fields: Sequence[pa.Field]) -> None:
        for column in fields:
            data_types[prefix + column.name] = data_type_of_arrow(column.type)
            if pa.types.is_struct(column.type):
                add(f"{prefix}{column.name}.", list(column.type))

    add("", list(schema))
    return data_types


def data_type_in(schema: Schema, node: Expression) -> DataType:
    """Find the data type of an attribute.

    Raises:
        InputError: There is no such column.
    """
    if not isinstance(node, Attribute):
        raise TypeError(f"not an attribute: {node}")
    if node.column not in schema:
        raise InputError(
            f"there is no column {node.column!r}; {known_names(node.column, schema)}"
        )
    return schema[node.column]


def _check_columns(stream: StreamInput, schema: pa.Schema) -> None:
    for name in (stream.time, *stream.ids):
        if name not in schema.names:
            raise InputError(
                f"{stream.name} has no column {name!r}; {known_names(name, schema.names)}"
            )


def _common_schema(inputs: Sequence[tuple[StreamInput, pa.Schema]]) -> pa.Schema:
    try:
        return pa.unify_schemas([schema for _, schema in inputs], promote_options="permissive")
    except pa.ArrowException as error:
        names = ", ".join(stream.name for stream, _ in inputs)
        raise InputError(
            f"the inputs {names} have a column of one name and different data types ({error}); "
            "give one of them another name"
        ) from error


def with_all_columns(
    operator: CepOperator, arrivals: Mapping[int, pa.Table]
) -> dict[int, pa.Table]:
    """Give every input all columns, null where it has none of its own."""
    full = {}
    for number, table in arrivals.items():
        missing = [
            column for column in operator.schema if column.name not in table.column_names
        ]
        for column in missing:
            table = table.append_column(column, pa.nulls(len(table), column.type))  # noqa: PLW2901
        full[number] = table
    return full


def operator_keys(
    operator: CepOperator, table: pa.Table | PermutedTable
) -> dict[tuple[Attribute, ...], tuple[Array, Array]]:
    """Find the hashes of the key of every event, for each way to partition."""
    partitions = {matcher.pattern.partition_by for matcher in operator.matchers}
    return {
        by: hash_keys([row_column(table, attribute) for attribute in by], len(table))
        for by in partitions
        if by
    }
