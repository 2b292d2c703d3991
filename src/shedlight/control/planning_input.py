"""The situation that a controller plans in, as a value and as text.

It is all that it takes to plan again elsewhere: the application, the snapshot, what is kept.
Text that is not ours is refused; a situation of too many types is not written at all.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from shedlight.control.controller import Memory, planned_from
from shedlight.errors import ShedlightError, SnapshotError
from shedlight.graph.application import Application, stream_of
from shedlight.graph.file.loader import load_application
from shedlight.graph.file.serialize import application_text
from shedlight.model.latency import LatencyModel, Target
from shedlight.model.snapshot import OF_STREAMS, Snapshot, sections_of, snapshot_of
from shedlight.planning.plan import PlanSettings
from shedlight.shedding.shares import PatternShares, Shares

VERSION = 1
MOST_NUMBERS = 20_000
"""A situation of more numbers is not written: that would take longer than to plan."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanningInput:
    """What a plan is made from.

    Attributes:
        time: Of the latest observation, in seconds.
        interval: How long the observation was, in seconds.
        application: What is run, with the bounds and weights of now.
        snapshot: Its load.
        shares: What patterns keep, by the plan in force; empty: everything.
        wanted: How to plan.
    """

    time: float
    interval: float
    application: Application
    snapshot: Snapshot
    shares: Shares = field(default_factory=dict)
    wanted: PlanSettings = field(default_factory=PlanSettings)


def planning_input_of(memory: Memory) -> PlanningInput | None:
    """Give the situation that a controller is in; None before any observation."""
    snapshot, usual = planned_from(memory), memory.recent.mean
    if snapshot is None or usual is None:
        return None
    return PlanningInput(
        time=usual.time,
        interval=usual.interval,
        application=memory.application,
        snapshot=snapshot,
        shares=memory.shares,
        wanted=memory.settings.wanted,
    )


def planning_input_text(situation: PlanningInput) -> str | None:
    """Write a situation as text; None if that would be too much."""
    if _size(situation) > MOST_NUMBERS:
        return None
    wanted = situation.wanted
    return json.dumps(
        {
            "version": VERSION,
            "time": situation.time,
            "interval": situation.interval,
            "application": application_text(situation.application),
            "snapshot": sections_of(situation.snapshot),
            "shares": {str(stream): _row(one) for stream, one in situation.shares.items()},
            "wanted": {
                "latency": wanted.target.latency.value,
                "aim": wanted.target.aim,
                "local": wanted.local,
                "fill": wanted.fill,
                "windows": wanted.windows,
            },
        },
        separators=(",", ":"),
    )


def read_planning_input(text: str) -> PlanningInput:
    """Read a situation.

    Raises:
        SnapshotError: It is none, or one of another version.
    """
    try:
        row = json.loads(text)
        if row["version"] != VERSION:
            raise SnapshotError(f"the situation is of version {row['version']}, not {VERSION}")
        wanted = row["wanted"]
        target = Target(latency=LatencyModel(wanted["latency"]), aim=wanted["aim"])
        return PlanningInput(
            time=float(row["time"]),
            interval=float(row["interval"]),
            application=_application(row["application"]),
            snapshot=snapshot_of(row["snapshot"], "the situation"),
            shares={stream_of(name): _shares(one) for name, one in row["shares"].items()},
            wanted=PlanSettings(
                target=target,
                local=wanted["local"],
                fill=wanted["fill"],
                windows=wanted["windows"],
            ),
        )
    except (ShedlightError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SnapshotError(f"the situation of the run cannot be read: {error}") from error
    except RecursionError as error:
        raise SnapshotError("the situation of the run is nested too deeply") from error


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


def _size(situation: PlanningInput) -> int:
    sections = [getattr(situation.snapshot, name).values() for name in OF_STREAMS]
    maps = [one for section in sections for one in section if isinstance(one, Mapping)]
    shares = [one.shares for one in situation.shares.values()]
    return sum(map(len, [*maps, *shares]))


def _row(shares: PatternShares) -> dict[str, Any]:
    return {
        "shares": dict(shares.shares),
        "by_key": shares.by_key,
        "default_share": shares.default_share,
    }


def _shares(row: Mapping[str, Any]) -> PatternShares:
    return PatternShares(row["shares"], row["by_key"], default_share=row["default_share"])
