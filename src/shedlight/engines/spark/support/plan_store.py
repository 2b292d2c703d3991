"""Which plan each micro-batch of a node used, on record.

    plan/
        now                 the plan and the pressure in force
        plans/<n>.json      what patterns keep by plan n, by label
        plans/<n>.npz       the same by the number of a type, for the JVM
        batches/<id>        the plan and the pressure that a micro-batch used

Whoever runs a micro-batch asks here what to use, by its id. The first who asks decides: what is
in force then is written down, and everybody after that, in a replay too, gets the same. The
folder must be one that the driver and all workers see.
"""

import json
import os
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from pyspark import TaskContext

from shedlight.engines.spark.support.atomic_file import replacing
from shedlight.errors import StateError
from shedlight.graph import Stream
from shedlight.model.arrays import Floats
from shedlight.shedding.shares import PatternShares, Shares

BATCH_PROPERTY = "streaming.sql.batchId"
"""The property of Spark's threads and tasks that holds the id of the micro-batch."""
UNUSED = -1.0
"""The share of a type that a pattern has no use for."""
WORD = 62
"""How many patterns a column of keep flags is for."""


@dataclass(frozen=True, slots=True)
class ActivePlan:
    """What a micro-batch uses.

    Attributes:
        plan: The number of a plan.
        pressure: By what its shares are lowered.
        after: The micro-batch that this was decided after; -1: nobody decides after each.
    """

    plan: int
    pressure: float = 1.0
    after: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class KeepTable:
    """What the patterns of an operator keep: a row for each, a column for each type.

    Attributes:
        shares: From 0 to 1, or `UNUSED`.
        pressure_exempt: Whether pressure does not touch it.
    """

    shares: Floats
    pressure_exempt: np.ndarray[Any, np.dtype[np.bool_]]

    def under(self, pressure: float) -> Floats:
        """Lower the shares that are not exempt from pressure."""
        lowered = np.where(
            self.pressure_exempt | (self.shares < 0), self.shares, self.shares * pressure
        )
        return np.asarray(lowered)


@dataclass(frozen=True, slots=True)
class PlanStore:
    """The plans of a node, in a folder."""

    folder: Path

    def publish(self, shares: Shares, tables: Mapping[str, KeepTable]) -> int:
        """Write a plan down; it is not in force yet.

        Returns:
            Its number.
        """
        plans = self.folder / "plans"
        plans.mkdir(parents=True, exist_ok=True)
        taken = [int(path.stem) for path in plans.glob("[0-9]*.*")]
        now = self.now  # a number is never given twice, not even if a file was lost
        number = 1 + max([*taken, now.plan if now else 0], default=0)
        arrays: dict[str, Any] = {}
        for operator, table in tables.items():
            arrays[f"shares {operator}"] = table.shares
            arrays[f"pressure_exempt {operator}"] = table.pressure_exempt
        with replacing(plans / f"{number}.npz") as path, path.open("wb") as file:
            np.savez(file, **arrays)
        with replacing(plans / f"{number}.json") as path:
            path.write_text(json.dumps(_as_json(shares)))
        return number

    def put_in_force(self, used: ActivePlan) -> None:
        """Let all micro-batches from the next on use a plan."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self.folder / "now") as path:
            path.write_text(_written(used))

    @property
    def now(self) -> ActivePlan | None:
        """What is in force; None if nothing ever was."""
        return _read(self.folder / "now")

    def used_by(self, batch: int) -> ActivePlan:
        """Find what a micro-batch uses, and see that it never uses anything else.

        Raises:
            StateError: There is no plan.
        """
        record = self.folder / "batches" / str(batch)
        found = _read(record)
        if found is not None:
            return found
        used = self._decided(batch)
        if used is None:
            raise StateError(
                f"there is no plan in {self.folder}; the checkpoint is damaged: "
                "start with a new one"
            )
        record.parent.mkdir(exist_ok=True)
        own = record.with_name(f".{batch}-{uuid.uuid4().hex}")
        used = ActivePlan(used.plan, used.pressure)
        own.write_text(_written(used))
        try:
            os.link(own, record)
        except FileExistsError:  # another was first
            return self.used_by(batch)
        finally:
            own.unlink()
        return used

    def check(self, batch: int) -> None:
        """See that a micro-batch whose output is there already is repeated as it was.

        Raises:
            StateError: There is no record of it, but of others.
        """
        records = self.folder / "batches"
        record = records / str(batch)
        if records.exists() and any(records.iterdir()) and not record.exists():
            raise StateError(
                f"{record} is missing; put it back, or start with a new checkpoint"
            )

    def _decided(self, batch: int) -> ActivePlan | None:
        """Give what is in force, and wait a little until it is by the micro-batch before.

        The next micro-batch begins at once, and would else be as great as an overload makes it.
        """
        over = time.monotonic() + _PATIENCE
        while True:
            used = self.now
            if used is None or not 0 <= used.after < batch - 1 or time.monotonic() > over:
                return used
            time.sleep(_GLANCE)

    def shares(self, used: ActivePlan) -> Shares:
        """Give what patterns keep, by label."""
        plan = _shares(*_version(self.folder / "plans" / f"{used.plan}.json"))
        return {stream: one.under(used.pressure) for stream, one in plan.items()}

    def tables(self, used: ActivePlan) -> Mapping[str, KeepTable]:
        """Give what patterns keep, by the number of a type, before pressure."""
        return _tables(*_version(self.folder / "plans" / f"{used.plan}.npz"))

    def forget(self, before: int) -> None:
        """Remove records of micro-batches that cannot come again, and plans that none uses."""
        used = [] if self.now is None else [self.now.plan]
        for record in (self.folder / "batches").glob("[0-9]*"):
            if int(record.name) < before:
                record.unlink(missing_ok=True)
                continue
            found = _read(record)
            used += [] if found is None else [found.plan]
        for file in (self.folder / "plans").glob("[0-9]*.*"):
            if used and int(file.stem) < min(used):
                file.unlink(missing_ok=True)


_PATIENCE, _GLANCE = 2.0, 0.01
"""Seconds that a micro-batch waits for what is decided after the last, and between looks."""


def _written(used: ActivePlan) -> str:
    return json.dumps({"plan": used.plan, "pressure": used.pressure, "after": used.after})


def _read(path: Path) -> ActivePlan | None:
    try:
        found = json.loads(path.read_text())
        after = int(found.get("after", -1))
        return ActivePlan(int(found["plan"]), float(found["pressure"]), after)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"{path} is damaged ({error}); start with a new checkpoint, or put the file back "
            "as it was"
        ) from error


def _as_json(shares: Shares) -> list[dict[str, Any]]:
    return [
        {
            "operator": stream.operator,
            "pattern": stream.name,
            "shares": dict(one.shares),
            "by_key": one.by_key,
            "pressure_exempt": sorted(one.pressure_exempt),
            "default_share": one.default_share,
        }
        for stream, one in shares.items()
    ]


def _version(path: Path) -> tuple[Path, int]:
    """Tell a file from another that was in its place; a checkpoint may be begun anew."""
    with _reading(path):
        return path, path.stat().st_mtime_ns


@lru_cache(maxsize=16)
def _shares(path: Path, version: int) -> Shares:  # noqa: ARG001  # it is of this version
    with _reading(path):
        return {
            Stream(one["pattern"], one["operator"]): PatternShares(
                one["shares"],
                one["by_key"],
                frozenset(one["pressure_exempt"]),
                one["default_share"],
            )
            for one in json.loads(path.read_text())
        }


@lru_cache(maxsize=16)
def _tables(path: Path, version: int) -> Mapping[str, KeepTable]:  # noqa: ARG001
    with _reading(path), path.open("rb") as opened, np.load(opened) as file:
        names = [name.removeprefix("shares ") for name in file if name.startswith("shares ")]
        return {
            name: KeepTable(file[f"shares {name}"], file[f"pressure_exempt {name}"])
            for name in names
        }


_UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, zlib.error)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say what to do if a file is missing or cannot be read."""
    try:
        yield
    except _UNREADABLE as error:
        problem = "missing" if isinstance(error, FileNotFoundError) else f"damaged ({error})"
        raise StateError(
            f"{path} is {problem}; put it back as it was, or start with a new checkpoint"
        ) from error


def batch_id() -> int:
    """Say which micro-batch this task is of."""
    context = TaskContext.get()
    found = context.getLocalProperty(BATCH_PROPERTY) if context else None
    if found is None:
        raise RuntimeError("this is no task of a streaming query")
    return int(found)
