"""Results as a CSV file: rows, and on top what they were made with.

The lines on top start with `#` and are `name: value`: the seed, the versions and the computer.
"""

import csv
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from shedlight.engines.event_files import written_whole

Row = TypeVar("Row")

COMMENT = "# "


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
    """
    written = []
    with written_whole(path) as unfinished:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            file.writelines(f"{COMMENT}{name}: {value}\n" for name, value in made_with.items())
            table = csv.DictWriter(file, list(get_type_hints(row_type)))
            table.writeheader()
            for row in rows:
                table.writerow(to_json_values(row))
                written.append(row)
    return tuple(written)
