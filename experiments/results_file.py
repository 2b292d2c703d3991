"""Files of results, read: figures are drawn from them alone, so that can be done elsewhere."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from shedlight.engines.simulator.csv_rows import COMMENT
from shedlight.errors import InputError

Row = TypeVar("Row")

_BOOLEANS = {"True": True, "False": False}


@dataclass(frozen=True, slots=True)
class Results(Generic[Row]):
    """The rows of a file of results, and what they were made with."""

    made_with: Mapping[str, str]  # seed, versions and computer, by name
    rows: tuple[Row, ...]  # the rows, frozen values of numbers, text, enums and None


def read_results(path: Path, row_type: type[Row]) -> Results[Row]:
    """Read what `write_results` wrote.

    Raises:
        InputError: It cannot be read, or has not the columns of such rows.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    top = [line.removeprefix(COMMENT) for line in lines if line.startswith(COMMENT)]
    table = csv.DictReader(line for line in lines if not line.startswith(COMMENT))
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
