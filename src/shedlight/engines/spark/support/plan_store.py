"""The plans of a node, and which one each of its micro-batches used.

    plan/
        active              the active plan and pressure
        plans/<n>.json      the keep shares of plan n, by event type
        plans/<n>.npz       the same by the number of an event type, for the JVM
        batches/<id>        the plan and the pressure that a micro-batch used

Whoever runs a micro-batch asks here for its plan by its id. The first who asks decides: what is
active then is written down, and everybody after that, in a replay too, gets the same. The
folder must be one that the driver and all workers see.
"""

import json
import os
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from pyspark import TaskContext

from shedlight.engines.spark.support.atomic_file import replacing, write_atomically
from shedlight.errors import StateError
from shedlight.graph import Stream
from shedlight.model.arrays import Floats
from shedlight.shedding.shares import PatternShares, Shares

BATCH_PROPERTY = "streaming.sql.batchId"
"""The property of Spark's threads and tasks that holds the id of the micro-batch."""
UNUSED = -1.0  # the share of an event type that is not relevant to a pattern
WORD = 62  # how many patterns a column of keep flags is for
MAX_WAIT_S, POLL_INTERVAL_S = 2.0, 0.01
"""How long a micro-batch waits for what is decided after the last, and between looks."""


@dataclass(frozen=True, slots=True)
class ActivePlan:
    """The plan and the pressure of a micro-batch."""

    plan: int  # the number of a plan
    pressure: float = 1.0  # by what its shares are multiplied
    after: int = -1  # after which micro-batch this was decided; -1: nobody decides after each


@dataclass(frozen=True, slots=True, eq=False)
class KeepTable:
    """The keep shares of an operator: a row for each pattern, a column for each event type."""

    shares: Floats  # from 0 to 1, or `UNUSED`
    pressure_exempt: np.ndarray[Any, np.dtype[np.bool_]]  # whether pressure does not touch it

    def under(self, pressure: float) -> Floats:
        """Multiply the shares that are not exempt by the pressure."""
        exempt = self.pressure_exempt | (self.shares < 0)
        return np.asarray(np.where(exempt, self.shares, self.shares * pressure))


@dataclass(frozen=True, slots=True)
class PlanStore:
    """The plans of a node, in a folder."""

    folder: Path

    def publish(self, shares: Shares, tables: Mapping[str, KeepTable]) -> int:
        """Write a plan down, which is not active yet, and give its number."""
        plans = self.folder / "plans"
        plans.mkdir(parents=True, exist_ok=True)
        taken = [int(path.stem) for path in plans.glob("[0-9]*.*")]
        active = self.active  # a number is never given twice, not even if a file was lost
        number = 1 + max([*taken, active.plan if active else 0])
        arrays: dict[str, Any] = {}
        for operator, table in tables.items():
            arrays[f"shares {operator}"] = table.shares
            arrays[f"pressure_exempt {operator}"] = table.pressure_exempt
        with replacing(plans / f"{number}.npz") as path, path.open("wb") as file:
            np.savez(file, **arrays)
        write_atomically(plans / f"{number}.json", _shares_to_json(shares))
        return number

    def activate(self, plan: ActivePlan) -> None:
        """Let all micro-batches from the next on use a plan."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / "active", json.dumps(asdict(plan)))

    @property
    def active(self) -> ActivePlan | None:
        """The active plan; None if there never was one."""
        return _read_plan(self.folder / "active")

    def plan_for_batch(self, batch: int) -> ActivePlan:
        """Find the plan of a micro-batch: the active one at first, then the same for ever."""
        record = self.folder / "batches" / str(batch)
        recorded = _read_plan(record)
        if recorded is not None:
            return recorded
        active = self._decided_plan(batch)
        if active is None:
            raise StateError(
                f"there is no plan in {self.folder}; the checkpoint is damaged: "
                "start with a new one"
            )
        record.parent.mkdir(exist_ok=True)
        own = record.with_name(f".{batch}-{uuid.uuid4().hex}")
        plan = replace(active, after=-1)
        own.write_text(json.dumps(asdict(plan)))
        try:
            os.link(own, record)
        except FileExistsError:  # another was first
            return self.plan_for_batch(batch)
        finally:
            own.unlink()
        return plan

    def check(self, batch: int) -> None:
        """See that a micro-batch whose output is there already is repeated as it was."""
        records = self.folder / "batches"
        record = records / str(batch)
        if records.exists() and any(records.iterdir()) and not record.exists():
            raise StateError(
                f"{record} is missing; put it back, or start with a new checkpoint"
            )

    def _decided_plan(self, batch: int) -> ActivePlan | None:
        """Give the active plan; wait a little until it is decided after the batch before.

        The next micro-batch begins at once, and would else be as great as an overload makes it.
        """
        over = time.monotonic() + MAX_WAIT_S
        while True:
            active = self.active
            if active is None or not 0 <= active.after < batch - 1 or time.monotonic() > over:
                return active
            time.sleep(POLL_INTERVAL_S)

    def shares(self, plan: ActivePlan) -> Shares:
        """Give the keep shares under pressure, by event type."""
        shares = _read_shares(*_version(self.folder / "plans" / f"{plan.plan}.json"))
        return {stream: kept.lower_by(plan.pressure) for stream, kept in shares.items()}

    def tables(self, plan: ActivePlan) -> Mapping[str, KeepTable]:
        """Give the keep shares before pressure, by the number of an event type."""
        return _read_tables(*_version(self.folder / "plans" / f"{plan.plan}.npz"))

    def prune(self, before: int) -> None:
        """Remove records of micro-batches before one, and plans that no other one used."""
        plans = [self.active]
        for record in (self.folder / "batches").glob("[0-9]*"):
            if int(record.name) < before:
                record.unlink(missing_ok=True)
            else:
                plans.append(_read_plan(record))
        oldest = min((plan.plan for plan in plans if plan is not None), default=0)
        for file in (self.folder / "plans").glob("[0-9]*.*"):
            if int(file.stem) < oldest:
                file.unlink(missing_ok=True)


def batch_id() -> int:
    """Say which micro-batch this task is of."""
    context = TaskContext.get()
    number = context.getLocalProperty(BATCH_PROPERTY) if context else None
    if number is None:
        raise RuntimeError("this is no task of a streaming query")
    return int(number)


# Files


def _read_plan(path: Path) -> ActivePlan | None:
    with _reading(path):
        try:
            text = path.read_text()
        except FileNotFoundError:
            return None
        return ActivePlan(**json.loads(text))


def _shares_to_json(shares: Shares) -> str:
    patterns = [
        {"operator": stream.operator, "pattern": stream.name, **asdict(kept)}
        for stream, kept in shares.items()
    ]
    return json.dumps(patterns, default=sorted)  # a set is written as a list


def _version(path: Path) -> tuple[Path, int]:
    """Tell a file from another that was in its place; a checkpoint may be begun anew."""
    with _reading(path):
        return path, path.stat().st_mtime_ns


@lru_cache(maxsize=16)
def _read_shares(path: Path, version: int) -> Shares:  # noqa: ARG001  # it is of this version
    shares = {}
    with _reading(path):
        for row in json.loads(path.read_text()):
            stream = Stream(row.pop("pattern"), row.pop("operator"))
            exempt = frozenset(row.pop("pressure_exempt"))
            shares[stream] = PatternShares(**row, pressure_exempt=exempt)
    return shares


@lru_cache(maxsize=16)
def _read_tables(path: Path, version: int) -> Mapping[str, KeepTable]:  # noqa: ARG001
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
