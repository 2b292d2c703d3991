"""The plans of a node, and which one each of its micro-batches used.

    plan/
        active              the active plan and pressure
        plans/<n>.json      the keep shares of plan n, by event type
        plans/<n>.npz       the same by the number of an event type, for the JVM
        heavy/<n>.json      the heavy hitters that the unshed sample leaves out
        found/              what was known of keys that are shed in strata (`found_record.py`)
        record/             which plan and pressure each micro-batch used (`batch_record.py`)

Spark asks the driver for the plan of a micro-batch by its id. What is active then goes on
record, and whoever asks after that, in a replay too, gets the same. Workers get what they need
with their rows. Only where Spark cannot ask the driver a job asks, and needs to see the folder.
"""

import io
import json
import struct
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import Any
from zipfile import BadZipFile

import numpy as np
from pyspark import TaskContext

from shedlight.engines.spark.support.batch_plan import shares_from_rows, shares_to_rows
from shedlight.engines.spark.support.batch_record import BatchRecord
from shedlight.engines.spark.support.found_record import FoundRecord
from shedlight.engines.spark.support.storage import (
    StoredPath,
    create_file,
    replace_file,
)
from shedlight.errors import StateError
from shedlight.model.arrays import Floats
from shedlight.shedding.found_keys import Found
from shedlight.shedding.shares import Shares

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
    # the latest timestamp of each source in micro-batches up to that one, in microseconds
    latest: Mapping[str, int] = field(default_factory=dict)
    # whether the next micro-batch waits for what is decided after the last
    awaited: bool = True
    heavy: int = 0  # the number of a list of heavy hitters; 0: none are known
    # of which share of the events keys are looked at, to find heavy hitters
    looked_at: float = 0.01
    version: int = 1  # of the application, whose event types a plan has the numbers of
    # the sources of which a micro-batch was not seen, before a restart, and none since; with
    # the first micro-batch that was
    unseen: Mapping[str, int] = field(default_factory=dict)
    found: int = 0  # by which number it is on record what is known of keys; 0: nothing is
    history: float = 0.0  # of which share of the keys all events are looked at


@dataclass(frozen=True, slots=True, eq=False)
class KeepTable:
    """The keep shares of an operator: a row for each pattern, a column for each event type.

    A share is the sum of three: of most types only one of them is not zero.
    """

    fixed: Floats  # what pressure does not touch; `UNUSED` where a pattern has no use for it
    spared: Floats  # what pressure leaves, or takes all of
    scaled: Floats  # what pressure multiplies

    def under(self, pressure: float) -> Floats:
        """Give the shares under a pressure."""
        spared = self.spared if pressure > 0 else 0.0
        return np.asarray(self.fixed + spared + self.scaled * pressure)


@dataclass(frozen=True, slots=True)
class PlanStore:
    """The plans of a node, in a folder."""

    folder: StoredPath

    def publish(self, shares: Shares, tables: Mapping[str, KeepTable]) -> int:
        """Write a plan down, which is not active yet, and give its number."""
        plans = self.folder / "plans"
        plans.mkdir(parents=True, exist_ok=True)
        taken = [int(path.stem) for path in plans.glob("[0-9]*.*")]
        active = self.active  # a number is never given twice, not even if a file was lost
        number = 1 + max([*taken, active.plan if active else 0])
        arrays: dict[str, Any] = {}
        for operator, table in tables.items():
            arrays |= {f"{each.name} {operator}": getattr(table, each.name) for each in _PARTS}
        packed = io.BytesIO()
        np.savez(packed, **arrays)
        create_file(plans / f"{number}.npz", packed.getvalue())
        rows = shares_to_rows(shares)  # with sets, which are written as lists
        create_file(plans / f"{number}.json", json.dumps(rows, default=sorted))
        return number

    def publish_heavy(self, hashes: Iterable[int]) -> int:
        """Write down which keys are heavy hitters, by their hashes, and give their number."""
        folder = self.folder / "heavy"
        folder.mkdir(parents=True, exist_ok=True)
        number = 1 + max((int(path.stem) for path in folder.glob("[0-9]*.json")), default=0)
        create_file(folder / f"{number}.json", json.dumps(list(hashes)))
        return number

    def heavy(self, plan: ActivePlan) -> tuple[int, ...]:
        """Give the hashes of the heavy hitters that are known."""
        if not plan.heavy:
            return ()
        return _read_heavy(*_version(self.folder / "heavy" / f"{plan.heavy}.json"))

    def activate(self, plan: ActivePlan) -> None:
        """Let all micro-batches from the next on use a plan."""
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(self.folder / "active", json.dumps(asdict(plan)))

    @property
    def active(self) -> ActivePlan | None:
        """The active plan; None if there never was one."""
        return _read_plan(self.folder / "active")

    @property
    def found_record(self) -> FoundRecord:
        """What was known of keys."""
        return FoundRecord(self.folder / "found")

    def found(self, plan: ActivePlan) -> Found:
        """Give what is known of keys that are shed in strata, by operator."""
        with _reading(self.folder / "found"):
            return self.found_record.read(plan.found)

    @property
    def record(self) -> BatchRecord:
        """What micro-batches used."""
        return BatchRecord(self.folder / "record")

    def plan_for_batch(self, batch: int) -> ActivePlan:
        """Find the plan of a micro-batch: the active one at first, then the same for ever."""
        row = self.record.find(batch)
        if row is None:
            active = self._decided_plan(batch)
            if active is None:
                raise StateError(
                    f"there is no plan in {self.folder}; the checkpoint is damaged: "
                    "start with a new one"
                )
            row = self.record.append(batch, {"time": round(time.time(), 3), **asdict(active)})
        return ActivePlan(**{name: row[name] for name in _PLAN_FIELDS if name in row})

    def check(self, batch: int) -> None:
        """See that a micro-batch whose output is there already is repeated as it was."""
        record = self.record
        if not record.is_empty and record.find(batch) is None:
            raise StateError(
                f"{record.missing(batch)} does not have micro-batch {batch}; put the file back "
                "as it was, or start with a new checkpoint"
            )

    def _decided_plan(self, batch: int) -> ActivePlan | None:
        """Give the active plan; wait a little until it is decided after the batch before.

        The next micro-batch begins at once, and would else be as great as an overload makes it.
        """
        over = time.monotonic() + MAX_WAIT_S
        while True:
            active = self.active
            if active is None or not active.awaited or not 0 <= active.after < batch - 1:
                return active
            if time.monotonic() > over:
                return active
            time.sleep(POLL_INTERVAL_S)

    def shares(self, plan: ActivePlan) -> Shares:
        """Give the keep shares under pressure, by event type."""
        shares = _read_shares(*_version(self.folder / "plans" / f"{plan.plan}.json"))
        return {stream: kept.lower_by(plan.pressure) for stream, kept in shares.items()}

    def tables(self, plan: ActivePlan) -> Mapping[str, KeepTable]:
        """Give the keep shares before pressure, by the number of an event type."""
        return _read_tables(*_version(self.folder / "plans" / f"{plan.plan}.npz"))

    def prune(self, before: float) -> None:
        """Remove what is on record from before a time, and plans that no other one used."""
        oldest = self.record.prune(before)
        if oldest is None:
            return
        for folder, name in (("plans", "plan"), ("heavy", "heavy")):
            for file in (self.folder / folder).glob("[0-9]*.*"):
                if int(file.stem) < oldest[name]:
                    file.unlink(missing_ok=True)
        self.found_record.prune(oldest.get("found", 0))


def batch_id() -> int:
    """Say which micro-batch this task is of."""
    context = TaskContext.get()
    number = context.getLocalProperty(BATCH_PROPERTY) if context else None
    if number is None:
        raise RuntimeError("this is no task of a streaming query")
    return int(number)


# Files

_PLAN_FIELDS, _PARTS = [each.name for each in fields(ActivePlan)], fields(KeepTable)


def _read_plan(path: StoredPath) -> ActivePlan | None:
    with _reading(path):
        try:
            text = path.read_text()
        except FileNotFoundError:
            return None
        return ActivePlan(**json.loads(text))


def _version(path: StoredPath) -> tuple[StoredPath, int]:
    """Tell a file from another that was in its place; a checkpoint may be begun anew."""
    with _reading(path):
        return path, path.stat().st_mtime_ns


@lru_cache(maxsize=16)
def _read_shares(path: StoredPath, version: int) -> Shares:  # noqa: ARG001  # it is of this version
    with _reading(path):
        return shares_from_rows(json.loads(path.read_text()))


@lru_cache(maxsize=16)
def _read_heavy(path: StoredPath, version: int) -> tuple[int, ...]:  # noqa: ARG001
    with _reading(path):
        return tuple(map(int, json.loads(path.read_text())))


@lru_cache(maxsize=16)
def _read_tables(path: StoredPath, version: int) -> Mapping[str, KeepTable]:  # noqa: ARG001
    with _reading(path), path.open("rb") as opened, np.load(opened) as file:
        names = [name.removeprefix("fixed ") for name in file if name.startswith("fixed ")]
        return {
            name: KeepTable(*(file[f"{each.name} {name}"] for each in _PARTS)) for name in names
        }


_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    BadZipFile,
    zlib.error,
    struct.error,
)


@contextmanager
def _reading(path: StoredPath) -> Iterator[None]:
    """Say what to do if a file is missing or cannot be read."""
    try:
        yield
    except ConnectionError:  # it is whole, where nobody can reach it now
        raise
    except _UNREADABLE as error:
        problem = "missing" if isinstance(error, FileNotFoundError) else f"damaged ({error})"
        raise StateError(
            f"{path} is {problem}; put it back as it was, or start with a new checkpoint"
        ) from error
