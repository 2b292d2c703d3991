"""The JSON of a snapshot: that it is one, and has numbers where numbers belong.

Names, labels and how large a number may be are up to `snapshot.py`.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shedlight.errors import SnapshotError, known_names
from shedlight.model.quantity import (
    BUSY,
    COST,
    COUNT,
    FACTOR,
    MOMENT,
    RATE,
    SECONDS,
    Quantity,
    dotted,
    shown,
)

MAX_BYTES = 100_000_000
"""The largest file."""

Sections = Mapping[str, Mapping[str, Any]]
"""The numbers of each section by name, and by label where there are several."""

_Keys = tuple[str, ...]
_Reader = Callable[[object, str, _Keys], object]


class _Object(dict[str, object]):
    """What braces hold, and a key that stands there twice, if one does."""

    twice: str | None = None


def _object(pairs: list[tuple[str, object]]) -> _Object:
    found = _Object(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        found.twice = next(key for key, count in counts.items() if count > 1)
    return found


def read_sections(path: Path) -> Sections:
    """Read the sections of a snapshot.

    Raises:
        SnapshotError: The file cannot be read, is not JSON, or has something where something
            else belongs.
    """
    value, file = _json_of(path), str(path)
    found = _members(value, file, (), 'write {"rates": {...}}')
    for key in found:
        if key not in _SECTIONS:
            hint = known_names(key, _SECTIONS)
            raise SnapshotError(f"{file}: the snapshot has no {key[:60]!r}; {hint}")
    if "rates" not in found:
        hint = 'add events per second by source and type, as in "rates": {"s1": {"type=0": 10}}'
        raise SnapshotError(f"{file}: the snapshot has no 'rates'; {hint}")
    sections = {}
    for name, inner in found.items():
        members = _members(inner, file, (name,), f'write {{"{_key_of(name)}": ...}}')
        read = _SECTIONS[name]
        sections[name] = {key: read(each, file, (name, key)) for key, each in members.items()}
    return sections


def _json_of(path: Path) -> object:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        hint = "name a file that is there and readable"
        raise SnapshotError(f"{path}: the file cannot be read ({reason}); {hint}") from error
    if len(data) > MAX_BYTES:
        hint = f"{MAX_BYTES:,} are allowed; leave out types that do not arrive"
        raise SnapshotError(f"{path}: the file has more than {MAX_BYTES:,} bytes; {hint}")
    try:
        text = data.decode("utf-8-sig")
        return json.loads(
            text, object_pairs_hook=_object, parse_int=float, parse_constant=float
        )
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        hint = "save the file as UTF-8"
        raise SnapshotError(f"{path}, line {line}: this is not UTF-8; {hint}") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        problem = f"this is not JSON ({error.msg.lower()})"
        hint = "write an object with names in double quotes and no comma at its end"
        raise SnapshotError(f"{path}, {place}: {problem}; {hint}") from error
    except RecursionError as error:
        hint = "a snapshot has at most three levels"
        raise SnapshotError(f"{path}: too much stands inside each other; {hint}") from error


def _members(value: object, file: str, keys: _Keys, hint: str) -> Mapping[str, object]:
    place = dotted(*keys) or "the snapshot"
    if not isinstance(value, _Object):
        raise SnapshotError(f"{file}: {place} is {shown(value)}, not an object; {hint}")
    if value.twice is not None:
        problem = f"{place} has {value.twice[:60]!r} twice"
        raise SnapshotError(f"{file}: {problem}; leave one of them out")
    return value


def _number(quantity: Quantity) -> _Reader:
    def read(value: object, file: str, keys: _Keys) -> float:
        if not isinstance(value, float):
            problem = f"{dotted(*keys)} is {shown(value)}"
            raise SnapshotError(f"{file}: {problem}; write {quantity.wanted}")
        return value

    return read


def _by_type(quantity: Quantity) -> _Reader:
    read_one = _number(quantity)

    def read(value: object, file: str, keys: _Keys) -> Mapping[str, object]:
        hint = f'write {{"type=0": ...}} with {quantity.name} by type'
        members = _members(value, file, keys, hint)
        return {label: read_one(each, file, (*keys, label)) for label, each in members.items()}

    return read


def _number_or_by_type(quantity: Quantity) -> _Reader:
    by_type, number = _by_type(quantity), _number(quantity)

    def read(value: object, file: str, keys: _Keys) -> object:
        return (by_type if isinstance(value, _Object) else number)(value, file, keys)

    return read


def _micro_batch(value: object, file: str, keys: _Keys) -> Mapping[str, object]:
    hint = 'write {"a": seconds, "b_in": seconds}'
    costs = _members(value, file, keys, hint)
    for key in costs:
        if key not in {"a", "b_in"}:
            known = known_names(key, ("a", "b_in"))
            raise SnapshotError(f"{file}: {dotted(*keys)} has no {key[:60]!r}; {known}")
    for key in ("a", "b_in"):
        if key not in costs:
            raise SnapshotError(f"{file}: {dotted(*keys)} lacks {key!r}; {hint}")
    read_one = _number(COST)
    return {key: read_one(each, file, (*keys, key)) for key, each in costs.items()}


_SECTIONS: Mapping[str, _Reader] = {
    "rates": _by_type(RATE),
    "output_rates": _number(RATE),
    "processing_time": _number_or_by_type(SECONDS),
    "second_moment": _number_or_by_type(MOMENT),
    "backlog": _number(BUSY),
    "micro_batch": _micro_batch,
    "transport": _number(COST),
    "calibration": _number(FACTOR),
    "events_per_window": _number(COUNT),
}
_OF_NODES = frozenset({"backlog", "micro_batch", "transport"})


def _key_of(section: str) -> str:
    """Say what the keys of a section are."""
    if section == "rates":
        return "source"
    return "node" if section in _OF_NODES else "operator.pattern"
