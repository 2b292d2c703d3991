"""Arguments and options that several commands have."""

import re
from pathlib import Path
from typing import Annotated
from zoneinfo import available_timezones

import typer

from shedlight.graph import TimeUnit
from shedlight.graph.application import EXAMPLE_ZONE
from shedlight.language.ast.window import read_duration

ApplicationFile = Annotated[Path, typer.Argument(help="An application file (YAML).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Conf = Annotated[
    list[str] | None, typer.Option(help="A setting of Spark: NAME=VALUE; may be repeated.")
]

# A file of events

Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        help="A file or folder of events (Parquet, CSV, JSON lines); for an application "
        "with several sources NAME=FILE each. Without it, its own paths are read.",
    ),
]
TimeColumn = Annotated[
    str, typer.Option("--time", help="The column with the time of an event.")
]
TimeUnitOption = Annotated[TimeUnit, typer.Option(help="Of a time column with numbers.")]
TimeZone = Annotated[
    str | None,
    typer.Option(help="Of times that have none, such as Europe/Berlin. [default: UTC]"),
]
Ids = Annotated[
    str | None,
    typer.Option(
        "--id",
        help="The columns that identify an event, COL,COL,... [default: the number of its row]",
    ),
]
Lateness = Annotated[
    str, typer.Option(help="How far behind the latest an event may be, e.g. '5 s'.")
]
ROW = "row"  # the id of an event if no column is named: the number of its row, from 1 on


def microseconds_of(option: str, text: str) -> int:
    """Read a time, in microseconds."""
    try:
        return read_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option} {error}") from error


def seconds_of(option: str, text: str) -> float:
    """Read a time that is longer than zero, in seconds."""
    seconds = microseconds_of(option, text) / 1e6
    if seconds <= 0:
        raise typer.BadParameter(f"{option} must be longer than zero, got {text!r}")
    return seconds


_NUMBER = re.compile(r"-?[0-9]{1,18}")  # what is longer is further away than any time


def time_of(option: str, text: str, zone: str | None = None) -> int:
    """Read a point in time, in microseconds since 1970."""
    import pyarrow as pa  # noqa: PLC0415  # only where a time is asked for

    from shedlight.matching.event_time import TIME_FORMS, read_event_times  # noqa: PLC0415

    value = int(text) if _NUMBER.fullmatch(text) else text
    times = read_event_times(pa.array([value]), "us", zone)
    if not times.valid[0]:
        forms = TIME_FORMS.replace("`time_unit`", "microseconds")
        raise typer.BadParameter(f"{option}: {text!r} is no time; {forms}")
    return int(times.values[0])


def check_zone(zone: str | None) -> str | None:
    """Give a time zone that there is, or none."""
    if zone is not None and zone not in available_timezones():
        raise typer.BadParameter(
            f"--time-zone: unknown time zone {zone!r}; name one such as {EXAMPLE_ZONE}"
        )
    return zone
