"""The question why a pattern did not match, and its answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.errors import InputError, known_names
from shedlight.language.ast.pattern import Pattern, negated_elements
from shedlight.matching.jit import Array
from shedlight.matching.operators.cep_operator import CepOperator
from shedlight.matching.operators.reorder import FINE
from shedlight.why.causes import OTHER_TYPE
from shedlight.why.fit import fit_elements
from shedlight.why.judged_events import JudgedEvents, ShedRows, judge_events
from shedlight.why.obstacles import Obstacle, find_obstacles
from shedlight.why.owners import Owner, Owners, find_owners
from shedlight.why.search import Candidate, Field, find_candidates
from shedlight.why.shapes import find_shapes

_MOST_ANCHORS, _LEAST_ANCHORS = 60, 4  # around how many events candidates are looked for
_ROWS_SEARCHED = 10_000_000  # how many events all these searches may look at
_FINALISTS = 8  # how many candidates of a search are looked at closely
_NEAR_NAMES = 1000  # among how many other values one that was meant is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyQuestion:
    """About which events it is asked; what is given narrows it down, all of it together.

    Attributes:
        event: The id, a text for each of its columns.
        key: The key of the pattern, a text for each of its columns.
        since: The first timestamp, in microseconds.
        until: The last one.
    """

    event: tuple[str, ...] | None = None
    key: tuple[str, ...] | None = None
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A candidate that is no match, and why."""

    variables: tuple[str, ...]
    rows: tuple[int, ...]
    obstacles: tuple[Obstacle, ...]
    cost: float  # by which the search found it

    @property
    def distance(self) -> tuple[float, float]:
        """How far it is from a match."""
        return sum(obstacle.weight for obstacle in self.obstacles), self.cost


@dataclass(frozen=True, slots=True, eq=False)
class WhyAnswer:
    """Why a pattern did not match."""

    pattern: Pattern
    events: JudgedEvents
    asked: int  # how many events the question is about
    searched: int  # around how many of them candidates were looked for
    relevant: int  # how many there are that an element may take
    matches: tuple[Owner, ...]  # those with events that are asked about
    near_misses: tuple[NearMiss, ...]  # the nearest first


def explain(
    operator: CepOperator,
    name: str,
    tables: Sequence[pa.Table],
    question: WhyQuestion,
    shed: Mapping[int, ShedRows] | None = None,
) -> WhyAnswer:
    """Say why a pattern of an operator did not match.

    Args:
        operator: The operator.
        name: Of the pattern.
        tables: The events of its inputs, in the order of arrival.
        question: About which events.
        shed: What was shed of each input, by its number.

    Raises:
        InputError: There is no such event or key.
    """
    pattern = next(m.pattern for m in operator.matchers if m.name == name)
    events = judge_events(operator, pattern, tables, shed)
    asked = _asked_rows(events, pattern, question)
    owners = _owners_of(events, pattern, asked)
    search = Field(pattern, events, fit_elements(pattern, events), owners)
    relevant = _relevant(search, asked)
    if question.event is not None and not len(relevant):
        relevant = asked
    anchors = _choose_anchors(search, relevant)
    return WhyAnswer(
        pattern,
        events,
        len(asked),
        len(anchors),
        len(relevant),
        tuple(owners.matches_of(asked)),
        _near_misses(search, anchors),
    )


def _near_misses(search: Field, anchors: Sequence[int]) -> tuple[NearMiss, ...]:
    shapes = find_shapes(search.pattern.where)
    found: dict[frozenset[int], NearMiss] = {}
    for anchor in anchors:
        candidates = find_candidates(search, shapes, anchor)
        for candidate in sorted(candidates, key=lambda each: each.cost)[:_FINALISTS]:
            near = _near_miss(search, candidate)
            rows = frozenset(near.rows)
            if rows not in found or near.distance < found[rows].distance:
                found[rows] = near
    missed = (near for near in found.values() if near.obstacles)
    return tuple(sorted(missed, key=lambda near: near.distance))


def _near_miss(search: Field, candidate: Candidate) -> NearMiss:
    names = tuple(slot.variable for slot in candidate.shape.slots)
    obstacles = tuple(find_obstacles(search, candidate))
    return NearMiss(names, candidate.rows, obstacles, candidate.cost)


def _owners_of(events: JudgedEvents, pattern: Pattern, asked: Array) -> Owners:
    """Match the events of the keys that are asked about."""
    fine = events.verdict == FINE
    if pattern.partition_by:
        fine &= np.isin(events.keys, np.unique(events.keys[asked]))
    return find_owners(events, np.flatnonzero(fine), pattern)


def _relevant(search: Field, asked: Array) -> Array:
    """Choose the events that an element may take and no match has; else all that are asked."""
    absent = {element.variable for element in negated_elements(search.pattern.where)}
    fits = [fit for variable, fit in search.fits.items() if variable not in absent]
    least = np.min([fit.misfit[asked] for fit in fits], axis=0)
    free = ~search.owners.in_match[asked] | search.pattern.reuse
    relevant = asked[(least < OTHER_TYPE) & free]
    order = np.argsort(least[(least < OTHER_TYPE) & free], kind="stable")
    return relevant[order] if len(relevant) else asked[free]


def _choose_anchors(search: Field, relevant: Array) -> list[int]:
    if not len(relevant):
        return []
    time, reach = search.events.time, search.reach
    if search.counts_events:
        size = len(time)
    else:
        ends = np.searchsorted(time, [time[relevant[0]] - reach, time[relevant[0]] + reach])
        size = int(ends[1] - ends[0])
    most = min(_MOST_ANCHORS, max(_LEAST_ANCHORS, _ROWS_SEARCHED // max(size, 1)))
    return [int(row) for row in relevant[:most]]


def _asked_rows(events: JudgedEvents, pattern: Pattern, question: WhyQuestion) -> Array:
    asked = np.ones(len(events), np.bool_)
    if question.event is not None:
        asked &= _rows_of_event(events, question.event)
    if question.key is not None:
        asked &= _rows_of_key(events, pattern, question.key)
    if question.since is not None:
        asked &= events.time >= question.since
    if question.until is not None:
        asked &= events.time <= question.until
    if not asked.any():
        raise InputError("no event is of this key, id and time together; ask for less at once")
    return np.flatnonzero(asked)


def _rows_of_event(events: JudgedEvents, wanted: tuple[str, ...]) -> Array:
    found = np.zeros(len(events), np.bool_)
    for number, names in enumerate(events.ids):
        if len(names) == len(wanted):
            same = events.input == number
            for name, text in zip(names, wanted, strict=True):
                same &= _has_text(events.table[name], text)
            found |= same
    if not found.any():
        columns = " or ".join(",".join(names) for names in dict.fromkeys(events.ids))
        raise InputError(
            f"no event has the id {','.join(wanted)!r}; an id is what {columns} has: give it "
            "as it is in the file, or ask by key or time"
        )
    return found


def _rows_of_key(events: JudgedEvents, pattern: Pattern, wanted: tuple[str, ...]) -> Array:
    columns = [attribute.column for attribute in pattern.partition_by]
    if len(columns) != len(wanted):
        has = f"PARTITION BY {', '.join(columns)}" if columns else "no PARTITION BY"
        raise InputError(
            f"a key of {len(wanted)} values is asked for, and the pattern has {has}; give a "
            "value for each of its columns, or ask for an event or a time"
        )
    found = np.ones(len(events), np.bool_)
    for attribute, text in zip(pattern.partition_by, wanted, strict=True):
        values = events.table[attribute.path[0]]
        for name in attribute.path[1:]:
            values = pc.struct_field(values, name)
        same = _has_text(values, text)
        if not same.any():
            others = values.slice(0, _NEAR_NAMES).cast(pa.string()).unique().drop_null()
            raise InputError(
                f"no event has {attribute.column} = {text!r}; "
                f"{known_names(text, others.to_pylist())}"
            )
        found &= same
    return found


def _has_text(values: pa.ChunkedArray, text: str) -> Array:
    """Say which values are written as a text; numbers are read, `null` is null."""
    kind = values.type
    if text == "null":
        return np.asarray(values.is_null())
    try:
        wanted = pa.scalar(text).cast(kind)
    except (pa.ArrowException, ValueError):
        return np.zeros(len(values), np.bool_)
    return np.asarray(pc.fill_null(pc.equal(values, wanted), fill_value=False))
