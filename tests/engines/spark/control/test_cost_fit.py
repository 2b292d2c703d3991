"""The costs of micro-batches are found again in micro-batches that have them."""

import numpy as np
import pytest

from shedlight.engines.spark.control.cost_fit import fit_costs
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.source.arrival import ArrivalStats
from shedlight.engines.spark.step.metrics import OperatorMetrics, PatternMetrics, ShardMetrics
from shedlight.engines.spark.support.arrival_sketch import ArrivalSketch
from shedlight.model.spark_costs import DEFAULT_COSTS, Costs

TRUE = Costs(fixed=0.9, reading=2e-6, carrying=8e-6)


def _batch(number, events, kept, costs=TRUE, matching=0.5, extra=0.0):
    metrics = PatternMetrics({"type=0": kept}, matching, 3, 1, 0, 0)
    shard = ShardMetrics(
        0, matching, 100, {"w": OperatorMetrics(kept, 0, 0, 0, {"Q": metrics})}
    )
    seconds = costs.fixed + costs.reading * events + costs.carrying * kept + matching + extra
    return MicroBatchReport(
        node="n",
        number=number,
        start=float(number),
        seconds=seconds,
        arrived={("w", "s"): ArrivalStats(events, 1, 1_000_000 * number, {0: events})},
        kept_arrivals={"s": ArrivalSketch(kept, 1e6 * number, (1_000_000,))},
        shards=(shard,),
    )


def test_without_micro_batches_it_is_a_guess():
    """As it is with empty ones only."""
    assert fit_costs([]) == DEFAULT_COSTS
    assert fit_costs([_batch(0, 0, 0)]) == DEFAULT_COSTS


def test_costs_are_found_where_micro_batches_differ():
    """Whatever their order."""
    rng = np.random.default_rng(1)
    batches = [
        _batch(i, int(n), int(n * share))
        for i, (n, share) in enumerate(
            zip(rng.integers(10_000, 1_000_000, 60), rng.uniform(0.05, 1, 60), strict=True)
        )
    ]
    found = fit_costs(batches)
    assert found.fixed == pytest.approx(TRUE.fixed, rel=0.05)
    assert found.reading == pytest.approx(TRUE.reading, rel=0.1)
    assert found.carrying == pytest.approx(TRUE.carrying, rel=0.1)


def test_alike_micro_batches_give_costs_that_add_up():
    """How they are split is a guess, but the whole is right."""
    found = fit_costs([_batch(i, 100_000, 20_000) for i in range(30)])
    whole = found.fixed + found.reading * 100_000 + found.carrying * 20_000
    assert whole == pytest.approx(0.9 + 0.2 + 0.16, rel=0.02)


def test_one_that_took_far_too_long_does_not_count():
    """Something else was going on."""
    batches = [_batch(i, 100_000, 20_000) for i in range(30)]
    slow = _batch(30, 100_000, 20_000, extra=60.0)
    assert fit_costs([*batches, slow]).fixed == pytest.approx(
        fit_costs(batches).fixed, rel=0.05
    )


def test_no_cost_is_negative():
    """However the seconds fall."""
    batches = [_batch(i, 1000 * i, 1000 * i, Costs(1.0, 0.0, 0.0)) for i in range(1, 40)]
    backwards = [
        _batch(i, 40_000 - 1000 * i, 10, Costs(0.1, 0, 0), 0.0, i / 10) for i in range(40)
    ]
    for some in (batches, backwards):
        found = fit_costs(some)
        assert min(found.fixed, found.reading, found.carrying) >= 0
