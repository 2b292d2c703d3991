"""What a run has on record of its shedding: since when, and how far it has read."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from shedlight.engines.spark.support.batch_plan import shares_from_rows
from shedlight.engines.spark.support.batch_record import BatchRecord, Row
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.storage import StoredPath
from shedlight.errors import StateError
from shedlight.graph import Application
from shedlight.shedding.shares import Shares

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class FirstShed:
    """The first micro-batch of a node that shed, or may have.

    Attributes:
        node: The node.
        batch: The number of the micro-batch.
        time: When it began, in seconds since 1970.
        is_first: Whether all micro-batches before it are on record.
    """

    node: str
    batch: int
    time: float
    is_first: bool


def first_shed(paths: CheckpointPaths, nodes: Iterable[str]) -> list[FirstShed]:
    """Find since when each node has shed; nodes that never did are left out.

    Raises:
        StateError: The record or a plan of it is damaged or gone.
    """
    return list(_first_of_nodes(paths, nodes))


def _first_of_nodes(paths: CheckpointPaths, nodes: Iterable[str]) -> Iterator[FirstShed]:
    for node in nodes:
        folder, sheds, oldest = paths.plan(node), dict[int, bool](), None
        for row in BatchRecord(folder / "record").rows():
            oldest = row["batch"] if oldest is None else oldest
            plan = row["plan"]
            if plan not in sheds:
                sheds[plan] = _sheds(read_plan_shares(folder, plan))
            if sheds[plan] or (row.get("pressure", 1.0) < 1 and _has_shares(folder, plan)):
                yield FirstShed(node, row["batch"], row.get("time", 0.0), oldest == 0)
                break


def read_plan_shares(folder: StoredPath, number: int) -> Shares:
    """Read the keep shares of a plan of a node, without pressure.

    Raises:
        StateError: It is gone or damaged.
    """
    return _read(folder / "plans" / f"{number}.json", shares_from_rows)


def read_heavy(folder: StoredPath, number: int) -> tuple[int, ...]:
    """Read a list of heavy hitters of a node, as hashes of keys; number 0 is an empty one.

    Raises:
        StateError: It is gone or damaged.
    """
    return _read(folder / "heavy" / f"{number}.json", tuple) if number else ()


def read_active(folder: StoredPath) -> Row | None:
    """Read what was decided last for a node; None: nothing ever was.

    Raises:
        StateError: It is damaged.
    """
    path = folder / "active"
    return _read(path, dict) if path.exists() else None


def _read(path: StoredPath, parse: Callable[[Any], _Value]) -> _Value:
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = "missing" if isinstance(error, FileNotFoundError) else f"damaged ({error})"
        raise StateError(f"{path} is {what}; put it back as it was") from error


def _sheds(shares: Shares) -> bool:
    return any(
        share < 1 for kept in shares.values() for share in (*kept.shares.values(), kept.mean)
    )


def _has_shares(folder: StoredPath, number: int) -> bool:
    return bool(read_plan_shares(folder, number))


def read_until(
    paths: CheckpointPaths, application: Application, nodes: Iterable[str]
) -> int | None:
    """Say up to which event time all sources were read, less their lateness, in microseconds.

    None: it is not on record, or some source was not read yet.
    """
    times: list[int] = []
    for node in nodes:
        latest = _latest(BatchRecord(paths.plan(node) / "record").rows())
        for name in sources_of(application, node):
            if name not in latest:
                return None
            times.append(latest[name] - application.sources[name].lateness)
    return min(times, default=None)


def _latest(rows: Iterable[Row]) -> Mapping[str, int]:
    last: Mapping[str, int] = {}
    for row in rows:
        last = row.get("latest") or last
    return last


def sources_of(application: Application, node: str) -> list[str]:
    """Name the sources that a node reads."""
    return list(
        dict.fromkeys(
            stream.name
            for spec in application.operators.values()
            if spec.node == node
            for stream in spec.inputs
            if stream.operator is None
        )
    )
