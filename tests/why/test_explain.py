"""`explain` names what stopped a match: 200 near misses, each with one known cause."""

import time

import numpy as np
import pyarrow as pa
import pytest

from shedlight.language import parse_pattern
from shedlight.matching.operators.cep_operator import build_operator
from shedlight.matching.operators.reorder import StreamInput
from shedlight.why.causes import Cause
from shedlight.why.explain import WhyQuestion, explain
from shedlight.why.judged_events import Shedding, ShedRows
from shedlight.why.words import WhySettings, answer_lines
from tests.why.near_misses import SCHEMA, SECOND, Case, is_kept, make_case

SHEDDING = Shedding(
    node="edge", micro_batch=7, plan=3, event_type="", share=0.5, pressure=1.0, by_key=False
)


def shed_rows(case: Case) -> dict[int, ShedRows]:
    """Say which events were shed, in a case that is about it."""
    if case.cause is not Cause.SHED:
        return {}
    rows = [-1 if 1 <= e.id < 100 or e.id >= 1000 or is_kept(e.id) else 0 for e in case.events]
    return {0: ShedRows(np.array(rows), (SHEDDING,))}


@pytest.mark.parametrize("seed", range(200), ids=lambda seed: make_case(seed).name)
def test_the_cause_of_a_near_miss_is_named(seed):
    """It is the only obstacle of the nearest candidate, and is about the event in question."""
    case = make_case(seed)
    for question in case.questions:
        answer = explain(case.operator, "P", [case.table], question, shed_rows(case))
        nearest = answer.near_misses[0]
        assert [obstacle.cause for obstacle in nearest.obstacles] == [case.cause]
        about = (nearest.obstacles[0].row, nearest.obstacles[0].other)
        ids = {answer.events.id_of(row)[0] for row in about if row is not None}
        assert case.culprit in ids


@pytest.mark.parametrize("keyed", [True, False])
def test_more_cores_are_a_remedy_for_a_pattern_with_a_key_alone(keyed):
    """Without PARTITION BY one core does all of its matching."""
    shed = (make_case(seed) for seed in range(200))
    shed_cases = [case for case in shed if case.cause is Cause.SHED]
    case = next(case for case in shed_cases if ("PARTITION" in case.text) == keyed)
    answer = explain(case.operator, "P", [case.table], case.questions[0], shed_rows(case))
    lines = [*answer_lines(answer, WhySettings("P", ("id",), (0,)), 1)]
    assert any("a longer bound" in line for line in lines)
    assert any("more cores" in line for line in lines) == keyed


def test_a_pattern_of_one_event_needs_no_window():
    """Its condition is what stopped it."""
    table = pa.table({"id": [1, 2], "at": [SECOND, 2 * SECOND], "kind": ["A", "B"]})
    pattern = parse_pattern("SELECT a.id AS one WHERE a.kind = 'C'").pattern
    operator = build_operator([(StreamInput("s", ("id",), "at"), table.schema)], {"P": pattern})
    answer = explain(operator, "P", [table], WhyQuestion(event=("2",)))
    assert [each.cause for each in answer.near_misses[0].obstacles] == [Cause.CONDITION]
    assert len(explain(operator, "P", [table], WhyQuestion(since=0)).near_misses) == 2


def add_a_million(table: pa.Table, *, keyed: bool) -> pa.Table:
    """Put a million events before a near miss: of other keys, or of no type of the pattern."""
    draw, size = np.random.default_rng(7), 1_000_000
    kinds = np.array(["A", "B", "C", "X"] if keyed else ["D", "E", "F", "G"])
    more = {
        "id": np.arange(10_000, 10_000 + size),
        "at": np.sort(draw.integers(-8_000 * SECOND, 0, size)),
        "user": np.char.add("u", draw.integers(0, 5_000, size).astype(str)),
        "kind": kinds[draw.integers(0, 4, size)],
        "level": np.array(["low", "high"])[draw.integers(0, 2, size)],
        "value": draw.random(size) * 50,
    }
    return pa.concat_tables([pa.table(more, SCHEMA), table])


@pytest.mark.soak
@pytest.mark.parametrize("seed", [0, 10, 22, 33, 44, 5, 6, 7, 8])
def test_a_million_events_take_less_than_two_seconds(seed):
    """Once compiled; the cause is the same."""
    case = make_case(seed)
    question = case.questions[0]
    explain(case.operator, "P", [case.table], question)
    table = add_a_million(case.table, keyed="PARTITION" in case.text)
    began = time.perf_counter()
    answer = explain(case.operator, "P", [table], question)
    assert time.perf_counter() - began < 2
    assert [each.cause for each in answer.near_misses[0].obstacles] == [case.cause]
