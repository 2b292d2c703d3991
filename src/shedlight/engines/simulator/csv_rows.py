"""Results of an experiment as a CSV file: its rows, and on top what they were made with.

The lines on top start with `#` and are `name: value`: the seed, the versions and the machine.
Figures are drawn from such a file alone, so they can be drawn again, and elsewhere.
"""

import csv
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from shedlight.errors import InputError

Row = TypeVar("Row")

_MARK = "# "
_MARKS = {"True": True, "False": False}


@dataclass(frozen=True, slots=True)
class Results(Generic[Row]):
    """What a file of results has.

    Attributes:
        made_with: Seed, versions and machine, by name.
        rows: The rows, frozen values of numbers, text, enums and None.
    """

    made_with: Mapping[str, str]
    rows: tuple[Row, ...]


def provenance() -> dict[str, str]:
    """Say what results are made with here."""
    packages = {name: version(name) for name in ("shedlight", "highspy", "numpy")}
    return packages | {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu_count": str(os.cpu_count()),
    }


def to_json_values(row: Any) -> dict[str, Any]:  # noqa: ANN401  # any frozen row
    """Give a row as values that JSON has."""
    return {
        name: value.value if isinstance(value, Enum) else value
        for name, value in asdict(row).items()
    }


def write_results(
    path: Path, rows: Iterable[Row], kind: type[Row], made_with: Mapping[str, str]
) -> tuple[Row, ...]:
    """Write rows as they come, and give them all.

    The file appears under its name when it is complete, never in part. Whether it can be
    written turns out before the first row is asked for.

    Raises:
        InputError: It cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    written = []
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            file.writelines(f"{_MARK}{name}: {value}\n" for name, value in made_with.items())
            table = csv.DictWriter(file, [one.name for one in fields(_class(kind))])
            table.writeheader()
            for row in rows:
                table.writerow(to_json_values(row))
                written.append(row)
        unfinished.replace(path)
    except OSError as error:
        raise cannot_write_error(path, error) from error
    finally:
        if path.parent.is_dir():
            unfinished.unlink(missing_ok=True)
    return tuple(written)


def cannot_write_error(path: Path, error: OSError) -> InputError:
    """Say that a file cannot be written, and why."""
    return InputError(
        f"{path}: cannot be written: {error.strerror or error}; "
        "give a folder that can be written to"
    )


def read_results(path: Path, kind: type[Row]) -> Results[Row]:
    """Read what `write_results` wrote.

    Raises:
        InputError: It cannot be read, or has not the columns of such rows.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    top = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]
    table = csv.DictReader(line for line in lines if not line.startswith(_MARK))
    kinds = get_type_hints(kind)
    if list(table.fieldnames or ()) != list(kinds):
        raise InputError(f"{path}: its columns must be {', '.join(kinds)}")
    try:
        rows = tuple(
            kind(**{name: _value(row[name], kinds[name]) for name in kinds}) for row in table
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: line {table.line_num + len(top)}: {error}") from error
    return Results({name: value for name, _, value in (t.partition(": ") for t in top)}, rows)


def _value(text: str, kind: Any) -> Any:  # noqa: ANN401  # what the annotation says
    """Read a cell; an empty one is None where there may be none."""
    may_be = get_args(kind) or (kind,)
    if not text and type(None) in may_be:
        return None
    if may_be[0] is bool:
        return _MARKS[text]
    return may_be[0](text)


def _class(kind: Any) -> Any:  # noqa: ANN401  # `fields` wants to know that it is a dataclass
    return kind
