"""What an operator of a thousand patterns costs, against one of a single pattern."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from benchmarks.question import Answer, ratio
from shedlight.language import parse_pattern
from shedlight.matching.operators.cep_operator import (
    CepOperator,
    OperatorResult,
    OperatorState,
    build_operator,
    new_operator_state,
    schema_of,
    step_operator,
)
from shedlight.matching.operators.reorder import StreamInput

PATTERNS = 1_000
EVENTS = 200_000


def _operator(texts: Sequence[str], table: pa.Table) -> CepOperator:
    schema = schema_of(table.schema)
    patterns = {f"P{i}": parse_pattern(text, schema).pattern for i, text in enumerate(texts)}
    return build_operator([(StreamInput("stream", ("id",), "time"), table.schema)], patterns)


def _stream(events: int, **columns: np.ndarray) -> pa.Table:
    return pa.table({**columns, "time": np.arange(events) * 1_000, "id": np.arange(events)})


def _types(events: int, types: int) -> pa.Table:
    rng = np.random.default_rng(1)
    return _stream(events, type=rng.integers(0, types, events), x=rng.random(events))


def whole_operator(
    texts: Sequence[str], table: pa.Table
) -> Callable[[], tuple[OperatorState, OperatorResult]]:
    """Take in a table and match it: from arrivals to complex events."""
    operator = _operator(texts, table)
    state = new_operator_state(operator)
    return lambda: step_operator(operator, state, {0: table}, frozenset({0}))


def _disjoint(patterns: int) -> list[str]:
    return [
        f"SELECT a.x WHERE SEQ(a.type = {2 * i}, b.type = {2 * i + 1}) WITHIN 100 s"
        for i in range(patterns)
    ]


def disjoint_patterns() -> Iterator[Answer]:
    """Compare a thousand patterns of two types each with one, over as many events."""
    one = whole_operator(_disjoint(1), _types(EVENTS, 2))
    many = whole_operator(_disjoint(PATTERNS), _types(EVENTS, 2 * PATTERNS))
    figure, ours, other = ratio(many, one)
    detail = f"{ours * 1e3:.0f} ms against {other * 1e3:.0f} ms"
    yield Answer("1,000 disjoint patterns against one", figure, 10, detail=detail)


def own_thresholds() -> Iterator[Answer]:
    """Compare a thousand patterns, each with a threshold of its own on one attribute, with one.

    The thresholds are those of alarms, in the tail of what is measured, so that an event
    concerns six patterns on average and one in a thousand all of them.
    """
    rng = np.random.default_rng(3)
    table = _stream(EVENTS, x=rng.normal(20, 5, EVENTS))
    one = whole_operator(["SELECT a.x WHERE SEQ(a.x > 20, b.x > 20) WITHIN 10 s"], table)
    limits = [30 + i / 100 for i in range(PATTERNS)]
    texts = [f"SELECT a.x WHERE SEQ(a.x > {x}, b.x > {x}) WITHIN 10 s" for x in limits]
    figure, ours, other = ratio(whole_operator(texts, table), one, runs=5)
    detail = f"{ours * 1e3:.0f} ms against {other * 1e3:.0f} ms"
    yield Answer("1,000 patterns with own thresholds against one", figure, 20, detail=detail)


def ten_events() -> Iterator[Answer]:
    """Time a call of ten events after a million, with 1,000 patterns and 2,000 types seen."""
    before = 1_000_000
    table = _types(before + 10, 2 * PATTERNS)
    operator = _operator(_disjoint(PATTERNS), table)
    state = new_operator_state(operator)
    state, _ = step_operator(operator, state, {0: table.slice(0, before)})
    times = []
    for _ in range(9):
        began = time.process_time()
        step_operator(operator, state, {0: table.slice(before)})
        times.append(time.process_time() - began)
    yield Answer(
        "ten events, 1,000 patterns, 2,000 types: ms", statistics.median(times) * 1e3, 20
    )


QUESTIONS = (disjoint_patterns, own_thresholds, ten_events)
