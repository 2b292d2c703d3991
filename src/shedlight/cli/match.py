"""`shedlight match`: the matches of patterns, or of an application, in files."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from shedlight.cli.console import announce_compiling, progress_bar, say
from shedlight.cli.future_events import FutureCounts
from shedlight.cli.malformed import MalformedFile, MalformedRecords
from shedlight.cli.match_application import load_for_match, match_application
from shedlight.cli.match_text import show_matches, summarise
from shedlight.cli.options import (
    ROW,
    Ids,
    Inputs,
    Lateness,
    TimeColumn,
    TimeUnitOption,
    TimeZone,
    check_zone,
    microseconds_of,
    seconds_of,
)
from shedlight.cli.source_files import collect_unparsable
from shedlight.engines import event_files
from shedlight.engines.event_pieces import EventPieces, PiecesDifferError, open_pieces
from shedlight.engines.malformed import find_problems, split_records
from shedlight.engines.pieces_run import run_pieces
from shedlight.engines.tables import (
    EVENT_TIME,
    Result,
    add_event_time,
    combine_results,
    event_time_of,
)
from shedlight.engines.time_jumps import OnFuture, leave_out_future
from shedlight.errors import InputError, known_names
from shedlight.graph import Source, TimeUnit
from shedlight.language import parse_pattern
from shedlight.matching.operators.cep_operator import build_operator, schema_of
from shedlight.matching.operators.reorder import StreamInput


def match(  # noqa: PLR0913  # one argument per option
    application: Annotated[
        Path | None, typer.Argument(help="An application file (YAML), or give --pattern.")
    ] = None,
    *,
    pattern: Annotated[
        list[str] | None, typer.Option(help="A pattern; may be repeated.")
    ] = None,
    input_: Inputs = None,
    time_column: TimeColumn = "time",
    time_unit: TimeUnitOption = TimeUnit.MICROSECONDS,
    time_zone: TimeZone = None,
    id_: Ids = None,
    lateness: Lateness = "0 s",
    max_jump: Annotated[
        str,
        typer.Option(help="How far ahead of the clock the time of an event may be."),
    ] = "1 day",
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
    malformed: MalformedFile = None,
    as_json_: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each match, all of them.")
    ] = False,
) -> None:
    """Find the matches of patterns in a file of events, without Spark."""
    if (application is None) == (not pattern):
        raise typer.BadParameter("give an application file or --pattern, one of the two")
    for file in filter(None, (output, malformed)):
        event_files.format_of(file)
    left_out, future = MalformedRecords(), FutureCounts()
    began = time.perf_counter()
    if application is None:
        events = _EventFile(
            inputs=input_ or [],
            time=time_column,
            unit=time_unit.value,
            zone=check_zone(time_zone),
            ids=id_,
            lateness=lateness,
            max_jump=round(seconds_of("--max-jump", max_jump) * 1e6),
            leaves_out_malformed=malformed is not None,
        )
        results, table = _match_patterns(
            pattern or [], events, left_out, future, timed_out=timed_out
        )
    else:
        loaded = load_for_match(application, malformed)
        results, table = match_application(
            loaded, application.parent, input_ or [], left_out, future, timed_out=timed_out
        )
    seconds = time.perf_counter() - began
    if output:
        event_files.write_events(table, output)
    if as_json_:
        for line in event_files.json_lines(table):
            print(line)
    elif not output:
        show_matches(table, limit)
    what = "timed out" if timed_out else "matches"
    summarise(results, f"{len(table):,} {what}", seconds, output)
    left_out.report(malformed, "; --malformed FILE writes them all")
    setting = "--max-jump" if application is None else "`max_jump` of the source"
    future.report(f"allow for more by {setting}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _EventFile:
    """A file of events, and what the options say about its columns."""

    inputs: list[str]
    time: str
    unit: str
    zone: str | None
    ids: str | None
    lateness: str
    max_jump: int  # in microseconds
    leaves_out_malformed: bool  # or they are an error

    def leave_out_future(self, now: int, on_future: OnFuture, events: pa.Table) -> pa.Table:
        """Leave out events from the future."""
        source = Source(
            name=self.inputs[0],
            time=self.time,
            time_unit=TimeUnit(self.unit),
            time_zone=self.zone,
            id=_ids(self),
            max_jump=self.max_jump,
        )
        return leave_out_future(source, events, now, on_future)


def _match_patterns(
    texts: list[str],
    file: _EventFile,
    left_out: MalformedRecords,
    future: FutureCounts,
    *,
    timed_out: bool,
) -> tuple[list[Result], pa.Table]:
    if len(file.inputs) != 1:
        raise typer.BadParameter("--pattern needs exactly one --input FILE")
    path = Path(file.inputs[0])
    zoned = file.zone is not None
    # only as a whole it stays text
    is_text = zoned and (path.is_dir() or event_files.format_of(path) == "json")
    unparsable: list[pa.Table] = []
    collect = collect_unparsable(str(path), unparsable.append)
    on_unparsable = collect if file.leaves_out_malformed else None
    pieces = None if is_text else open_pieces(path, None, on_unparsable)
    if pieces is not None:
        with suppress(PiecesDifferError):  # it is read as a whole then, below
            found = _match_events(texts, file, pieces, left_out, future, timed_out=timed_out)
            for records in unparsable:
                left_out.add(records)
            return found
        future.clear()
        unparsable.clear()
    events = event_files.read_events(path, times_as_text=zoned, on_unparsable=on_unparsable)
    for records in unparsable:
        left_out.add(records)
    whole = EventPieces(events.schema, 1, iter([events]))
    return _match_events(texts, file, whole, left_out, future, timed_out=timed_out)


def _match_events(
    texts: list[str],
    file: _EventFile,
    events: EventPieces,
    left_out: MalformedRecords,
    future: FutureCounts,
    *,
    timed_out: bool,
) -> tuple[list[Result], pa.Table]:
    """Match the events of a file, piece by piece."""
    path, schema = file.inputs[0], events.schema
    ids = _ids(file)
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
    malformed: list[pa.Table] = []
    timed_events = _with_times(file, events, malformed, future.add)
    with progress_bar("matching", events.number) as advance:
        result = run_pieces(operator, timed_events, advance)
    for records in malformed:
        left_out.add(records)
    return [result], combine_results(result, timed_out=timed_out)


def _ids(file: _EventFile) -> tuple[str, ...]:
    return tuple(name.strip() for name in file.ids.split(",")) if file.ids else (ROW,)


def _with_times(
    file: _EventFile, events: EventPieces, malformed: list[pa.Table], on_future: OnFuture
) -> Iterator[pa.Table]:
    """Give pieces with row numbers, if they are the ids, and the times of events.

    Malformed records are added to a list, if they are to be left out; events from the future
    are left out.
    """
    path, before, now = file.inputs[0], 0, time.time_ns() // 1000
    for piece in events.tables:
        table = piece if file.ids else event_files.add_row_numbers(piece, ROW, before)
        try:
            table = file.leave_out_future(now, on_future, table)
            if file.leaves_out_malformed:
                table, records = _split_malformed(file, table)
                malformed.append(records)
            yield add_event_time(table, file.time, file.unit, path, file.zone)
        except InputError as error:
            if not before:
                raise
            raise InputError(f"after {before:,} events: {error}") from error
        before += len(piece)


def _split_malformed(file: _EventFile, table: pa.Table) -> tuple[pa.Table, pa.Table]:
    path, ids = file.inputs[0], _ids(file)
    times = event_time_of(table[file.time], file.unit, file.zone, f"{path}: {file.time!r}")
    problems = find_problems(table, ids, file.time, times.valid)
    return split_records(path, table, problems)
