"""Near misses, each with one known cause, among events that have nothing to do with it."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import pyarrow as pa

from shedlight import parse_pattern
from shedlight.matching.operators.cep_operator import CepOperator, build_operator
from shedlight.matching.operators.reorder import StreamInput
from shedlight.shedding.shedder import event_hashes, threshold
from shedlight.why.causes import Cause
from shedlight.why.explain import WhyQuestion

SECOND = 1_000_000
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.int64()),
        ("user", pa.string()),
        ("kind", pa.string()),
        ("level", pa.string()),
        ("value", pa.float64()),
    ]
)
STREAM = StreamInput("events", ("id",), "at")
SHARE = 0.5  # what is kept where events are shed

PAIR = "SEQ(a.kind = 'A' AND a.value > 10, b.kind = 'B' AND b.level = 'high')"
TEXTS = {
    "keyed": f"SELECT a.user WHERE {PAIR} AND b.value > a.value WITHIN 10 s PARTITION BY user",
    "unkeyed": f"SELECT a.user WHERE {PAIR} AND b.value > a.value WITHIN 10 s",
    "not": "SELECT a.user WHERE SEQ(a.kind = 'A' AND a.value > 10, NOT(x.kind = 'X' AND "
    "x.value > 5), b.kind = 'B' AND b.level = 'high') AND b.value > a.value WITHIN 10 s "
    "PARTITION BY user",
    "three": "SELECT a.user WHERE SEQ(a.kind = 'A' AND a.value > 10, c.kind = 'C', "
    "b.kind = 'B' AND b.level = 'high') AND b.value > a.value WITHIN 10 s PARTITION BY user",
    "repeated": "SELECT a.user WHERE SEQ(a.kind = 'A' AND a.value > 10 {2}, b.kind = 'B' AND "
    "b.level = 'high') AND b.value > a.value WITHIN 10 s PARTITION BY user",
    "absent": "SELECT a.user WHERE SEQ(a.kind = 'A' AND a.value > 10, NOT(b.kind = 'B')) "
    "WITHIN 10 s PARTITION BY user",
    "any order": "SELECT a.user WHERE AND(a.kind = 'A' AND a.value > 10, b.kind = 'B' AND "
    "b.level = 'high') AND b.value > a.value WITHIN 10 s PARTITION BY user",
}
ELEMENTS = {
    "keyed": "AB",
    "unkeyed": "AB",
    "not": "AB",
    "three": "ACB",
    "repeated": "AAB",
    "any order": "AB",
    "absent": "A",
}


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a stream."""

    id: int
    at: float  # seconds
    user: str
    kind: str
    level: str = "high"
    value: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A near miss: its events in the order of arrival, and why it is none."""

    name: str
    text: str
    cause: Cause
    events: tuple[Event, ...]
    event: int  # the id of the event that is asked about
    culprit: int  # the id of an event that the obstacle is about
    user: str = "me"

    @property
    def table(self) -> pa.Table:
        """The events as a table."""
        columns = {name: [getattr(e, name) for e in self.events] for name in SCHEMA.names}
        columns["at"] = [int(event.at * SECOND) for event in self.events]
        return pa.table(columns, SCHEMA)

    @property
    def operator(self) -> CepOperator:
        """The operator of the pattern alone."""
        return _operator_of(self.text)

    @property
    def questions(self) -> tuple[WhyQuestion, ...]:
        """The ways to ask: by an event, and by the key or the time."""
        low, high = 1000 * SECOND, 1040 * SECOND
        by_time = WhyQuestion(since=low, until=high)
        keyed = "PARTITION" in self.text
        by_key = WhyQuestion(key=(self.user,), since=low, until=high) if keyed else by_time
        return WhyQuestion(event=(str(self.event),)), by_key


@cache
def _operator_of(text: str) -> CepOperator:
    return build_operator([(STREAM, SCHEMA)], {"P": parse_pattern(text).pattern})


def complete(name: str, start: float, user: str = "me", first_id: int = 1) -> list[Event]:
    """Make a match: its events two seconds apart."""
    values = {"A": 20.0, "C": 1.0, "B": 30.0}
    return [
        Event(first_id + i, start + 2 * i, user, kind, value=values[kind])
        for i, kind in enumerate(ELEMENTS[name])
    ]


def _fail_own(draw: random.Random, name: str, events: list[Event]) -> tuple[list[Event], int]:
    """A condition on one event fails: a value that is too low, or another level."""
    if draw.random() < 0.5 or "b.level" not in TEXTS[name]:
        changed = replace(events[0], value=draw.uniform(0, 10))
        return [changed, *events[1:]], changed.id
    changed = replace(events[-1], level=draw.choice(["low", "middle"]))
    return [*events[:-1], changed], changed.id


def _fail_across(draw: random.Random, _: str, events: list[Event]) -> tuple[list[Event], int]:
    """A condition across events fails."""
    changed = replace(events[-1], value=draw.uniform(10.5, 19))
    return [*events[:-1], changed], changed.id


def _swap(_: random.Random, __: str, events: list[Event]) -> tuple[list[Event], int]:
    """The last event comes first."""
    first = replace(events[-1], at=events[0].at - 1)
    return [first, *events[:-1]], first.id


def _stretch(draw: random.Random, _: str, events: list[Event]) -> tuple[list[Event], int]:
    """The last event comes after the window."""
    last = replace(events[-1], at=events[0].at + draw.uniform(10.5, 18))
    return [*events[:-1], last], last.id


def _forbid(draw: random.Random, name: str, events: list[Event]) -> tuple[list[Event], int]:
    """The event of the NOT comes in between."""
    kind = "B" if name == "absent" else "X"
    forbidden = Event(50, events[0].at + 1, "me", kind, value=draw.uniform(6, 99))
    return [events[0], forbidden, *events[1:]], forbidden.id


def _consume(_: random.Random, name: str, events: list[Event]) -> tuple[list[Event], int]:
    """An older partial match takes the last event."""
    older = complete(name, events[0].at - 1, first_id=20)[:-1]
    both = sorted([*older, *events], key=lambda event: event.at)
    return both, events[-1].id


def _delay(draw: random.Random, _: str, events: list[Event]) -> tuple[list[Event], int]:
    """The last event arrives behind one that is later."""
    later = Event(60, events[-1].at + draw.uniform(2, 5), "somebody", "view")
    return [*events[:-1], later, events[-1]], events[-1].id


def _repeat_id(_: random.Random, __: str, events: list[Event]) -> tuple[list[Event], int]:
    """The last event has the id of another one."""
    other = Event(70, events[0].at - 1, "somebody", "view")
    last = replace(events[-1], id=70)
    return [other, *events[:-1], last], 70


def _change_key(draw: random.Random, _: str, events: list[Event]) -> tuple[list[Event], int]:
    """The last event has another key."""
    last = replace(events[-1], user=f"other{draw.randrange(99)}")
    return [*events[:-1], last], last.id


def _shed(_: random.Random, __: str, events: list[Event]) -> tuple[list[Event], int]:
    """The last event has an id that is shed, the others have ids that are kept."""
    free = iter(range(100, 400))
    kept = [next(i for i in free if is_kept(i)) for _ in events[:-1]]
    gone = next(i for i in free if not is_kept(i))
    renamed = [replace(e, id=i) for e, i in zip(events, [*kept, gone], strict=True)]
    return renamed, gone


def is_kept(number: int) -> bool:
    """Say whether an event with this id is kept."""
    hashes = event_hashes(pa.table({"id": [number]}), ["id"])
    return bool(hashes[0] < threshold(SHARE))


Change = Callable[[random.Random, str, list[Event]], tuple[list[Event], int]]
ALL = ("keyed", "unkeyed", "not", "three", "repeated", "any order")
WITH_ORDER = ("keyed", "unkeyed", "not", "three", "repeated")
KEYED = ("keyed", "not", "three", "repeated", "any order")
CHANGES: tuple[tuple[Cause, Change, tuple[str, ...]], ...] = (
    (Cause.CONDITION, _fail_own, ALL),
    (Cause.CONDITION, _fail_across, ALL),
    (Cause.ORDER, _swap, WITH_ORDER),
    (Cause.WINDOW, _stretch, ALL),
    (Cause.NOT, _forbid, ("not", "absent")),
    (Cause.CONSUMED, _consume, ("keyed", "unkeyed", "not", "any order")),
    (Cause.LATE, _delay, ALL),
    (Cause.DUPLICATE, _repeat_id, ALL),
    (Cause.KEY, _change_key, KEYED),
    (Cause.SHED, _shed, ALL),
)


def noise(draw: random.Random, name: str, number: int) -> Iterator[Event]:
    """Make events of other keys, or of no type, that end long before or begin long after."""
    keyed = "PARTITION" in TEXTS[name]
    for i in range(number):
        far = draw.choice([draw.uniform(0, 900), draw.uniform(1200, 2000)])
        kind = draw.choice("ABCX")
        user = f"u{draw.randrange(20)}"
        yield Event(
            1000 + i, far, user, kind, draw.choice(["low", "high"]), draw.uniform(0, 50)
        )
    for i in range(number // 4 if keyed else 0):  # at the same time, of the same key
        yield Event(3000 + i, draw.uniform(1000, 1040), "me", draw.choice(["view", "scroll"]))


def make_case(seed: int) -> Case:
    """Make a near miss."""
    draw = random.Random(seed)
    cause, change, names = CHANGES[seed % len(CHANGES)]
    name = names[seed // len(CHANGES) % len(names)]
    events, culprit = change(draw, name, complete(name, draw.uniform(1010, 1015)))
    around = list(noise(draw, name, 60))
    behind = [event for event in around if event.at > 1100]
    before = sorted((e for e in around if e.at < 1000), key=lambda event: event.at)
    during = [event for event in around if 1000 <= event.at <= 1100]
    arrivals = [*before, *_merge(during, events), *sorted(behind, key=lambda event: event.at)]
    asked = events[-1].id if cause is not Cause.NOT else events[0].id
    return Case(
        name=f"{cause.value}-{name}-{seed}",
        text=TEXTS[name],
        cause=cause,
        events=tuple(arrivals),
        event=asked,
        culprit=culprit,
    )


def _merge(during: list[Event], events: list[Event]) -> list[Event]:
    """Put others where they are in order; those of the near miss stay as they are."""
    last = max(event.at for event in events)
    first = min(event.at for event in events)
    before = sorted((e for e in during if e.at < first), key=lambda event: event.at)
    after = sorted((e for e in during if e.at > last), key=lambda event: event.at)
    return [*before, *events, *after]
