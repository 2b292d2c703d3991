"""Malformed records that a command left out: said, and written to a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from shedlight.cli.console import say
from shedlight.engines import event_files
from shedlight.engines.malformed import SCHEMA

_MAX_SHOWN = 100  # how many characters of a record are printed

MalformedFile = Annotated[
    Path | None,
    typer.Option(
        "--malformed",
        help="Leave out records that cannot be parsed or have no time or no id, and write them "
        "there (.parquet, .csv, .jsonl), as `malformed` of a source does on Spark.  [default: "
        "they are an error, unless their source has `malformed`]",
    ),
]


class MalformedRecords:
    """Collects malformed records; `add` takes a table of them."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = [SCHEMA.empty_table()]

    def add(self, records: pa.Table) -> None:
        """Take malformed records."""
        if len(records):
            self._tables.append(records)

    def report(self, output: Path | None, advice: str = "") -> None:
        """Write them to a file, if one is given, and say how many of each source there are."""
        records = pa.concat_tables(self._tables)
        if output is not None:
            event_files.write_events(records, output)
        end = f" -> {output}" if output else advice
        for name, (number, problem, record) in _by_source(records).items():
            shown = record if len(record) <= _MAX_SHOWN else f"{record[:_MAX_SHOWN]}..."
            say(
                f"{name}: {number:,} malformed record{'s' * (number > 1)} left out, "
                f"first: {problem}: {shown}{end}"
            )


def _by_source(records: pa.Table) -> Mapping[str, tuple[int, str, str]]:
    """Give the number of records of each source, and the first with its problem."""
    found: dict[str, tuple[int, str, str]] = {}
    for row in records.to_pylist():
        number, problem, record = found.get(row["source"], (0, row["problem"], row["record"]))
        found[row["source"]] = (number + 1, problem, record)
    return found
