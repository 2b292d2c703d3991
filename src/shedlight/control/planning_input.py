"""Planning input: all that a plan is made from, as a value and as JSON text.

It is what it takes to plan again elsewhere: the application, the snapshot, the active shares.
Text that is not ours is an error. Of too many types only their number is written.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from pydantic import TypeAdapter

from shedlight.control.controller import Memory, planning_snapshot
from shedlight.errors import ShedlightError, SnapshotError
from shedlight.graph.application import Application, parse_stream
from shedlight.graph.file.loader import load_application
from shedlight.graph.file.serialize import application_text
from shedlight.model.snapshot import STREAM_SECTIONS, Snapshot, snapshot_sections
from shedlight.planning.plan import PlanSettings
from shedlight.shedding.shares import PatternShares, Shares

VERSION = 2
MAX_NUMBERS = 20_000  # more numbers are not written: that would take longer than to plan
_SHARES = TypeAdapter(dict[str, PatternShares])
_PLAN_SETTINGS = TypeAdapter(PlanSettings)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanningInput:
    """What a plan is made from."""

    time: float  # of the latest observation, in seconds
    interval: float  # how long the observation was, in seconds
    application: Application  # what is run, with its current bounds and weights
    snapshot: Snapshot  # its load
    # what patterns keep, by the active plan; empty: everything
    shares: Shares = field(default_factory=dict)
    plan_settings: PlanSettings = field(default_factory=PlanSettings)  # how to plan


def planning_input_path(log: Path) -> Path:
    """Find the file of the planning input of a run, given its log.

    Example:
        >>> print(planning_input_path(Path("state/log.jsonl")))
        state/log.planning.json
    """
    return log.with_name(f"{log.stem}.planning.json")


def planning_input_of(memory: Memory) -> PlanningInput | None:
    """Give what a controller would plan from now; None before any observation."""
    mean = memory.smoothed.mean
    if mean is None:
        return None
    return PlanningInput(
        time=mean.time,
        interval=mean.interval,
        application=memory.application,
        snapshot=planning_snapshot(memory, mean),
        shares=memory.shares,
        plan_settings=memory.settings.plan_settings,
    )


def planning_input_text(planning_input: PlanningInput) -> str:
    """Write planning input as JSON; of more than `MAX_NUMBERS` numbers only their count."""
    size = _size(planning_input)
    if size > MAX_NUMBERS:
        return json.dumps({"version": VERSION, "omitted_numbers": size})
    shares = {str(stream): kept for stream, kept in planning_input.shares.items()}
    settings = _PLAN_SETTINGS.dump_python(planning_input.plan_settings, mode="json")
    return json.dumps(
        {
            "version": VERSION,
            "time": planning_input.time,
            "interval": planning_input.interval,
            "application": application_text(planning_input.application),
            "snapshot": snapshot_sections(planning_input.snapshot),
            "shares": _SHARES.dump_python(shares, mode="json"),
            "plan_settings": settings,
        },
        separators=(",", ":"),
    )


def read_planning_input(text: str) -> PlanningInput:
    """Read what `planning_input_text` wrote.

    Raises:
        SnapshotError: It is not that, of another version, or had too many types to be written.
    """
    try:
        row = json.loads(text)
        if row["version"] != VERSION:
            raise SnapshotError(f"it is of version {row['version']}, not {VERSION}")
        if "omitted_numbers" in row:
            raise SnapshotError(
                f"it has {row['omitted_numbers']} numbers of event types, and no more than "
                f"{MAX_NUMBERS} are written; use `shedlight plan`"
            )
        shares = _SHARES.validate_python(row["shares"])
        return PlanningInput(
            time=float(row["time"]),
            interval=float(row["interval"]),
            application=_application(row["application"]),
            snapshot=Snapshot(**row["snapshot"], file="the planning input"),
            shares={parse_stream(name): kept for name, kept in shares.items()},
            plan_settings=_PLAN_SETTINGS.validate_python(row["plan_settings"]),
        )
    except (ShedlightError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SnapshotError(f"the planning input of the run cannot be read: {error}") from error
    except RecursionError as error:
        raise SnapshotError("the planning input of the run is nested too deeply") from error


@lru_cache(maxsize=4)
def _application(text: str) -> Application:
    """Read the application; to parse its patterns takes longer than to plan."""
    return load_application(text).application


def with_load(snapshot: Snapshot, factor: float) -> Snapshot:
    """Give a snapshot with so many times as many events."""
    rates = {
        stream: {label: rate * factor for label, rate in by_type.items()}
        for stream, by_type in snapshot.rates.items()
    }
    outputs = {stream: rate * factor for stream, rate in snapshot.output_rates.items()}
    return replace(snapshot, rates=rates, output_rates=outputs)


def _size(planning_input: PlanningInput) -> int:
    sections = [getattr(planning_input.snapshot, name).values() for name in STREAM_SECTIONS]
    maps = [value for section in sections for value in section if isinstance(value, Mapping)]
    shares = [kept.shares for kept in planning_input.shares.values()]
    return sum(map(len, [*maps, *shares]))
