"""`shedlight match`: the matches of patterns, or of an application, in files."""

import sys
import time
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from shedlight.cli.console import announce_compiling, say
from shedlight.engines.event_files import (
    add_row_numbers,
    flatten_nested,
    format_of,
    json_lines,
    read_events,
    stack_tables,
    write_events,
)
from shedlight.engines.tables import (
    EVENT_TIME,
    TIME_UNITS,
    Result,
    add_event_time,
    combine_results,
    match_tables,
    run_application,
)
from shedlight.errors import InputError, known_names
from shedlight.graph import load_application
from shedlight.language import parse_pattern
from shedlight.language.ast.window import read_duration
from shedlight.matching.operators.cep_operator import schema_of
from shedlight.matching.operators.reorder import StreamInput
from shedlight.text_table import align_columns

ROW = "row"
"""The id of an event if no column is named: the number of its row, from 1 on."""


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
        str, typer.Option(help="Of a time column with numbers: us, ms or s.")
    ] = "us",
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
            help="Give what timed out instead of the matches: events that the window of a "
            "pattern left without the others.",
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
        format_of(output)
    began = time.perf_counter()
    if application is None:
        results, table = _match_patterns(
            pattern or [], input_ or [], (time_column, time_unit), id_, lateness, timed_out
        )
    else:
        results, table = _match_application(application, input_ or [], timed_out)
    seconds = time.perf_counter() - began
    if output:
        write_events(table, output)
    if as_json_:
        for line in json_lines(table):
            print(line)
    elif not output:
        _show(table, limit)
    what = "timed out" if timed_out else "matches"
    _summarise(results, f"{len(table):,} {what}", seconds, output)


def _match_patterns(
    texts: list[str],
    inputs: list[str],
    told: tuple[str, str],
    ids: str | None,
    lateness: str,
    timed_out: bool,  # noqa: FBT001  # what the options say
) -> tuple[list[Result], pa.Table]:
    column, unit = told
    if len(inputs) != 1:
        raise typer.BadParameter("--pattern needs exactly one --input FILE")
    if unit not in TIME_UNITS:
        raise typer.BadParameter(
            f"unknown --time-unit {unit!r}; {known_names(unit, TIME_UNITS)}"
        )
    path = Path(inputs[0])
    events = read_events(path)
    names = tuple(name.strip() for name in ids.split(",")) if ids else (ROW,)
    if not ids:
        events = add_row_numbers(events, ROW)
    for name in (column, *names):
        if name not in events.column_names:
            raise InputError(
                f"{path} has no column {name!r}; {known_names(name, events.column_names)}"
            )
    schema = schema_of(events.schema)
    patterns = {}
    for number, text in enumerate(texts, 1):
        parsed = parse_pattern(text, schema)
        patterns[f"P{number}"] = parsed.pattern
        for warning in parsed.warnings:
            say(f"warning: {warning}")
    behind = _lateness_of(lateness)
    one = StreamInput(str(path), names, EVENT_TIME, behind, column in names)
    announce_compiling()
    table = add_event_time(events, column, unit, str(path))
    result = match_tables([(one, table)], patterns, timed_out=timed_out)
    kind = events.schema.field(column).type
    return [result], combine_results(result, kind, unit, timed_out=timed_out)


def _lateness_of(text: str) -> int:
    try:
        return read_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"--lateness {error}") from error


def _match_application(
    path: Path,
    inputs: list[str],
    timed_out: bool,  # noqa: FBT001  # what the option says
) -> tuple[list[Result], pa.Table]:
    application = load_application(path).application
    given = dict(_input_of(text, list(application.sources)) for text in inputs)
    tables = {}
    for name, source in application.sources.items():
        place = given.get(name) or (Path(path.parent, source.path) if source.path else None)
        if place is None:
            raise InputError(f"source {name} has no path; give --input {name}=FILE")
        tables[name] = read_events(place, None if name in given else source.format)
    announce_compiling()
    results = list(run_application(application, tables, timed_out=timed_out).values())
    found = [combine_results(result, timed_out=timed_out) for result in results]
    shown = [table for table in found if len(table)] or found[-1:]
    return results, stack_tables(shown)


def _input_of(text: str, sources: list[str]) -> tuple[str, Path]:
    name, separator, file = text.partition("=")
    if separator and name in sources:
        return name, Path(file)
    if len(sources) == 1:
        return sources[0], Path(text)
    raise InputError(
        f"--input {text!r} does not say which source it is for; write NAME=FILE; "
        f"{known_names(name, sources)}"
    )


def _show(table: pa.Table, limit: int) -> None:
    """Print matches as a table, in a terminal with lines."""
    shown = flatten_nested(table.slice(0, limit))
    rows = [[_cell(value) for value in row.values()] for row in shown.to_pylist()]
    if sys.stdout.isatty():
        drawn = Table(*shown.column_names)
        for row in rows:
            drawn.add_row(*row)
        Console().print(drawn)
        return
    for line in align_columns([shown.column_names, *rows], left=None):
        print(line)


def _cell(value: object) -> str:
    if value is None:
        return "null"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."  # noqa: PLR2004  # a screen's width


def _summarise(results: list[Result], found: str, seconds: float, output: Path | None) -> None:
    """Say how much was read and found, and what was lost and why."""
    first = results[0]
    where = f" -> {output}" if output else ""
    say(f"{first.events:,} events, {found} in {seconds:.1f} s{where}")
    late = sum(one.late for one in results)
    if late:
        say(
            f"{late:,} late events were not matched: they came behind later ones; "
            "sort the file by time, or allow for it by --lateness"
        )
    duplicates = sum(one.duplicates for one in results)
    if duplicates:
        say(f"{duplicates:,} duplicates were left out: events with an id that was there before")
    if any(one.evicted or one.dropped for one in results):
        say(
            f"{sum(one.evicted for one in results):,} machines and "
            f"{sum(one.dropped for one in results):,} assignments were beyond the caps"
        )
