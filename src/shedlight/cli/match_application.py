"""The matches of an application in the files of its sources, in pieces where they are large."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from shedlight.cli.console import announce_compiling, patterns_of, progress_bar
from shedlight.cli.future_events import FutureCounts
from shedlight.cli.malformed import MalformedRecords
from shedlight.cli.source_files import open_sources, read_sources
from shedlight.engines import event_files
from shedlight.engines.event_pieces import EventPieces, PiecesDifferError
from shedlight.engines.pieces_run import run_application_pieces
from shedlight.engines.tables import Result, combine_results, run_application
from shedlight.graph import Application
from shedlight.graph.application import SideOutput


def load_for_match(path: Path, malformed: Path | None) -> Application:
    """Load an application; a file for malformed records is the place of all sources."""
    from shedlight.graph import load_application  # noqa: PLC0415  # it reads YAML

    application = load_application(path).application
    if malformed is None:
        return application
    place = SideOutput(format=event_files.format_of(malformed), path=str(malformed))
    sources = {
        name: replace(source, malformed=place) for name, source in application.sources.items()
    }
    return replace(application, sources=sources)


def match_application(
    application: Application,
    folder: Path,
    inputs: Iterable[str],
    left_out: MalformedRecords,
    future: FutureCounts,
    *,
    timed_out: bool,
) -> tuple[list[Result], pa.Table]:
    """Match the events of all sources: results by operator, and all that was found.

    Paths of sources are relative to the folder; inputs are values of --input.
    """
    found = None
    malformed: list[pa.Table] = []
    sources = open_sources(application, folder, inputs, malformed.append, future.add)
    if sources is not None:
        announce_compiling(patterns_of(application))
        with suppress(PiecesDifferError):  # they are read as a whole then, below
            found = _run_pieces(application, sources, malformed, timed_out=timed_out)
    if found is None:
        malformed.clear()
        future.clear()
        tables = read_sources(
            application, folder, inputs, on_malformed=malformed.append, on_future=future.add
        )
        if sources is None:
            announce_compiling(patterns_of(application))
        found = run_application(
            application, tables, timed_out=timed_out, on_malformed=malformed.append
        )
    for records in malformed:
        left_out.add(records)
    results = list(found.values())
    matches = [combine_results(result, timed_out=timed_out) for result in results]
    nonempty = [table for table in matches if len(table)] or matches[-1:]
    return results, event_files.stack_tables(nonempty)


def _run_pieces(
    application: Application,
    sources: Mapping[str, EventPieces],
    malformed: list[pa.Table],
    *,
    timed_out: bool,
) -> Mapping[str, Result]:
    number = sum(pieces.number for pieces in sources.values())
    with progress_bar("matching", number) as advance:
        return run_application_pieces(
            application,
            sources,
            timed_out=timed_out,
            on_malformed=malformed.append,
            on_piece=advance,
        )
