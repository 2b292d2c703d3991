"""The matches of `shedlight match` as text, and what was left out."""

import re
import sys
from pathlib import Path

import pyarrow as pa

from shedlight.cli.console import say
from shedlight.engines import event_files
from shedlight.engines.tables import Result
from shedlight.text_table import align_columns

_TIME = re.compile(r"(?<=:[0-9]{2})(?:\.0{6}|(\.[0-9]*[1-9])0+)Z\Z")  # its last zeros


def show_matches(table: pa.Table, limit: int) -> None:
    """Print matches as a table, in a terminal with lines."""
    first = event_files.with_written_times(table.slice(0, limit))
    shown = event_files.flatten_nested(first)
    rows = [[_cell(value) for value in row.values()] for row in shown.to_pylist()]
    if sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415  # only in a terminal
        from rich.table import Table  # noqa: PLC0415

        grid = Table(*shown.column_names)
        for row in rows:
            grid.add_row(*row)
        Console().print(grid)
        return
    for line in align_columns([shown.column_names, *rows], left=None):
        print(line)


def _cell(value: object) -> str:
    if value is None:
        return "null"
    text = f"{value:.6g}" if isinstance(value, float) else _TIME.sub(r"\1Z", str(value))
    return text if len(text) <= 80 else text[:77] + "..."  # noqa: PLR2004  # a screen's width


def summarise(results: list[Result], matches: str, seconds: float, output: Path | None) -> None:
    """Print how much was read and found, and what was left out and why."""
    path = f" -> {output}" if output else ""
    say(f"{results[0].events:,} events, {matches} in {seconds:.1f} s{path}")
    late = sum(result.late for result in results)
    if late:
        say(
            f"{late:,} late events were not matched: they came behind later ones; "
            "sort the file by time, or allow for it by --lateness"
        )
    duplicates = sum(result.duplicates for result in results)
    if duplicates:
        say(f"{duplicates:,} duplicates were left out: events with an id that was there before")
    evicted = sum(result.evicted for result in results)
    dropped = sum(result.dropped for result in results)
    if evicted or dropped:
        say(f"{evicted:,} partial matches and {dropped:,} assignments were beyond the caps")
