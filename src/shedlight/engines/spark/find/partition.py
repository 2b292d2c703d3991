"""Batch DataFrames: a partition has whole keys, in order of time, and is matched by itself."""

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from shedlight.engines.spark.codec.pack import conform
from shedlight.engines.spark.find.copies import number_copies
from shedlight.engines.spark.find.events import COPY
from shedlight.engines.spark.find.result import to_result
from shedlight.engines.spark.find.shard_rows import Batches, gather
from shedlight.engines.spark.support.worker import prepare_worker
from shedlight.language import Pattern
from shedlight.matching.operators.cep_operator import (
    CepOperator,
    OperatorState,
    build_operator,
    ingest,
    match_batch,
    new_operator_state,
)
from shedlight.matching.operators.reorder import StreamInput

GROUP = "#group"
"""The column that says for the patterns of which key a row is."""


@dataclass(frozen=True, slots=True, eq=False)
class PartitionStep:
    """What is done to each partition."""

    stream: StreamInput  # the id and time of events
    schema: pa.Schema  # their columns
    groups: tuple[Mapping[str, Pattern], ...]  # the patterns of each key
    result: pa.Schema  # the columns of what is found


def partition_function(step: PartitionStep) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Make the function that Spark calls for each partition."""
    pickled = pickle.dumps(step)

    def match(batches: Batches) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        step, operators = _build_operators(pickled)
        states = [new_operator_state(operator) for operator in operators]
        for table in gather(batches):
            groups = table[GROUP].to_numpy()
            events = conform(table.drop_columns([GROUP]), step.schema)
            for group in np.unique(groups).tolist():
                mine = groups == group
                own = events if mine.all() else events.filter(pa.array(mine))
                states[group], found = _advance(operators[group], states[group], own)
                yield from _results(step, found)
        for operator, state in zip(operators, states, strict=True):
            _, found = _advance(operator, state, None)
            yield from _results(step, found)

    return match


@cache
def _build_operators(pickled: bytes) -> tuple[PartitionStep, tuple[CepOperator, ...]]:
    """Build the operator of each key, once in a process."""
    step: PartitionStep = pickle.loads(pickled)  # noqa: S301  # our own, from the driver
    inputs = [(step.stream, step.schema)]
    return step, tuple(build_operator(inputs, patterns) for patterns in step.groups)


def _advance(
    operator: CepOperator, state: OperatorState, events: pa.Table | None
) -> tuple[OperatorState, Mapping[str, pa.Table]]:
    """Match events, or what is left when there are no more."""
    arrivals: dict[int, pa.Table] = {}
    if events is not None:
        is_numbered = COPY in operator.ids
        waiting = state.reorder_buffer.buffer
        arrivals[0] = number_copies(events, waiting) if is_numbered else events
    ended = frozenset({0}) if events is None else frozenset[int]()
    state, ready, _ = ingest(operator, state, arrivals, ended)
    names = {matcher.name for matcher in operator.matchers}
    return match_batch(operator, state, ready, {}, without_event_ids=names)


def _results(step: PartitionStep, found: Mapping[str, pa.Table]) -> Iterator[pa.RecordBatch]:
    for name, table in found.items():
        if len(table):
            yield from to_result(step.result, name, table)
