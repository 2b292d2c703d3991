"""The nearest candidates around an event: a beam search over the slots of a shape.

The event takes one slot. Slot by slot, the nearest ones first, the best candidates so far are
joined with the events that fit best, and what stands between them and a match is added up.
Everything is computed for many candidates at once.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from shedlight.language.ast.expression import Attribute, Expression, variables, without_variable
from shedlight.language.ast.pattern import Pattern, WindowUnit, negated_elements
from shedlight.language.eval.column import Column
from shedlight.language.eval.evaluate import evaluate, is_true
from shedlight.matching.jit import Array
from shedlight.matching.operators.reorder import DUPLICATE, FINE, LATE
from shedlight.matching.permuted import row_column
from shedlight.why.causes import WEIGHTS, Cause
from shedlight.why.fit import ElementFit
from shedlight.why.judged_events import SHED, JudgedEvents
from shedlight.why.owners import Owners
from shedlight.why.shapes import Shape

_WIDTH = 16  # how many candidates go on to the next slot
_CHOICES = 512  # how many events are tried in a slot
_WINDOWS = 3  # how many windows before and after an event others are looked for
_SPREAD = 0.01  # what a window of distance weighs: of equals, the closest are shown
_VERDICTS = {LATE: Cause.LATE, DUPLICATE: Cause.DUPLICATE, SHED: Cause.SHED}


@dataclass(frozen=True, slots=True)
class Candidate:
    """Events for the slots of a shape, by their rows."""

    shape: Shape
    rows: tuple[int, ...]
    anchor: int  # the row of the event that it was looked for
    key: int  # the hash of the key that most of its events have
    cost: float  # what stands in the way, added up


@dataclass(frozen=True, eq=False)
class Field:
    """All that a search looks at."""

    pattern: Pattern
    events: JudgedEvents
    fits: Mapping[str, ElementFit]
    owners: Owners

    @cached_property
    def conditions(self) -> tuple[Expression, ...]:
        """The conditions across events, but for those of a NOT."""
        absent = {element.variable for element in negated_elements(self.pattern.where)}
        return tuple(c for c in self.pattern.conditions if not variables(c) & absent)

    @cached_property
    def base_cost(self) -> Mapping[str, Array]:
        """What stands between each event and each element, whatever else is chosen."""
        verdicts = np.zeros(len(self.events))
        for verdict, cause in _VERDICTS.items():
            verdicts[self.events.verdict == verdict] = WEIGHTS[cause]
        if not self.pattern.reuse:
            verdicts[self.owners.in_match] += WEIGHTS[Cause.CONSUMED]
        return {variable: fit.misfit + verdicts for variable, fit in self.fits.items()}

    @property
    def counts_events(self) -> bool:
        """Whether the window is one of events."""
        window = self.pattern.within
        return window is not None and window.unit is WindowUnit.EVENTS

    @cached_property
    def limit(self) -> int:
        """How far the last event may be from the first, in time or in events."""
        window = self.pattern.within
        if window is None:
            return 1 << 62
        return window.length - self.counts_events

    @property
    def reach(self) -> int:
        """How far before and after an event others are looked for."""
        return min(self.limit * _WINDOWS, 1 << 60)

    def positions(self, key: int) -> Array:
        """Give what the window measures: timestamps, or numbers of events of a key."""
        if not self.counts_events:
            return self.events.time
        counted = self.events.verdict == FINE
        return np.cumsum(counted & (self.events.keys == key))


def find_candidates(field: Field, shapes: Sequence[Shape], anchor: int) -> Iterator[Candidate]:
    """Find the nearest candidates that have an event, in any of its slots."""
    near = _Neighbourhood(field, anchor)
    for shape in shapes:
        own = [float(field.fits[e.variable].misfit[anchor]) for e in shape.slots]
        for slot in sorted(_outer_slots(shape), key=own.__getitem__):
            if own[slot] > min(own) + WEIGHTS[Cause.CONDITION] * 2:
                break
            yield from near.fill(shape, slot)


def _outer_slots(shape: Shape) -> list[int]:
    """List the first and the last slot of each variable."""
    names = [slot.variable for slot in shape.slots]
    first = {name: slot for slot, name in reversed(list(enumerate(names)))}
    return sorted({*first.values(), *map(shape.last_of, names)})


class _Neighbourhood:
    """The events around an event."""

    def __init__(self, field: Field, anchor: int) -> None:
        self._field, self._anchor = field, anchor
        self._position = position = field.positions(int(field.events.keys[anchor]))
        low, high = position[anchor] - field.reach, position[anchor] + field.reach
        self._low = int(np.searchsorted(position, low))
        self._high = int(np.searchsorted(position, high, side="right"))
        self._chosen: dict[str, tuple[Array, Array]] = {}

    def fill(self, shape: Shape, slot: int) -> Iterator[Candidate]:
        """Fill a shape, with the event in one slot."""
        rows = np.full((1, len(shape.slots)), -1)
        rows[0, slot] = self._anchor
        own = self._field.base_cost[shape.slots[slot].variable][self._anchor]
        cost, filled = np.array([own]), {slot}
        for other in sorted(range(len(shape.slots)), key=lambda i: (abs(i - slot), i)):
            if other != slot:
                filled.add(other)
                rows, cost = self._extend(shape, rows, cost, other, filled)
        total = cost + self._shape_cost(shape, rows)
        for each, sum_ in zip(rows.tolist(), total.tolist(), strict=True):
            yield Candidate(shape, tuple(each), self._anchor, self._main_key(each), sum_)

    def _main_key(self, rows: list[int]) -> int:
        """Find the key that most events have, that of the event in question if it can be."""
        keys = self._field.events.keys
        counts = Counter(keys[rows].tolist())
        return max(counts, key=lambda key: (counts[key], key == keys[self._anchor]))

    def _choices(self, variable: str) -> tuple[Array, Array]:
        """Choose the events that fit an element best, with what stands in their way."""
        if variable not in self._chosen:
            events, low, high = self._field.events, self._low, self._high
            cost = self._field.base_cost[variable][low:high].copy()
            away = np.abs(self._position[low:high] - self._position[self._anchor])
            rank = cost + _SPREAD * np.minimum(away / self._field.limit, _WINDOWS)
            other = events.keys[low:high] != events.keys[self._anchor]
            rank += WEIGHTS[Cause.KEY] * other
            best = np.arange(high - low)
            if len(best) > _CHOICES:
                best = np.sort(np.argpartition(rank, _CHOICES)[:_CHOICES])
            self._chosen[variable] = best + low, cost[best]
        return self._chosen[variable]

    def _extend(
        self, shape: Shape, rows: Array, cost: Array, slot: int, filled: set[int]
    ) -> tuple[Array, Array]:
        """Join candidates with the events for one more slot, and keep the best."""
        choices, own = self._choices(shape.slots[slot].variable)
        joined = np.repeat(rows, len(choices), axis=0)
        joined[:, slot] = np.tile(choices, len(rows))
        total = np.repeat(cost, len(choices)) + np.tile(own, len(rows))
        others = np.delete(joined, slot, axis=1)
        total[(others == joined[:, [slot]]).any(axis=1)] = np.inf
        for condition in self._field.conditions:
            holds = condition_holds(self._field.events, shape, condition, joined, slot, filled)
            if holds is not None:
                total += WEIGHTS[Cause.CONDITION] * ~holds
        rank = total + self._shape_cost(shape, joined)
        best = np.argsort(rank, kind="stable")[:_WIDTH]
        best = best[np.isfinite(rank[best])]
        return joined[best], total[best]

    def _shape_cost(self, shape: Shape, rows: Array) -> Array:
        """Weigh what events are to each other: their distance, order and keys."""
        if not len(rows):
            return np.zeros(0)
        cost = self._spread_cost(rows) + _order_cost(shape, rows)
        return cost + self._key_cost(rows) if self._field.pattern.partition_by else cost

    def _key_cost(self, rows: Array) -> Array:
        """Weigh how many keys there are too many."""
        keys, own = self._field.events.keys, self._field.events.keys[self._anchor]
        each = np.where(rows >= 0, keys[rows], own)
        ordered = np.sort(each, axis=1)
        more = (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
        return WEIGHTS[Cause.KEY] * more + 0.05 * (each != own).sum(axis=1)

    def _spread_cost(self, rows: Array) -> Array:
        """Weigh how far the events are apart, and whether that is too far."""
        places = np.where(rows >= 0, self._position[rows], self._position[self._anchor])
        width = (places.max(axis=1) - places.min(axis=1)) / self._field.limit
        beyond = np.minimum(np.maximum(width - 1, 0), _WINDOWS)
        return _SPREAD * width + (width > 1) * (WEIGHTS[Cause.WINDOW] + 0.2 * beyond)


def _order_cost(shape: Shape, rows: Array) -> Array:
    """Weigh whether events came in another order."""
    wrong = np.zeros(len(rows), np.int64)
    for first, second in shape.order:
        both = (rows[:, first] >= 0) & (rows[:, second] >= 0)
        wrong += both & (rows[:, first] > rows[:, second])
    return WEIGHTS[Cause.ORDER] * (wrong > 0) + 0.05 * wrong


def condition_holds(
    events: JudgedEvents,
    shape: Shape,
    condition: Expression,
    rows: Array,
    slot: int,
    filled: set[int],
) -> Array | None:
    """Say for which candidates a condition holds that the event of a slot completes.

    None: it is not about this slot, or others are not filled yet, or it has an element that
    was left out. Of a repeated element its last event counts, but for the slot itself.
    """
    own = shape.slots[slot].variable
    names = variables(condition)
    slots = {name: shape.last_of(name) for name in names}
    is_last = slots.get(own) == slot
    slots[own] = slot
    if own not in names or any(i < 0 or i not in filled for i in slots.values()):
        return None
    if not is_last and any((slot, other) in shape.order for other in slots.values()):
        return None

    def lookup(node: Expression) -> Column:
        if not isinstance(node, Attribute):
            raise TypeError(f"a condition speaks of attributes, not of {node}")
        taken = events.table.select([node.path[0]]).take(
            pa.array(rows[:, slots[node.variable]])
        )
        return row_column(taken, without_variable(node))

    return is_true(evaluate(condition, len(rows), lookup))
