"""`explain` names what stopped a match: 200 near misses, each with one known cause."""

import numpy as np
import pytest

from shedlight.why.causes import Cause
from shedlight.why.explain import explain
from shedlight.why.judged_events import Shedding, ShedRows
from tests.why.near_misses import Case, is_kept, make_case

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
