"""Nothing is invented: a checker of what applications emit under shedding.

It shares no code with engines or planner. It reads the events of sources, the record of for
which keys the patterns of protected closures were whole, and what all patterns emitted, and
works out by the slow reference what may have been emitted:

- Every complex event is a word of its pattern, down to events of the sources.
- A pattern that watches something emits exactly what it emits without shedding on each stretch
  of event time in which its key was whole in all that it depends on, less what began too soon
  after the beginning of the stretch. A pattern that it reads may have been whole for longer,
  and pairs its events by what was before: of that, it sees what began within its own stretch.
  Without a key, and with events shed that it need not see, it emits no more than words in which
  nothing that it watches happened.

It knows the applications of `tests/drawn_graphs.py`: conditions are `x.type = 1` on events of
sources and `x.source = 'P'` on complex events, keys are called `key` everywhere.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from shedlight.graph import Application, Stream
from shedlight.language.ast import expression as ex
from shedlight.language.ast import pattern as ast
from tests.reference import Event, Match, match_and_time_out, selected

BEGINNING, END = -(1 << 62), 1 << 62
MASK = (1 << 64) - 1
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def hash_number(value: int, seed: int) -> int:
    """Give xxHash64 of a whole number, as Spark computes it."""

    def rotated(number: int, by: int) -> int:
        return (number << by | number >> (64 - by)) & MASK

    mixed = rotated(value * P2 & MASK, 31) * P1 & MASK
    h = (seed + P5 + 8 & MASK) ^ mixed
    h = (rotated(h, 27) * P1 + P4) & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


Name = tuple[Any, ...]
"""Identifies a complex event: pattern, time, and its events, which may be such names."""


class Kept(NamedTuple):
    """For which share of keys a pattern was whole, from one time to another."""

    stream: Stream
    since: int
    until: int
    share: float
    shard: int | None = None  # as a shard has it; None: as all have


@dataclass(frozen=True)
class Run:
    """What there is to check."""

    application: Application
    events: Mapping[str, pa.Table]  # of each source, in order
    record: Iterable[Kept]  # for which share of keys patterns were whole
    outputs: Mapping[Stream, pa.Table]  # of all patterns, and what timed out of them
    epoch_windows: int = 40
    # the shard of a key at a node, where what is on record differs by shard
    shard_of: Callable[[str, int], int] | None = None

    @cached_property
    def known(self) -> dict[tuple[Stream, int | None], tuple[list[Match], list[Match]]]:
        """What patterns emit exactly, as far as it was worked out."""
        return {}

    @cached_property
    def names(self) -> Mapping[str, Name]:
        """What each complex event consists of, by its id."""
        names: dict[str, Name] = {}
        for spec in self.application.operators.values():  # declared upstream first
            for stream in spec.outputs:
                for row in self.rows(stream):
                    names[row["id"]] = (stream.name, row["time"], self.parts(row, names))
        return names

    def rows(self, stream: Stream) -> list[dict[str, Any]]:
        """Give what a pattern emitted."""
        return self.outputs[stream].to_pylist() if stream in self.outputs else []

    def parts(self, row: Mapping[str, Any], names: Mapping[str, Name]) -> Name:
        """Say of which events a complex event consists."""
        ids: list[tuple[Any, Any]] = [
            (i.get("n"), i.get("id")) if isinstance(i, dict) else (i, i) for i in row["events"]
        ]
        return tuple(names.get(name, n) for n, name in ids)

    # What depends on what

    def pattern(self, stream: Stream) -> ast.Pattern:
        """Find a pattern."""
        return self.application.pattern(stream)

    def feeds(
        self, stream: Stream, elements: Iterable[ast.Element] | None = None
    ) -> list[Stream]:
        """List the patterns that these elements of a pattern name; None: all it reads."""
        spec = self.application.operators[str(stream.operator)]
        upstream = [each for each in spec.inputs if each.operator]
        if elements is None:
            return upstream
        texts = " ".join(map(str, elements))
        return [each for each in upstream if f"source = '{each.name}'" in texts]

    def counts(self, stream: Stream) -> bool:
        """Say whether a pattern has a window of events."""
        within = self.pattern(stream).within
        return within is not None and within.unit is ast.WindowUnit.EVENTS

    def watches_all(self, stream: Stream) -> bool:
        """Say whether all that a pattern takes must be seen."""
        return self.counts(stream) or stream in self.application.timed_out

    def watches(self, stream: Stream) -> bool:
        """Say whether a pattern claims that something is absent."""
        return self.watches_all(stream) or bool(
            ast.negated_elements(self.pattern(stream).where)
        )

    def reads(self, stream: Stream) -> list[Stream]:
        """List the patterns that a pattern reads, as far as it can use them."""
        where = self.pattern(stream).where
        return self.feeds(stream, None if self.counts(stream) else ast.elements(where))

    def ancestors(self, streams: Iterable[Stream]) -> list[Stream]:
        """List patterns and all that goes into them."""
        found: list[Stream] = []
        for stream in streams:
            found += [*self.ancestors(self.reads(stream)), stream]
        return list(dict.fromkeys(found))

    def members(self, stream: Stream) -> list[Stream]:
        """List the patterns upstream that must be whole."""
        where = self.pattern(stream).where
        watched = self.reads(stream)
        if not self.watches_all(stream):
            watched = self.feeds(stream, ast.negated_elements(where))
        return self.ancestors(watched)

    def horizon(self, streams: Iterable[Stream]) -> float:
        """Add up the windows upstream."""
        lengths = [0.0]
        for each in streams:
            within = self.pattern(each).within
            own = 0.0 if within is None else float(within.length)
            if self.counts(each):
                own = float("inf")
            lengths.append(own + self.horizon(self.reads(each)))
        return max(lengths)

    def watched_directly(self, stream: Stream) -> list[Stream]:
        """List the patterns whose complex events a pattern watches."""
        if self.watches_all(stream):
            return self.reads(stream)
        return self.feeds(stream, ast.negated_elements(self.pattern(stream).where))

    def is_keyed(self, stream: Stream) -> bool:
        """Say whether a watcher and its closure are shed by a key that they have in common.

        One that must be whole from the beginning on is, if it goes along with another watcher.
        """
        if self._is_keyed_itself(stream):
            return True
        others = [each for each in self.watchers if self._is_keyed_itself(each)]
        needed = {stream, *self.members(stream)}
        return any(needed <= set(self.depends_on(each)) for each in others)

    def _is_keyed_itself(self, stream: Stream) -> bool:
        closure = [stream, *self.members(stream)]
        finite = self.horizon(self.watched_directly(stream)) < float("inf")
        return finite and all(self.pattern(each).partition_by for each in closure)

    def depends_on(self, stream: Stream) -> list[Stream]:
        """List the patterns that must be whole for a watcher, itself among them."""
        needed = [*self.members(stream), stream]
        if self._is_keyed_itself(stream):  # other patterns with the key go with it
            others = self.ancestors(self.reads(stream))
            needed += [each for each in others if self.pattern(each).partition_by]
        return list(dict.fromkeys(needed))

    @cached_property
    def epoch(self) -> int:
        """How long keys are salted alike."""
        keyed = [s for s in self.watchers if self._is_keyed_itself(s)]
        groups = {each for stream in keyed for each in self.depends_on(stream)}
        windows = [self.pattern(each).within for each in groups]
        lengths = [w.length for w in windows if w and w.unit is ast.WindowUnit.TIME]
        return self.epoch_windows * max(lengths, default=60_000_000)

    @cached_property
    def watchers(self) -> list[Stream]:
        """List the patterns that claim absences."""
        patterns = [s for s in self.application.streams if s.operator]
        return [stream for stream in patterns if self.watches(stream)]

    # Stretches

    def stretches(self, stream: Stream, key: int | None) -> Iterator[tuple[int, int]]:
        """Give the stretches in which a key was whole in all that a watcher depends on."""
        needed = set(self.depends_on(stream))
        steps = [
            row[1:4]
            for row in self.record
            if row.stream in needed and row.share < 1 and self._counts(row, stream, key)
        ]
        cuts = {BEGINNING, END}
        for since, until, share in steps:
            cuts |= {since, until}
            if key is not None and share > 0:
                low, high = max(since, -(10**6)), min(until, 10**7)  # no event is further off
                cuts |= {low}
                cuts |= {
                    e * self.epoch for e in range(low // self.epoch + 1, -(-high // self.epoch))
                }
        bounds = sorted(cuts)
        start = None
        for low in bounds[:-1]:
            whole = all(
                self._is_whole(key, low, share)
                for since, until, share in steps
                if since <= low < until
            )
            if whole and start is None:
                start = low
            if not whole and start is not None:
                yield start, low
                start = None
        if start is not None:
            yield start, END

    def _counts(self, row: Kept, stream: Stream, key: int | None) -> bool:
        """Say whether what is on record counts: not what other shards have of a node's own."""
        specs = self.application.operators
        node = specs[str(stream.operator)].node
        if row.shard is None or key is None or self.shard_of is None:
            return True
        return specs[str(row.stream.operator)].node != node or row.shard == self.shard_of(
            node, key
        )

    def _is_whole(self, key: int | None, time: int, share: float) -> bool:
        if key is None:
            return share >= 1
        salted = hash_number(time // self.epoch, hash_number(key, 42))
        signed = salted - (1 << 64) if salted >> 63 else salted
        return signed < -(1 << 63) + min(int(share * (1 << 64)), MASK)

    # What is found without shedding

    def unshed(
        self, stream: Stream, between: tuple[int, int], key: int | None
    ) -> tuple[list[Match], list[Match]]:
        """Match a pattern on a stretch, and all that it depends on before it."""
        return match_and_time_out(self.pattern(stream), self.inputs(stream, between, key))

    def inputs(self, stream: Stream, between: tuple[int, int], key: int | None) -> list[Event]:
        """Give the events that a pattern has on a stretch without shedding, in order."""
        spec = self.application.operators[str(stream.operator)]
        needed = set(self.reads(stream))
        events: list[Event] = []
        for number, each in enumerate(spec.inputs):
            if each.operator is None:
                rows = self.events[each.name].to_pylist()
                events += [
                    Event(row["time"], number, (row["n"],), {"source": None, **row})
                    for row in rows
                    if between[0] <= row["time"] < between[1] and key in (None, row["key"])
                ]
            elif each in needed:
                found, _ = self.unshed(each, between, key)
                events += [
                    self.as_event(each, number, one) for one in found if one.time < between[1]
                ]
        return sorted(events, key=lambda event: (event.time, event.input))

    def exact(self, stream: Stream, key: int | None) -> tuple[list[Match], list[Match]]:
        """Give what a pattern emits on all its stretches, and what times out of it."""
        if (stream, key) not in self.known:
            horizon = self.horizon(self.watched_directly(stream))
            both: tuple[list[Match], list[Match]] = ([], [])
            for start, end in self.stretches(stream, key):
                events = self.seen(stream, (start, end), key)
                for matches, into in zip(
                    match_and_time_out(self.pattern(stream), events), both, strict=True
                ):
                    into += [
                        one
                        for one in matches
                        if one.time < end or end == END
                        if start == BEGINNING or one.events[0].time - horizon >= start
                    ]
            self.known[stream, key] = both
        return self.known[stream, key]

    def seen(self, stream: Stream, between: tuple[int, int], key: int | None) -> list[Event]:
        """Give the events that a pattern sees on a stretch of its own, in order."""
        needed = set(self.reads(stream))
        events = [e for e in self.inputs(stream, between, key) if e.values["source"] is None]
        spec = self.application.operators[str(stream.operator)]
        for number, each in enumerate(spec.inputs):
            keys = self._keys(each) if each in needed and key is None else [key]
            for one in keys if each in needed else ():
                found, _ = self.exact(each, one)
                made = [self.as_event(each, number, match) for match in found]
                events += [
                    e for e in made if between[0] <= e.values["#began"] and e.time < between[1]
                ]
        return sorted(events, key=lambda event: (event.time, event.input))

    def as_event(self, stream: Stream, number: int, match: Match) -> Event:
        """Make a complex event of a match."""
        values = {"source": stream.name, "time": match.time, "type": None, "n": None}
        values["#began"] = min(e.values.get("#began", e.time) for e in match.events)
        values |= selected(self.pattern(stream), match)
        return Event(match.time, number, _as_id(name_of(stream, match)), values)

    # The law

    def check(self) -> dict[str, int]:
        """See that nothing is invented; count what was looked at."""
        checked = {"words": 0, "exact": 0, "absent": 0}
        for stream in self.application.streams:
            if stream.operator is not None and not self.watches(stream):
                checked["words"] += self._check_words(stream)
        for stream in self.watchers:
            if self._sees_all(stream):
                checked["exact"] += self._check_exact(stream)
            else:
                checked["absent"] += self._check_absences(stream)
        return checked

    def _sees_all(self, stream: Stream) -> bool:
        """Say whether a watcher sees all of a key, or of the stream, while it is whole."""
        upstream = set(self.ancestors(self.reads(stream)))
        whole = set(self.depends_on(stream))
        return upstream <= whole and (self.is_keyed(stream) or self.watches_all(stream))

    def _emitted(self, stream: Stream) -> list[Name]:
        return [
            (stream.name, row["time"], self.parts(row, self.names)) for row in self.rows(stream)
        ]

    def _check_words(self, stream: Stream) -> int:
        """A pattern that watches nothing emits words of events that there were."""
        emitted = self._emitted(stream)
        for name in emitted:
            events = sorted(map(self._event(stream), name[2]), key=lambda e: (e.time, e.input))
            found, _ = match_and_time_out(self.pattern(stream), events)
            assert name in [name_of(stream, one) for one in found], name
        return len(emitted)

    def _event(self, stream: Stream) -> Any:
        """Make events of what names stand for, as a pattern reads them."""
        spec = self.application.operators[str(stream.operator)]
        sources = {
            row["n"]: Event(row["time"], number, (row["n"],), {"source": None, **row})
            for number, each in enumerate(spec.inputs)
            if each.operator is None
            for row in self.events[each.name].to_pylist()
        }
        rows = {
            self.names[row["id"]]: (number, row)
            for number, each in enumerate(spec.inputs)
            if each.operator
            for row in self.rows(each)
        }

        def make(name: Any) -> Event:
            if name in sources:
                return sources[name]
            number, row = rows[name]
            values = {"type": None, "n": None, **row}
            return Event(row["time"], number, _as_id(name), values)

        return make

    def _keys(self, stream: Stream) -> Sequence[int | None]:
        if not self.is_keyed(stream):
            return [None]
        return sorted(set(self.keys.values()))

    def _check_exact(self, stream: Stream) -> int:
        """What a watcher emits is what is found without shedding on the stretches."""
        expected: list[Name] = []
        late: list[Name] = []
        for key in self._keys(stream):
            found, timed_out = self.exact(stream, key)
            expected += [name_of(stream, one) for one in found]
            late += [name_of(stream, one) for one in timed_out]
        assert sorted(self._emitted(stream), key=repr) == sorted(expected, key=repr), stream
        if stream in self.application.timed_out:
            timed = Stream(f"#timed out {stream.name}", stream.operator)
            emitted = [
                (stream.name, row["time"], self.parts(row, self.names))
                for row in self.rows(timed)
            ]
            assert sorted(emitted, key=repr) == sorted(late, key=repr), timed
        return len(expected) + len(late)

    def _check_absences(self, stream: Stream) -> int:
        """A watcher emits words, and nothing that it watches happened in them."""
        pattern, horizon = self.pattern(stream), self.horizon(self.watched_directly(stream))
        nots = ast.negated_elements(pattern.where)
        stretches = {key: list(self.stretches(stream, key)) for key in self._keys(stream)}
        inputs: dict[Any, list[Event]] = {}
        emitted = self._emitted(stream)
        for name in emitted:
            key = self._key_of(name) if self.is_keyed(stream) else None
            own = list(map(self._event(stream), name[2]))
            first = min(event.time for event in own)
            around = [(a, b) for a, b in stretches[key] if a <= first and name[1] <= b]
            assert around, f"{name} is not within a stretch"
            start, end = around[0]
            assert start == BEGINNING or first - horizon >= start, f"{name} began too soon"
            if (start, end, key) not in inputs:
                inputs[start, end, key] = self.inputs(stream, (start, end), key)
            watched = [
                event
                for event in inputs[start, end, key]
                if first <= event.time <= name[1]
                and any(_accepts(each, event) for each in nots)
            ]
            events = sorted([*own, *watched], key=lambda event: (event.time, event.input))
            found, _ = match_and_time_out(pattern, events)
            assert name in [name_of(stream, one) for one in found], f"{name} is no word"
        return len(emitted)

    def _key_of(self, name: Name) -> int:
        """Find the key of a complex event: that of its first event."""
        first = name[2][0]
        return self._key_of(first) if isinstance(first, tuple) else self.keys[first]

    @cached_property
    def keys(self) -> Mapping[int, int]:
        """The key of each event of a source."""
        rows = (row for table in self.events.values() for row in table.to_pylist())
        return {row["n"]: row["key"] for row in rows}


def _accepts(element: ast.Element, event: Event) -> bool:
    """Whether an element of such applications accepts an event."""
    condition = element.condition
    assert isinstance(condition, ex.Binary)
    assert isinstance(condition.left, ex.Attribute)
    assert isinstance(condition.right, ex.Literal)
    return bool(event.values.get(condition.left.path[0]) == condition.right.value)


def _as_id(name: Any) -> Any:
    """Take a name for the id of an event: the matcher hands it through."""
    return (name,)


def name_of(stream: Stream, match: Match) -> Name:
    """Identify a match."""
    return (stream.name, match.time, tuple(event.id[0] for event in match.events))
