"""One table of times: how they may be written, and the instants that they are."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from shedlight.engines.event_files import json_lines
from shedlight.graph import (
    Application,
    Node,
    OperatorSpec,
    Sink,
    Source,
    Stream,
    TimeUnit,
    build_application,
)
from shedlight.language import parse_pattern

ZONE = "Europe/Berlin"
TEXT_FORMATS = ("json", "csv", "parquet")
_FOREVER = 10**17  # of lateness: the order of the cases does not matter
_OPTIONS = {"csv": {"header": "true", "inferSchema": "true"}}


@dataclass(frozen=True)
class TimeCase:
    """Times of one column, and what they are in UTC."""

    name: str
    times: pa.Array
    instants: tuple[str, ...]
    unit: TimeUnit = TimeUnit.MICROSECONDS
    zone: str | None = None
    formats: tuple[str, ...] = TEXT_FORMATS

    @property
    def micros(self) -> list[int]:
        """The instants as microseconds since 1970."""
        start = datetime(1970, 1, 1, tzinfo=UTC)
        apart = (datetime.fromisoformat(text) - start for text in self.instants)
        return [
            one.days * 86_400_000_000 + one.seconds * 10**6 + one.microseconds for one in apart
        ]


def _of_text(name: str, pairs: dict[str, str], zone: str | None = None) -> TimeCase:
    return TimeCase(name, pa.array(list(pairs)), tuple(pairs.values()), zone=zone)


def _naive(unit: str) -> pa.Array:
    times = [datetime(2026, 1, 1, 1, 2, 3), datetime(1969, 7, 20, 20, 17, 40)]  # noqa: DTZ001
    return pa.array(times, pa.timestamp(unit))


_LOCAL = ("2026-01-01T01:02:03Z", "1969-07-20T20:17:40Z")
_IN_BERLIN = ("2026-01-01T00:02:03Z", "1969-07-20T19:17:40Z")

CASES = [
    _of_text(
        "zoned text",
        {
            "2026-01-01T00:00:00.123+02:00": "2025-12-31T22:00:00.123Z",
            "2026-01-01T00:00:00Z": "2026-01-01T00:00:00Z",
            "2026-01-01 00:00:00.000001-0330": "2026-01-01T03:30:00.000001Z",
            "2026-01-01T00:00:00.123456789Z": "2026-01-01T00:00:00.123456Z",
            "1969-12-31T23:59:59.9+00": "1969-12-31T23:59:59.9Z",
            "2024-02-29T10:00Z": "2024-02-29T10:00:00Z",
        },
    ),
    _of_text("whole seconds", {"2026-01-01T00:00:00+02:00": "2025-12-31T22:00:00Z"}),
    _of_text("zoned text, in a zone", {"2026-01-01T00:00:00Z": "2026-01-01T00:00:00Z"}, ZONE),
    _of_text(
        "text without a zone",
        {
            "2026-01-01T01:02:03": "2026-01-01T01:02:03Z",
            "2026-01-01 01:02:03.5": "2026-01-01T01:02:03.5Z",
            "2026-01-01": "2026-01-01T00:00:00Z",
        },
    ),
    _of_text("seconds without a zone", {"2026-01-01 01:02:03": "2026-01-01T01:02:03Z"}),
    _of_text(
        "text in a zone",
        {
            "2026-01-01T01:02:03.5": "2026-01-01T00:02:03.5Z",
            "2026-07-01 01:02:03": "2026-06-30T23:02:03Z",
            "2026-03-29T02:30:00": "2026-03-29T01:30:00Z",  # there is no such time: later
            "2026-10-25T02:30:00": "2026-10-25T00:30:00Z",  # there are two: the first
            "2026-01-01T00:00:00+05:00": "2025-12-31T19:00:00Z",
            "2026-07-01": "2026-06-30T22:00:00Z",
        },
        ZONE,
    ),
    _of_text("seconds in a zone", {"2026-07-01 01:02:03": "2026-06-30T23:02:03Z"}, ZONE),
    _of_text("dates", {"2026-01-01": "2026-01-01T00:00:00Z"}),
    _of_text("dates in a zone", {"2026-01-01": "2025-12-31T23:00:00Z"}, ZONE),
    *(
        TimeCase(
            f"numbers of {unit.name.lower()}",
            pa.array([1_767_225_600 * count, -1 * count], pa.int64()),
            ("2026-01-01T00:00:00Z", "1969-12-31T23:59:59Z"),
            unit,
        )
        for unit, count in (
            (TimeUnit.SECONDS, 1),
            (TimeUnit.MILLISECONDS, 10**3),
            (TimeUnit.MICROSECONDS, 10**6),
            (TimeUnit.NANOSECONDS, 10**9),
        )
    ),
    TimeCase(
        "nanoseconds within a microsecond",
        pa.array([1_999, -1]),
        ("1970-01-01T00:00:00.000001Z", "1969-12-31T23:59:59.999999Z"),
        TimeUnit.NANOSECONDS,
    ),
    TimeCase(
        "seconds with a fraction",
        pa.array([1_767_225_600.123456, -0.5]),
        ("2026-01-01T00:00:00.123456Z", "1969-12-31T23:59:59.5Z"),
        TimeUnit.SECONDS,
    ),
    TimeCase(
        "milliseconds with a fraction",
        pa.array([1_767_225_600_123.456]),
        ("2026-01-01T00:00:00.123456Z",),
        TimeUnit.MILLISECONDS,
    ),
    TimeCase(
        "decimal seconds",
        pa.array([Decimal("1767225600.123456")], pa.decimal128(20, 6)),
        ("2026-01-01T00:00:00.123456Z",),
        TimeUnit.SECONDS,
        formats=("parquet",),
    ),
    TimeCase(
        "date column",
        pa.array([date(2026, 1, 1)]),
        ("2026-01-01T00:00:00Z",),
        formats=("parquet",),
    ),
    TimeCase(
        "date column in a zone",
        pa.array([date(2026, 1, 1)]),
        ("2025-12-31T23:00:00Z",),
        zone=ZONE,
        formats=("parquet",),
    ),
    TimeCase("timestamps in ns", _naive("ns"), _LOCAL, formats=()),  # Spark reads no such files
    *(
        TimeCase(f"timestamps in {unit}", _naive(unit), _LOCAL, formats=("parquet",))
        for unit in ("ms", "us")
    ),
    *(
        TimeCase(f"{unit} in a zone", _naive(unit), _IN_BERLIN, zone=ZONE, formats=("parquet",))
        for unit in ("ms", "us")
    ),
    *(
        TimeCase(
            f"zoned timestamps {where}",
            pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="Asia/Kolkata")),
            ("2026-01-01T00:00:00Z",),
            zone=zone,
            formats=("parquet",),
        )
        for where, zone in (("alone", None), ("in a zone", ZONE))
    ),
]
FILES = [(case, form) for case in CASES for form in case.formats]


def events_of(case: TimeCase) -> pa.Table:
    """Make events of a case."""
    return pa.table({"n": pa.array(range(len(case.times)), pa.int64()), "ts": case.times})


def write_case(case: TimeCase, form: str, folder: Path) -> Source:
    """Write the events of a case to a file, and describe it as a source."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.{form}"
    if form == "parquet":
        pyarrow.parquet.write_table(events_of(case), path)
    elif form == "csv":
        pyarrow.csv.write_csv(events_of(case), path)
    else:
        path.write_text("".join(f"{line}\n" for line in json_lines(events_of(case))))
    return Source(
        name="s",
        format=form,
        path=str(path),
        options=_OPTIONS.get(form, {}),
        time="ts",
        time_unit=case.unit,
        time_zone=case.zone,
        id=("n",),
        lateness=_FOREVER,
    )


def application_of(source: Source, *sinks: Sink) -> Application:
    """Find every event of a source."""
    pattern = parse_pattern("SELECT a.n, a.ts WHERE a.n >= 0").pattern
    operator = OperatorSpec(
        name="o", node="n", inputs=(Stream(source.name),), patterns={"P": pattern}
    )
    sinks = sinks or (Sink(name="k", input=Stream("P", "o"), format="parquet", path="k"),)
    return build_application("times", [source], [Node(name="n")], [operator], sinks)
