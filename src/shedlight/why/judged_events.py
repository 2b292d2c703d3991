"""All events that arrived, in the order of processing, each with what became of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from shedlight.language.ast import expression as ex
from shedlight.language.ast.pattern import Pattern, elements
from shedlight.matching.hashing import hash_keys
from shedlight.matching.jit import Array
from shedlight.matching.operators.cep_operator import CepOperator
from shedlight.matching.operators.reorder import (
    DUPLICATE,
    FINE,
    INPUT,
    LATE,
    TIME,
    judge_arrivals,
    order_of,
)
from shedlight.matching.permuted import row_column

SHED = 1 + max(FINE, LATE, DUPLICATE)
"""What became of an event that was shed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shedding:
    """The plan by which an event was shed."""

    node: str
    micro_batch: int | None  # None: which one read it is not on record
    plan: int  # its number
    event_type: str  # the label of the event type
    share: float  # what the plan keeps of it, without pressure
    pressure: float
    by_key: bool  # whether whole keys were shed
    # whether whatever micro-batch may have read it would have shed it
    is_certain: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class ShedRows:
    """Which arrivals of an input were shed: the number of a shedding each, or -1."""

    of_row: Array
    sheddings: tuple[Shedding, ...]


@dataclass(frozen=True, slots=True, eq=False)
class JudgedEvents:
    """Events in the order of processing; a row's number is its place in it."""

    table: pa.Table  # the columns that the pattern needs, and ids
    ids: tuple[tuple[str, ...], ...]  # the columns that identify an event, by input
    time: Array  # timestamps, in microseconds
    input: Array  # the number of the input
    verdict: Array  # FINE, LATE, DUPLICATE or SHED
    behind: Array  # of late events: how far behind the latest one they came, in microseconds
    keys: Array  # the hash of the pattern's key; zeros without one
    shed: Array  # the number of a shedding, or -1
    sheddings: tuple[Shedding, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.time)

    def id_of(self, row: int) -> tuple[Any, ...]:
        """Give the id of an event."""
        return tuple(self.table[name][row].as_py() for name in self.ids[self.input[row]])

    def value(self, attribute: ex.Attribute, row: int) -> Any:  # noqa: ANN401  # of any type
        """Give an attribute of an event."""
        value = self.table[attribute.path[0]][row].as_py()
        for name in attribute.path[1:]:
            value = None if value is None else value[name]
        return value


def judge_events(
    operator: CepOperator,
    pattern: Pattern,
    tables: Sequence[pa.Table],
    shed: Mapping[int, ShedRows] | None = None,
) -> JudgedEvents:
    """Say what becomes of all events of an operator's inputs, for one of its patterns.

    The tables are in the order of arrival; what was shed is by the number of the input.
    """
    inputs, names = operator.inputs, _needed_columns(pattern, operator)
    parts, behind, verdicts, numbers = [], [], [], []
    sheddings: tuple[Shedding, ...] = ()
    for number, (stream, table) in enumerate(zip(inputs, tables, strict=True)):
        times, verdict = judge_arrivals(stream, table, operator.dedup_horizon)
        rows = (shed or {}).get(number)
        of_row = np.full(len(table), -1) if rows is None else rows.of_row
        verdicts.append(np.where(of_row >= 0, SHED, verdict))
        numbers.append(np.where(of_row >= 0, of_row + len(sheddings), -1))
        sheddings += () if rows is None else rows.sheddings
        latest = np.maximum.accumulate(times) if len(times) else times
        behind.append(latest - times)
        own = table.select([name for name in names if name in table.column_names])
        own = own.append_column(TIME, pa.array(times))
        parts.append(own.append_column(INPUT, pa.array(np.full(len(own), number, np.int32))))
    whole = pa.concat_tables(parts, promote_options="permissive").combine_chunks()
    for name in set(names) - set(whole.column_names):
        whole = whole.append_column(
            name, pa.nulls(len(whole), operator.schema.field(name).type)
        )
    order = order_of(whole, inputs)
    if order is not None:
        whole = whole.take(pa.array(order))
    place = slice(None) if order is None else order
    keys = np.zeros(len(whole), np.int64)
    if pattern.partition_by:
        columns = [row_column(whole, attribute) for attribute in pattern.partition_by]
        keys = hash_keys(columns, len(whole))[0]
    return JudgedEvents(
        whole,
        tuple(stream.ids for stream in inputs),
        whole[TIME].to_numpy(),
        whole[INPUT].to_numpy(),
        np.concatenate(verdicts)[place],
        np.concatenate(behind)[place],
        keys,
        np.concatenate(numbers)[place],
        sheddings,
    )


def _needed_columns(pattern: Pattern, operator: CepOperator) -> list[str]:
    """List ids, and what conditions and the key ask for; not what is selected."""
    conditions = [element.condition for element in elements(pattern.where)]
    asked = [*conditions, *pattern.conditions, *pattern.partition_by]
    nodes = (node for expression in asked for node in ex.walk(expression))
    named = (node.path[0] for node in nodes if isinstance(node, ex.Attribute))
    return list(dict.fromkeys([*operator.ids, *named]))
