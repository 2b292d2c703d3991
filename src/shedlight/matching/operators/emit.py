"""The complex events of all patterns of an operator in a batch.

A table is made of Arrow calls, and a call costs as much for ten rows as for ten thousand. So
patterns that select alike are put together: a thousand of them cost little more than one.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.output.complex_events import complex_events, emission_shape
from shedlight.matching.output.matches import Matches, merge_matches, no_matches
from shedlight.matching.output.timed_out import timed_out_name

Found = tuple[int, Sequence[Matches]]
"""The number of a pattern, and its matches, step by step."""


class Emitter:
    """Makes the complex events of an operator's patterns."""

    def __init__(self, matchers: Sequence[Matcher], ids: Sequence[str]) -> None:
        self._matchers, self._ids = matchers, ids
        shapes: dict[object, int] = {}
        self._shapes = [shapes.setdefault(emission_shape(m), len(shapes)) for m in matchers]
        self._nothing: dict[tuple[int, bool, bool], Mapping[str, pa.Table]] = {}

    def emit(self, found: Found, asked: "Asked") -> dict[str, pa.Table]:
        """Make the complex events of one pattern, and of what timed out if it is asked for."""
        number, matches = found
        matcher = self._matchers[number]
        made = [self._make(matcher, each, asked) for each in matches]
        tables = {matcher.name: pa.concat_tables(made)}
        if matcher.timed_out:
            tables[timed_out_name(matcher.name)] = pa.concat_tables(
                complex_events(matcher, each.timed_out, self._ids, timed_out=True)
                for each in matches
                if each.timed_out is not None
            )
        return tables

    def _make(
        self,
        matcher: Matcher,
        matches: Matches,
        asked: "Asked",
        sources: Sequence[tuple[str, int]] | None = None,
    ) -> pa.Table:
        event_ids, began = asked.of(matcher)
        return complex_events(
            matcher,
            matches,
            self._ids,
            with_event_ids=event_ids,
            with_began=began,
            sources=sources,
        )

    def emit_together(self, found: Iterable[Found], asked: "Asked") -> dict[str, pa.Table]:
        """Make the complex events of several patterns, at once where they select alike."""
        tables: dict[str, pa.Table] = {}
        alike: dict[tuple[int, bool, bool], list[tuple[int, Matches]]] = {}
        for number, matches in found:
            matcher = self._matchers[number]
            if matcher.timed_out or len(matches) > 1:
                tables |= self.emit((number, matches), asked)
            elif not len(matches[0]):
                tables |= self.nothing(number, asked)
            else:
                shape = (self._shapes[number], *asked.of(matcher))
                alike.setdefault(shape, []).append((number, matches[0]))
        for together in alike.values():
            matcher = self._matchers[together[0][0]]
            sources = [(self._matchers[number].name, len(each)) for number, each in together]
            parts = [each for _, each in together]
            merged = merge_matches(parts) if len(parts) > 1 else parts[0]
            table = self._make(matcher, merged, asked, sources)
            sizes = [len(each.rows if matcher.pattern.each else each) for _, each in together]
            starts = np.cumsum(sizes) - sizes
            for (name, _), start, size in zip(sources, starts.tolist(), sizes, strict=True):
                tables[name] = table.slice(start, size)
        return tables

    def nothing(self, number: int, asked: "Asked") -> Mapping[str, pa.Table]:
        """Give what a pattern that found nothing puts out: tables without a row."""
        matcher = self._matchers[number]
        key = (number, *asked.of(matcher))
        if key not in self._nothing:
            none = no_matches(matcher.store_schema)
            tables = {matcher.name: self._make(matcher, none, asked)}
            if matcher.timed_out:
                over = complex_events(matcher, none, self._ids, timed_out=True)
                tables[timed_out_name(matcher.name)] = over
            self._nothing[key] = tables
        return self._nothing[key]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for in addition to what patterns select."""

    without_event_ids: Container[str]  # patterns that need no list of the events of a match
    with_began: Container[str]  # patterns that must say when their complex events began

    def of(self, matcher: Matcher) -> tuple[bool, bool]:
        """Say whether event ids, and when it began, are asked for of one pattern."""
        return matcher.name not in self.without_event_ids, matcher.name in self.with_began
