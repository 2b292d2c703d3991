"""The events of an application's sources, from files that are given or its own paths."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from shedlight.engines.event_files import (
    OnUnparsable,
    files_of_folder,
    format_of,
    read_events,
)
from shedlight.engines.event_pieces import EventPieces, open_pieces
from shedlight.engines.malformed import unparsable_record
from shedlight.engines.spark.session.paths import is_local
from shedlight.engines.time_jumps import OnFuture, leave_out_future
from shedlight.errors import InputError, known_names
from shedlight.graph import Application, SideOutput, Sink, Source


def read_sources(
    application: Application,
    folder: Path,
    inputs: Iterable[str],
    advice: str = "",
    on_malformed: Callable[[pa.Table], None] = lambda _: None,
    on_future: OnFuture = lambda _: None,
) -> Mapping[str, pa.Table]:
    """Read the events of all sources.

    Paths are relative to the folder of the application file; inputs are values of the option
    --input: NAME=FILE, or FILE for an only source. Advice is what else can be done. Records
    that cannot be parsed are left out of sources that have a place for malformed ones, and
    events from the future of all.
    """
    tables = {}
    for source, path, given_format in _files(application, folder, inputs, advice):
        events = read_events(
            path,
            given_format,
            times_as_text=source.time_zone is not None,
            on_unparsable=_collector(source, on_malformed),
        )
        now = time.time_ns() // 1000
        tables[source.name] = leave_out_future(source, events, now, on_future)
    return tables


def open_sources(
    application: Application,
    folder: Path,
    inputs: Iterable[str],
    on_malformed: Callable[[pa.Table], None],
    on_future: OnFuture,
) -> Mapping[str, EventPieces] | None:
    """Open all sources to read them piece by piece; None if no file of them is large.

    For the arguments see `read_sources`.
    """
    opened, now, is_large = {}, time.time_ns() // 1000, False
    for source, path, given_format in _files(application, folder, inputs):
        zoned, collect = source.time_zone is not None, _collector(source, on_malformed)
        is_text = zoned and "json" in _formats(path, given_format)  # only as a whole it is
        pieces = None if is_text else open_pieces(path, given_format, collect)
        is_large |= pieces is not None
        opened[source.name] = (source, path, given_format, collect, pieces)
    if not is_large:
        return None
    return {
        name: _without_future(
            source, pieces or _whole(path, given, collect, source), now, on_future
        )
        for name, (source, path, given, collect, pieces) in opened.items()
    }


def _formats(path: Path, given: str | None) -> set[str]:
    """Say which formats a file has, or the files of a folder."""
    files = files_of_folder(path, given) if path.is_dir() else [path]
    return {format_of(file, given) for file in files}


def _whole(
    path: Path, given: str | None, collect: OnUnparsable | None, source: Source
) -> EventPieces:
    """Read a file as one piece."""
    zoned = source.time_zone is not None
    events = read_events(path, given, times_as_text=zoned, on_unparsable=collect)
    return EventPieces(events.schema, 1, iter([events]))


def _without_future(
    source: Source, pieces: EventPieces, now: int, on_future: OnFuture
) -> EventPieces:
    tables = (leave_out_future(source, table, now, on_future) for table in pieces.tables)
    return replace(pieces, tables=tables)


def _files(
    application: Application, folder: Path, inputs: Iterable[str], advice: str = ""
) -> Iterator[tuple[Source, Path, str | None]]:
    """Give the file or folder of each source, and its format where that is given."""
    given = dict(_read_input(text, list(application.sources)) for text in inputs)
    for name, source in application.sources.items():
        path = given.get(name) or (folder / source.path if source.path else None)
        if path is None or not (name in given or path.exists()):
            raise InputError(
                f"source {name!r} has no events at {path or 'any path'}; "
                f"give --input {name}=FILE{advice}"
            )
        yield source, path, None if name in given else source.format


def _collector(source: Source, on_malformed: Callable[[pa.Table], None]) -> OnUnparsable | None:
    if not source.malformed:
        return None
    return collect_unparsable(f"source {source.name}", on_malformed)


def collect_unparsable(source: str, on_malformed: Callable[[pa.Table], None]) -> OnUnparsable:
    """Have records of a source that cannot be parsed be malformed ones."""
    return lambda *what: on_malformed(unparsable_record(source, *what))


def _read_input(text: str, sources: list[str]) -> tuple[str, Path]:
    name, separator, file = text.partition("=")
    if separator and name in sources:
        return name, Path(file)
    if len(sources) == 1 and (not separator or Path(text).exists()):
        return sources[0], Path(text)
    raise InputError(
        f"--input {text!r} does not say which source it is for; write NAME=FILE; "
        f"{known_names(name, sources)}"
    )


_Location = TypeVar("_Location", Source, Sink, SideOutput)


def with_absolute_paths(application: Application, file: Path) -> Application:
    """Make paths absolute; they are relative to the application file."""
    folder = file.absolute().parent

    def absolute(location: _Location) -> _Location:
        path = location.path
        if path is None or not is_local(path) or path.startswith("file:"):
            return location
        return replace(location, path=str(folder / path))

    sources = {
        name: replace(
            absolute(source),
            late=source.late and absolute(source.late),
            malformed=source.malformed and absolute(source.malformed),
        )
        for name, source in application.sources.items()
    }
    sinks = {name: absolute(sink) for name, sink in application.sinks.items()}
    return replace(application, sources=sources, sinks=sinks)
