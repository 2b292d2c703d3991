"""Patterns as sums of copies, one for each stratum of their keys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.errors import SnapshotError
from shedlight.graph import Stream
from shedlight.model.build import build_model
from shedlight.model.model import SheddingWay
from shedlight.model.rates import predict
from shedlight.model.snapshot import Snapshot
from shedlight.model.strata import copy_stream, expand_strata
from shedlight.planning.plan import PlanSettings, make_plan
from tests.sampled_runs import OTHER, PAIR, keyed_application

APPLICATION = keyed_application()
RATES = {f"type={i}": 100.0 for i in range(4)}
TIMES = {"w.P": 0.004, "w.Q": 0.004}


def _snapshot(strata=None, times=TIMES):
    sections = {"rates": {"s": RATES}, "processing_time": times}
    return Snapshot(**sections, strata={"w": strata} if strata else {})


def _share(share):
    return {"rates": {label: share * rate for label, rate in RATES.items()}}


@given(st.lists(st.floats(0.0, 0.3), min_size=1, max_size=3))
def test_copies_find_together_what_their_pattern_finds(shares):
    """Matches never cross keys: with types alike in all strata, the sum is the whole."""
    strata = {f"key {i:016x}": _share(share) for i, share in enumerate(shares)}
    model = build_model(APPLICATION, _snapshot(strata))
    expanded = expand_strata(model)

    whole, parts = predict(model), predict(expanded.model)
    merged = expanded.merge_rates(parts)

    assert merged.sinks == pytest.approx(whole.sinks)
    assert merged.outputs == pytest.approx(whole.outputs)
    assert merged.arrivals["w"] == pytest.approx(whole.arrivals["w"])
    assert merged.kept[PAIR] == pytest.approx(whole.kept[PAIR])


def test_without_strata_the_model_is_the_same():
    """Nothing is copied, so nothing is slower or different."""
    model = build_model(APPLICATION, _snapshot())

    assert expand_strata(model).model is model


def test_what_is_of_no_stratum_is_of_the_rest():
    """A quarter of the events of each type is of a heavy hitter."""
    strata = build_model(APPLICATION, _snapshot({"key 00": _share(0.25)})).strata["w"]

    assert strata.names == ("key 00", "rest")
    assert strata.ways == (SheddingWay.EVENTS, SheddingWay.WHOLE_KEYS)
    assert strata.split.sum(0) == pytest.approx(1.0)
    assert strata.split[0] == pytest.approx(0.25)


def test_the_stratum_that_brings_more_is_kept_first():
    """Half of the events bring ten times as much; 0.9 of what is asked for twice fits."""
    poor = {**_share(0.5), "calibration": {"P": 0.1, "Q": 0.1}}
    strata = {"key 00": {**_share(0.5), "calibration": {"P": 1.0, "Q": 1.0}}, "rest": poor}
    model = build_model(APPLICATION, _snapshot(strata))

    plan = make_plan(model, PlanSettings())

    for stream in (PAIR, OTHER):
        rich, rest = plan.strata[stream]
        assert rich.keep.min() > 0.99
        assert rest.keep.max() < 0.3
        mean = (rich.keep + rest.keep) / 2
        assert plan.keep[stream] == pytest.approx(mean)
    assert all(load.fits for load in plan.loads.values())


def test_a_plan_of_copies_keeps_the_limits_and_names_patterns():
    """Rates and shares are those of patterns, not of copies."""
    model = build_model(APPLICATION, _snapshot({"key 00": _share(0.3)}))

    plan = make_plan(model, PlanSettings())

    assert plan.nodes == ("edge",)
    assert set(plan.keep) == {PAIR, OTHER}
    assert set(plan.rates.outputs) == set(model.patterns)
    assert copy_stream(PAIR, "rest") not in plan.rates.outputs
    assert np.ndim(plan.keep[PAIR]) == 1


def test_many_strata_are_planned():
    """64 strata are as one: shares differ by no more than the fill."""
    strata = {f"key {i:016x}": _share(0.01) for i in range(61)}
    plan = make_plan(build_model(APPLICATION, _snapshot(strata)))

    assert len(plan.strata[PAIR]) == 62
    assert all(load.fits for load in plan.loads.values())


@pytest.mark.parametrize(
    ("strata", "problem"),
    [
        ({"v": {"rest": {"rates": {}}}}, "strata.v is of an operator without strata"),
        ({"u": {"rest": {"rates": {}}}}, "strata names the unknown operator 'u'"),
        ({"w": {"rest": {"rates": {}, "calibration": {"X": 1}}}}, "unknown pattern 'X'"),
        ({"w": {"rest": {"rates": {"colour=1": 1.0}}}}, "has the unknown type 'colour=1'"),
        ({"w": {"rest": {"rate": {}}}}, "strata.w.rest has no 'rate'"),
    ],
)
def test_what_is_wrong_with_strata_is_said(strata, problem):
    """Where, what, and what is known."""
    with pytest.raises(SnapshotError, match=problem):
        build_model(APPLICATION, Snapshot(rates={Stream("s"): RATES}, strata=strata))
