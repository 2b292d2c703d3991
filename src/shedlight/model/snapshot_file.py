"""Snapshots in JSON files."""

import json
from collections import Counter
from pathlib import Path

from shedlight.errors import SnapshotError
from shedlight.graph.application import Application
from shedlight.model.quantity import describe_value, format_keys
from shedlight.model.snapshot import Snapshot, check_snapshot, object_form

MAX_BYTES = 100_000_000  # the largest file


def read_snapshot(path: Path, application: Application) -> Snapshot:
    """Read a snapshot of an application from JSON.

    Raises:
        SnapshotError: It cannot be used; the message has the first thing that is wrong and
            the place in the file.
    """
    sections = _read_json(path)
    if not isinstance(sections, _Object):
        problem = f"the snapshot is {describe_value(sections)}, not an object"
        raise SnapshotError(f"{path}: {problem}; write {object_form()}")
    _check_keys(sections, path)
    if "file" in sections:  # a field, but not a section
        raise SnapshotError(f"{path}: the snapshot has no 'file'; leave it out")
    snapshot = Snapshot(**sections, file=str(path))  # type: ignore[arg-type]
    check_snapshot(snapshot, application)
    return snapshot


class _Object(dict[str, object]):
    """A JSON object, and a key that it has twice, if there is one."""

    repeated_key: str | None = None


def _make_object(pairs: list[tuple[str, object]]) -> _Object:
    made = _Object(pairs)
    if len(made) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        made.repeated_key = next(key for key, count in counts.items() if count > 1)
    return made


def _check_keys(value: _Object, path: Path, *keys: str) -> None:
    """See that no object has a key twice."""
    if value.repeated_key is not None:
        around = format_keys(*keys) or "the snapshot"
        problem = f"{around} has {value.repeated_key[:60]!r} twice"
        raise SnapshotError(f"{path}: {problem}; leave one of them out")
    for key, inner in value.items():
        if isinstance(inner, _Object) and len(keys) < _MAX_DEPTH:
            _check_keys(inner, path, *keys, key)


_MAX_DEPTH = 4  # how many keys lead to the innermost object of a snapshot


def _read_json(path: Path) -> object:
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
            text, object_pairs_hook=_make_object, parse_int=float, parse_constant=float
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
        hint = "a snapshot has at most five levels"
        raise SnapshotError(f"{path}: too much stands inside each other; {hint}") from error
