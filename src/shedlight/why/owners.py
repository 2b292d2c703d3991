"""Which match, or which partial match, took each event: the matcher itself is asked."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shedlight.engines.tables import run_operator
from shedlight.language.ast.expression import Attribute
from shedlight.language.ast.pattern import Item, Pattern, elements, negated_elements
from shedlight.matching.hashing import hash_keys
from shedlight.matching.jit import Array
from shedlight.matching.operators.cep_operator import CepOperator, build_operator
from shedlight.matching.operators.reorder import INPUT, TIME, StreamInput
from shedlight.matching.output.complex_events import EVENTS
from shedlight.matching.output.match_id import match_ids
from shedlight.matching.permuted import row_column
from shedlight.why.judged_events import JudgedEvents

_ROW, _WHEN = "#row", "#when"  # the number of an event, and its timestamp
NOBODY = -1


@dataclass(frozen=True, slots=True)
class Owner:
    """A match, or a partial match that timed out: the rows of its events as it took them."""

    rows: tuple[int, ...]
    time: int  # of the match, or when it timed out
    is_match: bool


@dataclass(frozen=True, slots=True, eq=False)
class Owners:
    """Who took which event."""

    starts: Array  # where the rows of each owner begin; one more at the end
    rows: Array  # the rows of all owners
    times: Array  # when each matched, or timed out
    matches_from: int  # the number of the first that is a match
    of_row: Array  # the number of the owner of each event, or NOBODY; a match if there is one

    def owner(self, number: int) -> Owner:
        """Give an owner by its number."""
        rows = self.rows[self.starts[number] : self.starts[number + 1]]
        time = int(self.times[number])
        return Owner(tuple(rows.tolist()), time, number >= self.matches_from)

    @property
    def in_match(self) -> Array:
        """Say which events are in a match."""
        return np.asarray(self.of_row >= self.matches_from)

    def matches_of(self, rows: Array) -> list[Owner]:
        """List the matches that some events are in."""
        wanted = np.isin(self.rows, rows)
        numbers = np.searchsorted(self.starts, np.flatnonzero(wanted), side="right") - 1
        found = np.unique(numbers[numbers >= self.matches_from])
        return [self.owner(int(number)) for number in found]


def find_owners(events: JudgedEvents, rows: Array, pattern: Pattern) -> Owners:
    """Match some events, in the order of processing, and say who took which."""
    table = events.table.take(pa.array(rows)) if len(rows) < len(events) else events.table
    times = pa.array(events.time[rows])
    table = table.drop_columns([TIME, INPUT]).append_column(_WHEN, times)
    table = table.append_column(_ROW, pa.array(rows.astype(np.int64)))
    result = run_operator(_build_asked(pattern, table.schema), [table])
    found = [by_name["P"] for by_name in (result.timed_out, result.complex_events)]
    lists = [each[EVENTS].combine_chunks() for each in found]
    taken = np.concatenate([each.flatten().to_numpy() for each in lists])
    sizes = np.concatenate([each.value_lengths().to_numpy() for each in lists])
    of_row = np.full(len(events), NOBODY, np.int64)
    of_row[taken] = np.repeat(np.arange(len(sizes)), sizes)
    return Owners(
        np.concatenate([[0], np.cumsum(sizes)]),
        taken,
        np.concatenate([each["time"].to_numpy() for each in found]),
        len(lists[0]),
        of_row,
    )


def _build_asked(pattern: Pattern, schema: pa.Schema) -> CepOperator:
    """Build an operator that gives the rows of the events that the pattern takes."""
    absent = negated_elements(pattern.where)
    variable = next(e.variable for e in elements(pattern.where) if e not in absent)
    selected = (Item(Attribute(variable, (_ROW,)), "row"),)
    asked = replace(pattern, select=selected, each=False)
    stream = StreamInput("events", (_ROW,), _WHEN)
    return build_operator([(stream, schema)], {"P": asked}, timed_out=["P"])


def match_id_of(
    events: JudgedEvents, name: str, rows: tuple[int, ...], ids: tuple[str, ...]
) -> str:
    """Give the id that the complex event of a match has."""
    taken = events.table.take(pa.array(rows))
    columns = [row_column(taken, Attribute("", (column,))) for column in ids]
    keys = hash_keys(columns, len(rows))
    return str(match_ids(name, np.array([len(rows)]), keys)[0].as_py())
