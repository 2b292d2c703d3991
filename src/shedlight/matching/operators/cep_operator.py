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
from shedlight.matching.compile.matcher import MAX_PARTIAL_MATCHES, Matcher, build_matcher
from shedlight.matching.compile.predicates import Alphabet
from shedlight.matching.compile.type_labels import build_vocabulary
from shedlight.matching.hashing import hash_keys
from shedlight.matching.jit import Array
from shedlight.matching.kernel.match_state import MatchState, new_state
from shedlight.matching.operators import reorder
from shedlight.matching.operators.classify import EventTypes, classify
from shedlight.matching.operators.reorder import ReorderBuffer, StreamInput
from shedlight.matching.operators.step import ReadyBatch, match
from shedlight.matching.output.complex_events import complex_events
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
        EventTypes(operator.alphabet),
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
) -> tuple[OperatorState, OperatorResult]:
    """Take in arrivals and match what is ready; see `ingest` and `match_batch`.

    `shed` says which of the events that are ready each pattern gets to see (None: all).
    """
    state, ready, late = ingest(operator, state, arrivals, inputs_not_awaited)
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
    full = _completed(operator, arrivals)
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
    states, outputs = [], {}
    for matcher, old in zip(operator.matchers, state.states, strict=True):
        name = matcher.name
        step = (steps or {}).get(name, _match_at_once)
        new, matches = step(matcher, old, ready, masks.get(name))
        states.append(new)
        with_event_ids = name not in without_event_ids
        outputs[name] = pa.concat_tables(
            complex_events(
                matcher,
                each,
                operator.ids,
                with_event_ids=with_event_ids,
                with_began=name in with_began,
            )
            for each in matches
        )
        if matcher.timed_out:
            outputs[timed_out_name(name)] = pa.concat_tables(
                complex_events(matcher, each.timed_out, operator.ids, timed_out=True)
                for each in matches
                if each.timed_out is not None
            )
        if on_pattern_done is not None:
            on_pattern_done(matcher, new, outputs[name])
    return replace(state, states=tuple(states)), outputs


def _match_at_once(
    matcher: Matcher, state: MatchState, ready: ReadyBatch, kept: Array | None
) -> tuple[MatchState, Sequence[Matches]]:
    state, matches = match(matcher, state, ready, kept)
    return state, [matches]


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


def _completed(operator: CepOperator, arrivals: Mapping[int, pa.Table]) -> dict[int, pa.Table]:
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
