"""Types of the events of a trace: by the machine, by what happened, or by the platform."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from experiments.borg.files import Rows, is_missing, read_rows, whole_numbers
from shedlight.errors import InputError
from shedlight.model.selectivity.needs import Ints

Typing = Callable[[Rows], Ints]
"""Gives each row its type, from 0 on; -1 where there is none."""

EVENTS_2019 = (
    *("SUBMIT", "QUEUE", "ENABLE", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST"),
    *("UPDATE_PENDING", "UPDATE_RUNNING"),
)
EVENTS_2011 = (
    *("SUBMIT", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST"),
    *("UPDATE_PENDING", "UPDATE_RUNNING"),
)
"""What happened, by its number in the files."""


def by_machine(types: int = 4) -> Typing:
    """Take the machine modulo a number, as the paper does with 4."""
    if types < 1:
        raise ValueError(f"types must be at least 1, got {types}")

    def typed(rows: Rows) -> Ints:
        return whole_numbers(rows.column("machine"))[0] % types

    return typed


def by_event(events: Sequence[str] = EVENTS_2019) -> Typing:
    """Take what happened: its place in the list, whether a file has the name or the number."""

    def typed(rows: Rows) -> Ints:
        column = rows.column("event")
        numbers, there = whole_numbers(column)
        there &= (numbers >= 0) & (numbers < len(events))
        named = pc.index_in(column.cast(pa.string()), pa.array(events)).fill_null(-1)
        return np.where(there, numbers, named.to_numpy()).astype(np.int64)

    return typed


def by_platform(platforms: Mapping[int, int]) -> Typing:
    """Take the platform of the machine; a machine that is not in the table has no type."""
    machines = pa.array(list(platforms), pa.int64())
    codes = np.array([*platforms.values(), -1])

    def typed(rows: Rows) -> Ints:
        numbers, _ = whole_numbers(rows.column("machine"))
        place = pc.index_in(pa.array(numbers), machines).fill_null(len(machines))
        found: Ints = codes[place.to_numpy()].astype(np.int64)
        return found

    return typed


def read_platforms(path: Path) -> dict[int, int]:
    """Read the platforms of machines, from a table or from machine events.

    Platforms are numbered as the file has it, or, if it has names, the commonest first. The
    last row of a machine counts. Rows without a machine or platform are passed over.

    Raises:
        InputError: The file cannot be read or lacks the columns.
    """
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    rows = read_rows(path, str(path))
    machines, there = whole_numbers(rows.column("machine"))
    column = rows.column("platform")
    there &= ~is_missing(column)
    names = dict(zip(machines[there].tolist(), column.to_numpy(False)[there], strict=True))  # noqa: FBT003
    if pa.types.is_integer(column.type):
        return {machine: int(name) for machine, name in names.items()}
    # ties by name, so that the same table gives the same numbers
    common = sorted(Counter(names.values()).items(), key=lambda one: (-one[1], one[0]))
    codes = {name: number for number, (name, _) in enumerate(common)}
    return {machine: codes[name] for machine, name in names.items()}
