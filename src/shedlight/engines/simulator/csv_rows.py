"""Results as a CSV file: rows, and on top what they were made with.

The lines on top start with `#` and are `name: value`: the seed, the versions and the computer.
Figures are drawn from such a file alone, so they can be drawn again, and elsewhere.
"""

import csv
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from shedlight.engines.event_files import written_whole
from shedlight.errors import InputError

Row = TypeVar("Row")

_COMMENT = "# "
_BOOLEANS = {"True": True, "False": False}


@dataclass(frozen=True, slots=True)
class Results(Generic[Row]):
    """The rows of a file of results, and what they were made with."""

    made_with: Mapping[str, str]  # seed, versions and computer, by name
    rows: tuple[Row, ...]  # the rows, frozen values of numbers, text, enums and None


def provenance() -> dict[str, str]:
    """Give the versions and the computer that results are made with."""
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
    path: Path, rows: Iterable[Row], row_type: type[Row], made_with: Mapping[str, str]
) -> tuple[Row, ...]:
    """Write rows as they come, and give them all.

    Whether the file can be written turns out before the first row is asked for.

    Raises:
        InputError: It cannot be written.
    """
    written = []
    with written_whole(path) as unfinished:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            file.writelines(f"{_COMMENT}{name}: {value}\n" for name, value in made_with.items())
            table = csv.DictWriter(file, list(get_type_hints(row_type)))
            table.writeheader()
            for row in rows:
                table.writerow(to_json_values(row))
                written.append(row)
    return tuple(written)


def read_results(path: Path, row_type: type[Row]) -> Results[Row]:
    """Read what `write_results` wrote.

    Raises:
        InputError: It cannot be read, or has not the columns of such rows.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    top = [line.removeprefix(_COMMENT) for line in lines if line.startswith(_COMMENT)]
    table = csv.DictReader(line for line in lines if not line.startswith(_COMMENT))
    types = get_type_hints(row_type)
    if list(table.fieldnames or ()) != list(types):
        raise InputError(f"{path}: its columns must be {', '.join(types)}")
    try:
        rows = tuple(
            row_type(**{name: _value(row[name], types[name]) for name in types})
            for row in table
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: line {table.line_num + len(top)}: {error}") from error
    return Results({name: value for name, _, value in (t.partition(": ") for t in top)}, rows)


def _value(text: str, data_type: Any) -> Any:  # noqa: ANN401  # what the annotation says
    """Read a cell; an empty one is None where there may be none."""
    may_be = get_args(data_type) or (data_type,)
    if not text and type(None) in may_be:
        return None
    if may_be[0] is bool:
        return _BOOLEANS[text]
    return may_be[0](text)
