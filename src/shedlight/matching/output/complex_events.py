"""From matches to complex events: what SELECT makes of the events of each match."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.language.ast import expression as ex
from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Expression
from shedlight.language.ast.pattern import Item, negated_elements
from shedlight.language.check.rules import SUMMED
from shedlight.language.eval.column import (
    Column,
    as_data_type,
    to_arrow,
    to_column,
    to_one_chunk,
)
from shedlight.language.eval.evaluate import evaluate
from shedlight.matching.compile.matcher import BEGAN, Matcher
from shedlight.matching.hashing import hash_keys
from shedlight.matching.jit import Array, compiled
from shedlight.matching.output.aggregates import fold, take_values, whole_numbers
from shedlight.matching.output.match_id import match_ids_of
from shedlight.matching.output.matches import Matches
from shedlight.matching.output.timed_out import timed_out_name
from shedlight.matching.permuted import row_column, row_values

SOURCE, TIME, ID, EVENTS = "source", "time", "id", "events"
"""The columns that every complex event has."""
OWN = frozenset({"pattern", SOURCE, TIME, ID, EVENTS})
"""Names that a complex event keeps for itself."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """The events of some matches: for each match and element, which rows are its own.

    `firsts` and `lasts` are rows of `Matches.events`, -1 where an element has none.
    """

    matches: Matches
    numbers: dict[str, int]

    @cached_property
    def lasts(self) -> Array:
        """The last row of each element."""
        lasts = np.full((len(self.matches), len(self.numbers)), -1, np.int64)
        _write_rows(self.matches.ends, self.matches.elements, lasts)
        return lasts

    @cached_property
    def firsts(self) -> Array:
        """The first row of each element."""
        of_match = _match_of_event(self.matches)
        firsts = np.full((len(self.matches), len(self.numbers)), -1, np.int64)
        back = np.arange(len(of_match))[::-1].copy()
        firsts[of_match[back], self.matches.elements[back]] = back
        return firsts

    def misses(self, variable: str) -> Array:
        """Say which matches have no event of an element."""
        return np.asarray(self.lasts[:, self.numbers[variable]] < 0)

    def last_events(self, variable: str, names: Sequence[str] | None = None) -> pa.Table:
        """Give the last event of an element in each match, null where it has none."""
        rows = self.lasts[:, self.numbers[variable]]
        missing = self.misses(variable)
        is_missing = missing.any()
        if len(self.matches.rows):
            rows = self.matches.rows[np.maximum(rows, 0) if is_missing else rows]
        return self.matches.table.take(rows, names, missing if is_missing else None)


def complex_events(  # noqa: PLR0913  # what is asked for, and of whom
    matcher: Matcher,
    matches: Matches,
    ids: Sequence[str],
    *,
    with_event_ids: bool = True,
    timed_out: bool = False,
    with_began: bool = False,
    sources: Sequence[tuple[str, int]] | None = None,
) -> pa.Table:
    """Make the complex events of matches: source, time, id, events, and what is selected.

    `ids` are the columns that identify an event. Of partial matches that timed out, ids are
    such that no match has them. The matches may be those of several patterns that select alike
    (`emission_shape`): `sources` has the name of each and how many matches it has.
    """
    sources = sources or [(matcher.name, len(matches))]
    named = [timed_out_name(name) if timed_out else name for name, _ in sources]
    numbers = [number for _, number in sources]
    keys = hash_keys([_key_column(matches, name) for name in ids], len(matches.rows))
    names = match_ids_of(named, numbers, matches.ends, keys)
    time, each = matches.time, None
    if matcher.pattern.each:
        each, position = _each(matches)
        positions = pa.array(position).cast(pa.string())
        names = pc.binary_join_element_wise(names.take(pa.array(each)), positions, "-")
        time = time[each]
    columns = {
        SOURCE: _source_column(sources, each, len(time)),
        TIME: pa.array(time, pa.int64()),
        ID: names,
    }
    if with_event_ids:
        listing = _event_ids(matches, matches.events(ids))
        columns[EVENTS] = listing if each is None else listing.take(pa.array(each))
    if with_began:
        began = _began(matches)
        columns[BEGAN] = pa.array(began if each is None else began[each])
    variables = {e.variable: i for i, e in enumerate(matcher.automaton.elements)}
    rows = _Rows(matches, variables)
    for item in _items(matcher):
        columns[item.name] = _selected(item.expression, rows, each)
    return pa.table(columns)


def emission_shape(matcher: Matcher) -> Hashable:
    """Give what patterns have in common whose complex events can be made together."""
    return (
        tuple(_items(matcher)),
        matcher.pattern.each,
        tuple(element.variable for element in matcher.automaton.elements),
        tuple((field.name, str(field.type)) for field in matcher.store_schema),
    )


def _source_column(
    sources: Sequence[tuple[str, int]], each: Array | None, size: int
) -> pa.Array:
    if len(sources) == 1:
        return pa.repeat(sources[0][0], size)
    numbers = np.repeat(np.arange(len(sources)), [number for _, number in sources])
    names = pa.array([name for name, _ in sources])
    return names.take(pa.array(numbers if each is None else numbers[each]))


def _began(matches: Matches) -> Array:
    """Say when the first event of a source happened that each match goes back to."""
    began = matches.start.copy()
    if len(matches) and BEGAN in matches.table.schema.names:
        inner = to_column(matches.events([BEGAN])[BEGAN])
        np.minimum.at(began, _match_of_event(matches)[inner.valid], inner.values[inner.valid])
    return began


def _items(matcher: Matcher) -> Sequence[Item]:
    """List what is selected; `*` is every element, or with EACH every column."""
    pattern = matcher.pattern
    if pattern.select:
        return pattern.select
    if pattern.each:
        names = [
            name
            for name in matcher.store_schema.names
            if name not in OWN and not name.startswith("#")  # those are our own
        ]
        return [Item(ex.Attribute("", (name,)), name) for name in names]
    nots = negated_elements(pattern.where)
    names = [e.variable for e in matcher.automaton.elements if e not in nots]
    return [Item(ex.WholeEvent(name), name) for name in names]


@compiled
def _write_rows(ends: Array, elements: Array, lasts: Array) -> None:
    """Write down the last row of each element of each match."""
    row = 0
    for match in range(ends.shape[0]):
        while row < ends[match]:
            lasts[match, elements[row]] = row
            row += 1


def _match_of_event(matches: Matches) -> Array:
    sizes = np.diff(matches.ends, prepend=0)
    return np.repeat(np.arange(len(matches)), sizes)


def _each(matches: Matches) -> tuple[Array, Array]:
    """Give the match of every event and its place in it."""
    of_match = _match_of_event(matches)
    starts = np.concatenate([[0], matches.ends[:-1]]) if len(matches) else np.zeros(0, np.int64)
    return of_match, np.arange(len(of_match)) - starts[of_match]


def _selected(expression: Expression, rows: _Rows, each: Array | None) -> pa.Array:
    """Compute one selected value for all matches, or with EACH for all their events."""
    values = _carried(expression, rows)
    if values is not None:
        is_of_match = each is not None and bool(ex.variables(expression))
        return values.take(pa.array(each)) if is_of_match else values
    size = len(rows.matches) if each is None else len(each)

    def lookup(node: Expression) -> Column:
        if isinstance(node, ex.Attribute) and not node.variable:
            return _event_column(rows.matches, node)
        column = _looked_up(node, rows)
        if each is None:
            return column
        return to_column(to_arrow(column).take(pa.array(each)))

    return to_arrow(evaluate(expression, size, lookup))


def _carried(expression: Expression, rows: _Rows) -> pa.Array | None:
    """Give whole events and attributes as they are, of any type; None: it must be computed."""
    if isinstance(expression, ex.WholeEvent):
        return _whole_events(expression, rows)
    if isinstance(expression, ex.Attribute):
        if expression.variable:
            table = rows.last_events(expression.variable, expression.path[:1])
        else:
            table = rows.matches.events(expression.path[:1])
        return _as_it_is(row_values(table, ex.Attribute("", expression.path)))
    positions = _positions(expression, rows)
    if positions is None or not isinstance(expression, ex.Aggregate):
        return None
    events = rows.matches.events(expression.path[:1])
    values = _as_it_is(row_values(events, ex.Attribute("", expression.path)))
    return take_values(values, positions)


def _positions(expression: Expression, rows: _Rows) -> Array | None:
    """Find the events that FIRST and LAST mean."""
    if not isinstance(expression, ex.Aggregate) or not expression.path:
        return None
    element = rows.numbers[expression.variable]
    if expression.function is ex.AggregateFunction.FIRST:
        return np.asarray(rows.firsts[:, element])
    if expression.function is ex.AggregateFunction.LAST:
        return np.asarray(rows.lasts[:, element])
    return None


def _as_it_is(values: pa.ChunkedArray) -> pa.Array:
    """Give values in one chunk; text and numbers of a form that few can read in a plain one."""
    kind = values.type
    is_rare = (
        pa.types.is_dictionary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_unsigned_integer(kind)
        or (pa.types.is_timestamp(kind) and kind.unit != "us")
    )
    return to_arrow(to_column(values)) if is_rare else to_one_chunk(values)


def _whole_events(node: ex.WholeEvent, rows: _Rows) -> pa.Array:
    stored = rows.matches.table.schema.names
    names = [name for name in stored if not name.startswith("#")]  # those are our own
    return _structs(rows.last_events(node.variable, names), rows.misses(node.variable))


def _looked_up(node: Expression, rows: _Rows) -> Column:
    """Find a value of each match: of the last event of an element, or over all of them."""
    if isinstance(node, ex.Aggregate):
        return _folded(node, rows)
    if isinstance(node, ex.WholeEvent):
        return to_column(_whole_events(node, rows))
    if isinstance(node, ex.Attribute):
        events = rows.last_events(node.variable, node.path[:1])
        return row_column(events, ex.Attribute("", node.path))
    raise TypeError(f"not a value of a match: {node}")


def _event_column(matches: Matches, node: ex.Attribute | ex.Aggregate) -> Column:
    """Give an attribute of the events of all matches."""
    return row_column(matches.events(node.path[:1]), ex.Attribute("", node.path))


def _structs(table: pa.Table, missing: Array | None = None) -> pa.Array:
    """Put whole rows into structs, null where a row is missing."""
    if not len(table):
        return pa.array([], pa.struct(list(table.schema)))
    columns = [to_one_chunk(column) for column in table.columns]
    mask = None if missing is None or not missing.any() else pa.array(missing)
    return pa.StructArray.from_arrays(columns, table.column_names, mask=mask)


def _folded(node: ex.Aggregate, rows: _Rows) -> Column:
    """Compute an aggregate over the events of one element."""
    element = rows.numbers[node.variable]
    matches = rows.matches
    mine = matches.elements == element
    of_match = _match_of_event(matches)[mine]
    size = len(matches)
    if not node.path:
        return whole_numbers(np.bincount(of_match, minlength=size))
    values = _event_column(matches, node)
    positions = _positions(node, rows)
    if positions is not None:
        return to_column(take_values(to_arrow(values), positions))
    if node.function in SUMMED and values.data_type is DataType.DECIMAL:
        values = as_data_type(values, DataType.DOUBLE)
    table = pa.table({"match": of_match, "value": to_arrow(values).filter(pa.array(mine))})
    if node.function is ex.AggregateFunction.COUNT:
        return whole_numbers(np.bincount(of_match[values.valid[mine]], minlength=size))
    return fold(table, node.function, values.data_type, size)


def _key_column(matches: Matches, name: str) -> Column:
    """Give an id column of these events; whole numbers without a null are the quick case."""
    values = matches.table.numbers(name, matches.rows)
    if values is None:
        return to_column(matches.events([name]).column(0))
    return Column(DataType.BIGINT, values, np.ones(len(values), np.bool_))


def _event_ids(matches: Matches, events: pa.Table) -> pa.Array:
    """List the ids of the events of each match, in the order taken."""
    is_plain = events.num_columns == 1
    values = to_one_chunk(events.column(0)) if is_plain else _structs(events)
    offsets = np.concatenate([[0], matches.ends]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)
