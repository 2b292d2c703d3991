"""An answer for people: what stopped each candidate, in numbers, and what can be done."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from shedlight.language.ast.expression import Literal
from shedlight.language.ast.pattern import MICROSECONDS, WindowUnit
from shedlight.why.causes import Cause
from shedlight.why.explain import NearMiss, WhyAnswer
from shedlight.why.obstacles import Obstacle
from shedlight.why.owners import Owner, match_id_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_SHOWN = 5  # how many events of a match are named


@dataclass(frozen=True, slots=True)
class WhySettings:
    """What things are called where the question was asked.

    Attributes:
        name: Of the pattern.
        ids: The columns that identify an event of any input.
        lateness: The lateness of each input, in microseconds.
        lateness_setting: How lateness is set.
        id_setting: How the columns of the id are set.
    """

    name: str
    ids: tuple[str, ...]
    lateness: tuple[int, ...]
    lateness_setting: str = "`lateness` of the source"
    id_setting: str = "`id` of the source"


def write_time(micros: int) -> str:
    """Write a timestamp in ISO-8601, UTC."""
    try:
        time = _EPOCH + timedelta(microseconds=int(micros))
    except OverflowError:
        return f"{micros} us"
    text = time.isoformat(timespec="microseconds").replace("+00:00", "")
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.rstrip('0')}Z" if fraction.strip("0") else f"{whole}Z"


def write_length(micros: int) -> str:
    """Write a length of time that the language reads, rounded up to three digits or so.

    Example:
        >>> write_length(12_000_000), write_length(1_234_567), write_length(90_061_000_000)
        ('12 s', '1.24 s', '25.02 h')
    """
    unit = next(name for name in ("h", "min", "s", "ms", "us") if _is_unit(micros, name))
    size = MICROSECONDS[unit]
    whole, rest = divmod(micros, size)
    hundredths = -(-rest * 100 // size)
    return f"{f'{whole + hundredths / 100:.2f}'.rstrip('0').rstrip('.')} {unit}"


def _is_unit(micros: int, unit: str) -> bool:
    return unit == "us" or micros >= MICROSECONDS[unit] * (1 if unit in {"s", "ms"} else 2)


def answer_lines(answer: WhyAnswer, settings: WhySettings, limit: int) -> Iterator[str]:
    """Write an answer, with so many candidates at most."""
    words = _Words(answer, settings)
    if answer.matches:
        number = len(answer.matches)
        yield (
            f"{settings.name} did match: {number:,} match{'es' * (number > 1)} with events "
            "that are asked about"
        )
        for match in answer.matches[:limit]:
            yield f"   {words.match(match)}"
    shown = answer.near_misses[:limit]
    if not shown:
        if not answer.matches:
            yield f"{settings.name}: none of {answer.asked:,} events comes near a match"
        return
    yield (
        f"{settings.name} did not match: {len(answer.near_misses):,} candidates around "
        f"{answer.searched:,} event{'s' * (answer.searched > 1)}, the nearest first"
    )
    if answer.searched < answer.relevant:
        yield (
            f"   ({answer.relevant:,} events may be part of a match; ask for a key, an event "
            "or a shorter time to look around all of them)"
        )
    for number, near in enumerate(shown, 1):
        yield ""
        yield f"{number}. {words.candidate(near)}"
        for obstacle in near.obstacles:
            text, remedy = words.obstacle(obstacle)
            yield f"   {obstacle.cause.value}: {text}"
            yield f"     -> {remedy}"


def answer_value(answer: WhyAnswer, settings: WhySettings, limit: int) -> dict[str, Any]:
    """Give an answer as a value for JSON, with so many candidates at most."""
    words = _Words(answer, settings)
    return {
        "pattern": settings.name,
        "events_asked": answer.asked,
        "events_relevant": answer.relevant,
        "events_searched": answer.searched,
        "matches": [words.match_value(match) for match in answer.matches[:limit]],
        "candidates": [words.candidate_value(near) for near in answer.near_misses[:limit]],
    }


class _Words:
    """The words for the parts of an answer."""

    def __init__(self, answer: WhyAnswer, settings: WhySettings) -> None:
        self._answer, self._settings, self._events = answer, settings, answer.events

    def event(self, row: int) -> str:
        """Name an event."""
        return f"event {','.join(map(str, self._events.id_of(row)))}"

    def event_at(self, row: int) -> str:
        """Name an event and its time."""
        return f"{self.event(row)} ({write_time(self._events.time[row])})"

    def match(self, owner: Owner) -> str:
        """Name a match, or a partial match, by its id and events."""
        names = ", ".join(map(self.event, owner.rows[:_MAX_SHOWN]))
        more = f" and {len(owner.rows) - _MAX_SHOWN} more" * (len(owner.rows) > _MAX_SHOWN)
        if not owner.is_match:
            return f"the partial match of {names}{more}"
        return f"match {self._id(owner)} of {names}{more}"

    def _id(self, owner: Owner) -> str:
        return match_id_of(self._events, self._settings.name, owner.rows, self._settings.ids)

    def match_value(self, owner: Owner) -> dict[str, Any]:
        """Give a match as a value."""
        return {
            "id": self._id(owner),
            "time": write_time(owner.time),
            "events": [_plain(self._events.id_of(row)) for row in owner.rows],
        }

    def candidate(self, near: NearMiss) -> str:
        """Name the events of a candidate."""
        pairs = zip(near.variables, near.rows, strict=True)
        return ", ".join(f"{name} = {self.event_at(row)}" for name, row in pairs)

    def candidate_value(self, near: NearMiss) -> dict[str, Any]:
        """Give a candidate as a value."""
        return {
            "events": [
                {
                    "variable": name,
                    "id": _plain(self._events.id_of(row)),
                    "time": write_time(self._events.time[row]),
                }
                for name, row in zip(near.variables, near.rows, strict=True)
            ],
            "obstacles": [self._obstacle_value(obstacle) for obstacle in near.obstacles],
        }

    def _obstacle_value(self, obstacle: Obstacle) -> dict[str, Any]:
        text, remedy = self.obstacle(obstacle)
        value: dict[str, Any] = {
            "cause": obstacle.cause.value,
            "event": _plain(self._events.id_of(obstacle.row)),
            "text": text,
            "remedy": remedy,
        }
        if obstacle.condition is not None:
            value["condition"] = str(obstacle.condition)
        if obstacle.values:
            value["values"] = {name: _as_json(each) for name, each in obstacle.values.items()}
        if obstacle.owner is not None and obstacle.owner.is_match:
            value["match"] = self.match_value(obstacle.owner)
        if obstacle.shedding is not None:
            value["plan"] = obstacle.shedding.plan
            value["micro_batch"] = obstacle.shedding.micro_batch
        return value

    def obstacle(self, obstacle: Obstacle) -> tuple[str, str]:
        """Say what an obstacle is, and what can be done."""
        return _SENTENCES[obstacle.cause](self, obstacle)

    def condition(self, obstacle: Obstacle) -> tuple[str, str]:
        """A condition does not hold."""
        text = f"{obstacle.condition} does not hold for {self.event(obstacle.row)}"
        values = _values(obstacle.values)
        has_null = any(value is None for value in obstacle.values.values())
        remedy = "give it a value where it is null, or ask for IS NULL too"
        if not has_null:
            remedy = "let the condition allow for it, or put the value right"
        return f"{text}: {values}", remedy

    def order(self, obstacle: Obstacle) -> tuple[str, str]:
        """Events came in another order."""
        first, second = self.event_at(obstacle.row), self.event_at(_other(obstacle))
        return f"{first} came before {second}", "write AND(...) where any order will do"

    def window(self, obstacle: Obstacle) -> tuple[str, str]:
        """Events are too far apart."""
        window, measured = self._answer.pattern.within, obstacle.measured or 0
        events = f"{self.event(_other(obstacle))} and {self.event(obstacle.row)}"
        if window is not None and window.unit is WindowUnit.EVENTS:
            text = f"from {events} there are {measured:,} events; WITHIN {window} allows fewer"
            return text, f"WITHIN {measured} EVENTS or more is long enough"
        length = write_length(measured)
        text = f"{events} are {length} apart; WITHIN {window} allows no more"
        return text, f"WITHIN {length} or more is long enough"

    def forbidden(self, obstacle: Obstacle) -> tuple[str, str]:
        """An event that may not come came."""
        text = f"{self.event_at(obstacle.row)} is one that NOT({obstacle.condition}) forbids"
        return text, "narrow the condition of the NOT, or leave it out"

    def consumed(self, obstacle: Obstacle) -> tuple[str, str]:
        """Another match, or partial match, took an event."""
        owner = obstacle.owner
        by = self.match(owner) if owner is not None else "an older partial match"
        text = f"{self.event(obstacle.row)} was taken by {by}"
        return text, "REUSE lets an event be part of several matches"

    def late(self, obstacle: Obstacle) -> tuple[str, str]:
        """An event came behind the watermark."""
        behind, source = obstacle.measured or 0, self._events.input[obstacle.row]
        allowed = self._settings.lateness[source]
        lateness = write_length(allowed) if allowed else "0 s"
        text = (
            f"{self.event(obstacle.row)} came {write_length(behind)} behind the latest event; "
            f"{lateness} is allowed"
        )
        return text, f"{self._settings.lateness_setting}: {write_length(behind)} or more"

    def duplicate(self, obstacle: Obstacle) -> tuple[str, str]:
        """An event had an id that was there before."""
        row = obstacle.row
        columns = ", ".join(self._events.ids[self._events.input[row]])
        first = ""
        if obstacle.other is not None:
            first = f", at {write_time(self._events.time[obstacle.other])}"
        text = f"{self.event_at(row)} has an id that another event had before{first}"
        remedy = f"the id is {columns}: name columns that tell events apart"
        return text, f"{remedy} ({self._settings.id_setting})"

    def key(self, obstacle: Obstacle) -> tuple[str, str]:
        """An event has another key."""
        by = self._answer.pattern.partition_by
        row, other = obstacle.row, _other(obstacle)
        keys = [
            _values({str(each): self._events.value(each, place) for each in by})
            for place in (row, other)
        ]
        text = f"of {self.event(row)} {keys[0]}, of {self.event(other)} {keys[1]}"
        names = ", ".join(map(str, by))
        return text, f"put the key right, or leave {names} out of PARTITION BY"

    def shed(self, obstacle: Obstacle) -> tuple[str, str]:
        """An event was shed."""
        by = obstacle.shedding
        if by is None:
            return f"{self.event(obstacle.row)} was shed", "give the node more capacity"
        of = f" of {by.event_type}" if by.event_type else ""
        what = "keys" if by.by_key else "events"
        where = "" if by.micro_batch is None else f" in micro-batch {by.micro_batch:,}"
        text = (
            f"{self.event(obstacle.row)} was shed by plan {by.plan}{where} of node {by.node}, "
            f"which keeps {by.share:.1%} of the {what}{of}"
        )
        text += f", at pressure {by.pressure:.2f}" * (by.pressure < 1)
        text += ", if it came in order" * (not by.is_certain)
        more = "a longer bound"
        if self._answer.pattern.partition_by:  # else one core does all of its matching
            more += " or more cores"
        return text, (
            f"{more} for {by.node}, a weight for {self._settings.name}, "
            "or never_shed for its event types"
        )


_SENTENCES = {
    Cause.CONDITION: _Words.condition,
    Cause.ORDER: _Words.order,
    Cause.WINDOW: _Words.window,
    Cause.NOT: _Words.forbidden,
    Cause.CONSUMED: _Words.consumed,
    Cause.LATE: _Words.late,
    Cause.DUPLICATE: _Words.duplicate,
    Cause.KEY: _Words.key,
    Cause.SHED: _Words.shed,
}


def _other(obstacle: Obstacle) -> int:
    return obstacle.row if obstacle.other is None else obstacle.other


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} is {_shown(value)}" for name, value in values.items())


def _shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(Literal(value)) if isinstance(value, str | bool | int) else str(value)


def _plain(identity: tuple[Any, ...]) -> Any:  # noqa: ANN401  # one value, or several
    return _as_json(identity[0]) if len(identity) == 1 else list(map(_as_json, identity))


def _as_json(value: Any) -> Any:  # noqa: ANN401  # of any type
    if isinstance(value, date):
        return value.isoformat()
    return value if isinstance(value, bool | int | float | str | None) else str(value)
