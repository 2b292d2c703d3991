"""The events of an application's sources, from files that are given or its own paths."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from shedlight.engines.event_files import OnUnparsable, read_events
from shedlight.engines.malformed import unparsable_record
from shedlight.engines.time_jumps import OnFuture, leave_out_future
from shedlight.errors import InputError, known_names
from shedlight.graph import Application


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
    given = dict(_read_input(text, list(application.sources)) for text in inputs)
    tables = {}
    for name, source in application.sources.items():
        path = given.get(name) or (folder / source.path if source.path else None)
        if path is None or not (name in given or path.exists()):
            raise InputError(
                f"source {name!r} has no events at {path or 'any path'}; "
                f"give --input {name}=FILE{advice}"
            )
        given_format = None if name in given else source.format
        zoned = source.time_zone is not None
        collect = collect_unparsable(f"source {name}", on_malformed)
        events = read_events(
            path,
            given_format,
            times_as_text=zoned,
            on_unparsable=collect if source.malformed else None,
        )
        tables[name] = leave_out_future(source, events, time.time_ns() // 1000, on_future)
    return tables


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
