"""`shedlight match`: the matches of patterns, or of an application, in files."""

import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from zoneinfo import available_timezones

import pyarrow as pa
import typer

from shedlight.cli.console import announce_compiling, patterns_of, progress_bar, say
from shedlight.cli.options import microseconds_of
from shedlight.cli.source_files import read_sources
from shedlight.engines import event_files
from shedlight.engines.event_pieces import EventPieces, PiecesDifferError, open_pieces
from shedlight.engines.tables import (
    EVENT_TIME,
    Result,
    add_event_time,
    combine_results,
    run_application,
    run_pieces,
)
from shedlight.errors import InputError, known_names
from shedlight.graph import TimeUnit
from shedlight.graph.application import EXAMPLE_ZONE
from shedlight.language import parse_pattern
from shedlight.matching.operators.cep_operator import build_operator, schema_of
from shedlight.matching.operators.reorder import StreamInput
from shedlight.text_table import align_columns

_TIME = re.compile(r"(?<=:[0-9]{2})(?:\.0{6}|(\.[0-9]*[1-9])0+)Z\Z")  # its last zeros
ROW = "row"  # the id of an event if no column is named: the number of its row, from 1 on


def match(  # noqa: PLR0913  # one argument per option
    application: Annotated[
        Path | None, typer.Argument(help="An application file (YAML), or give --pattern.")
    ] = None,
    *,
    pattern: Annotated[
        list[str] | None, typer.Option(help="A pattern; may be repeated.")
    ] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            help="A file or folder of events (Parquet, CSV, JSON lines); for an application "
            "with several sources NAME=FILE each. Without it, its own paths are read.",
        ),
    ] = None,
    time_column: Annotated[
        str, typer.Option("--time", help="The column with the time of an event.")
    ] = "time",
    time_unit: Annotated[
        TimeUnit, typer.Option(help="Of a time column with numbers.")
    ] = TimeUnit.MICROSECONDS,
    time_zone: Annotated[
        str | None,
        typer.Option(help="Of times that have none, such as Europe/Berlin. [default: UTC]"),
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="The columns that identify an event, COL,COL,... "
            "[default: the number of its row]",
        ),
    ] = None,
    lateness: Annotated[
        str, typer.Option(help="How far behind the latest an event may be, e.g. '5 s'.")
    ] = "0 s",
    output: Annotated[
        Path | None, typer.Option(help="Write the matches there (.parquet, .csv, .jsonl).")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Print at most so many matches.")] = 50,
    timed_out: Annotated[
        bool,
        typer.Option(
            "--timed-out",
            help="Print the partial matches that timed out instead of the matches: events "
            "whose window ended before the others came.",
        ),
    ] = False,
    as_json_: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each match, all of them.")
    ] = False,
) -> None:
    """Find the matches of patterns in a file of events, without Spark."""
    if (application is None) == (not pattern):
        raise typer.BadParameter("give an application file or --pattern, one of the two")
    if output:
        event_files.format_of(output)
    began = time.perf_counter()
    if application is None:
        unit, zone = time_unit.value, _check_zone(time_zone)
        file = _EventFile(input_ or [], time_column, unit, zone, id_, lateness)
        results, table = _match_patterns(pattern or [], file, timed_out=timed_out)
    else:
        results, table = _match_application(application, input_ or [], timed_out=timed_out)
    seconds = time.perf_counter() - began
    if output:
        event_files.write_events(table, output)
    if as_json_:
        for line in event_files.json_lines(table):
            print(line)
    elif not output:
        _show(table, limit)
    what = "timed out" if timed_out else "matches"
    _summarise(results, f"{len(table):,} {what}", seconds, output)


@dataclass(frozen=True, slots=True)
class _EventFile:
    """A file of events, and what the options say about its columns."""

    inputs: list[str]
    time: str
    unit: str
    zone: str | None
    ids: str | None
    lateness: str


def _check_zone(zone: str | None) -> str | None:
    if zone is not None and zone not in available_timezones():
        raise typer.BadParameter(
            f"--time-zone: unknown time zone {zone!r}; name one such as {EXAMPLE_ZONE}"
        )
    return zone


def _match_patterns(
    texts: list[str], file: _EventFile, *, timed_out: bool
) -> tuple[list[Result], pa.Table]:
    if len(file.inputs) != 1:
        raise typer.BadParameter("--pattern needs exactly one --input FILE")
    path = Path(file.inputs[0])
    zoned = file.zone is not None
    is_text = zoned and event_files.format_of(path) == "json"  # only as a whole it stays text
    pieces = None if is_text else open_pieces(path)
    if pieces is not None:
        with suppress(PiecesDifferError):  # it is read as a whole then, below
            return _match_events(texts, file, pieces, timed_out=timed_out)
    events = event_files.read_events(path, times_as_text=zoned)
    whole = EventPieces(events.schema, 1, iter([events]))
    return _match_events(texts, file, whole, timed_out=timed_out)


def _match_events(
    texts: list[str], file: _EventFile, events: EventPieces, *, timed_out: bool
) -> tuple[list[Result], pa.Table]:
    """Match the events of a file, piece by piece."""
    path, schema = file.inputs[0], events.schema
    ids = tuple(name.strip() for name in file.ids.split(",")) if file.ids else (ROW,)
    if not file.ids:
        schema = schema.append(pa.field(ROW, pa.int64()))
    for name in (file.time, *ids):
        if name not in schema.names:
            raise InputError(
                f"{path} has no column {name!r}; {known_names(name, schema.names)}"
            )
    patterns = {}
    for number, text in enumerate(texts, 1):
        parsed = parse_pattern(text, schema_of(schema))
        patterns[f"P{number}"] = parsed.pattern
        for warning in parsed.warnings:
            say(f"warning: {warning}")
    lateness = microseconds_of("--lateness", file.lateness)
    stream = StreamInput(path, ids, EVENT_TIME, lateness, file.time in ids)
    announce_compiling(patterns.values())
    timed = schema.append(pa.field(EVENT_TIME, pa.int64()))
    operator = build_operator(
        [(stream, timed)], patterns, timed_out=patterns if timed_out else ()
    )
    with progress_bar("matching", events.number) as advance:
        result = run_pieces(operator, _with_times(file, events), advance)
    return [result], combine_results(result, timed_out=timed_out)


def _with_times(file: _EventFile, events: EventPieces) -> Iterator[pa.Table]:
    """Give pieces with row numbers, if they are the ids, and the times of events."""
    path, before = file.inputs[0], 0
    for piece in events.tables:
        table = piece if file.ids else event_files.add_row_numbers(piece, ROW, before)
        try:
            yield add_event_time(table, file.time, file.unit, path, file.zone)
        except InputError as error:
            if not before:
                raise
            raise InputError(f"after {before:,} events: {error}") from error
        before += len(piece)


def _match_application(
    path: Path, inputs: list[str], *, timed_out: bool
) -> tuple[list[Result], pa.Table]:
    from shedlight.graph import load_application  # noqa: PLC0415  # it reads YAML

    application = load_application(path).application
    tables = read_sources(application, path.parent, inputs)
    announce_compiling(patterns_of(application))
    results = list(run_application(application, tables, timed_out=timed_out).values())
    matches = [combine_results(result, timed_out=timed_out) for result in results]
    nonempty = [table for table in matches if len(table)] or matches[-1:]
    return results, event_files.stack_tables(nonempty)


def _show(table: pa.Table, limit: int) -> None:
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


def _summarise(
    results: list[Result], matches: str, seconds: float, output: Path | None
) -> None:
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
