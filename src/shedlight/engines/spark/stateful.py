"""The stateful step of a node: Spark calls it for each group of a micro-batch."""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.state import GroupState

from shedlight.engines.spark.fused import (
    Fused,
    Mark,
    PartSpec,
    advance,
    build_fused,
    frontiers_of,
    new_fused_state,
)
from shedlight.engines.spark.packing import table_bytes, table_of
from shedlight.engines.spark.saved_group import from_bytes, to_bytes
from shedlight.graph import Stream

STATE = "state binary"

Frames = Iterator[pd.DataFrame]


@dataclass(frozen=True, slots=True)
class Step:
    """The stateful step of a node.

    Attributes:
        parts: What its parts are; it travels to where the groups run.
        leaving: The streams that others read.
        told: The operators whose frontiers others ask for.
    """

    parts: tuple[PartSpec, ...]
    leaving: frozenset[Stream]
    told: frozenset[str]


def stepper(step: Step) -> Callable[[Any, Frames, GroupState], Frames]:
    """Make the function that Spark calls."""
    definition = pickle.dumps(step)

    def match(key: tuple[Any, ...], frames: Frames, state: GroupState) -> Frames:
        step, built = _built(definition)
        fused = built[int(key[0])]
        arrivals, marks = _taken_apart(frames)
        old = from_bytes(fused, state.get[0]) if state.exists else new_fused_state(fused)
        new, found = advance(fused, old, arrivals, marks)
        state.update((to_bytes(fused, new),))
        rows: list[tuple[Any, ...]] = [
            (stream.operator, stream.name, int(key[0]), 0, table_bytes(table))
            for stream, table in found.items()
            if len(table) and stream in step.leaving
        ]
        rows += [
            (operator, "", int(key[0]), frontier, None)
            for operator, frontier in frontiers_of(fused, new).items()
            if operator in step.told
        ]
        yield _found(rows)

    return match


def _taken_apart(frames: Frames) -> tuple[dict[Stream, pa.Table], list[Mark]]:
    """Sort packed rows into events by stream, and marks."""
    tables: dict[Stream, list[pa.Table]] = {}
    marks: list[Mark] = []
    for frame in frames:
        for row in frame.itertuples():
            stream = Stream(row.name, row.operator or None)
            if row.events is None:
                marks.append(Mark(stream, int(row.origin), int(row.frontier)))
            else:
                tables.setdefault(stream, []).append(table_of(row.events))
    return {stream: pa.concat_tables(parts) for stream, parts in tables.items()}, marks


def _found(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    kinds = ("object", "object", "int32", "int64", "object")
    names = ("operator", "name", "origin", "frontier", "events")
    return pd.DataFrame(
        {
            name: pd.Series(list(values), dtype=kind)
            for name, values, kind in zip(names, columns, kinds, strict=True)
        }
    )


@cache
def _built(definition: bytes) -> tuple[Step, dict[int, Fused]]:
    """Build the operators of each group, once in a process."""
    step: Step = pickle.loads(definition)  # noqa: S301  # our own, from the driver
    built = {}
    for given in step.parts:
        fused = build_fused(given)
        built.update(dict.fromkeys(given.part.groups, fused))
    return step, built
