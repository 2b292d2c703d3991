"""What the controller learns of strata of keys."""

import pytest

from shedlight.control.observation import Observation, StratumObservation
from shedlight.control.strata import (
    StrataSettings,
    find_strata_reason,
    strata_rates,
    update_strata,
)
from shedlight.graph import Stream
from shedlight.model.build import build_model
from shedlight.model.snapshot import Snapshot
from shedlight.shedding.shares import PatternShares
from tests.sampled_runs import PAIR, keyed_application

APPLICATION = keyed_application()
RATES = {f"type={i}": 100.0 for i in range(4)}
MODEL = build_model(APPLICATION, Snapshot(rates={Stream("s"): RATES}))
SETTINGS = StrataSettings()


def _stratum(rate, found, kept=1.0):
    arrivals = dict.fromkeys(RATES, rate)
    part = {label: kept * number for label, number in arrivals.items()}
    return StratumObservation(arrivals, {"P": part, "Q": part}, {"P": found, "Q": found})


def _learn(number, before=None, **strata):
    named = {name.replace("_", " "): each for name, each in strata.items()}
    averages = before or {}
    for time in range(number):
        observation = Observation(time=time, interval=1.0, arrivals={}, strata={"w": named})
        averages = update_strata(averages, observation, MODEL, SETTINGS)
    return averages


def test_rates_and_yields_of_strata_are_learned():
    """A stratum of which half of the matches come has a factor of a half, at last."""
    learned = _learn(40, key_1=_stratum(40, 20), rest=_stratum(60, 60))

    rates = strata_rates(learned)["w"]

    assert rates["key 1"].rates == pytest.approx(dict.fromkeys(RATES, 40.0))
    assert rates["key 1"].calibration["P"] == pytest.approx(0.5, abs=0.05)
    assert rates["rest"].calibration["P"] == pytest.approx(1.0)


def test_little_says_little_of_a_yield():
    """Two matches of four are no reason to take a stratum for half as good."""
    learned = _learn(1, key_1=_stratum(4, 2), rest=_stratum(96, 96))

    assert learned["w"]["key 1"].factors["P"] > 0.9


def test_what_is_shed_is_forgotten_and_tried_again():
    """A stratum of which nothing is kept for long is one as any other."""
    poor = _learn(40, key_1=_stratum(40, 4), rest=_stratum(60, 60))
    assert poor["w"]["key 1"].factors["P"] < 0.2

    forgotten = _learn(60, poor, key_1=_stratum(40, 0, kept=0.0), rest=_stratum(60, 60))

    assert forgotten["w"]["key 1"].factors["P"] > 0.8


def test_an_operator_without_heavy_hitters_has_no_strata():
    """The rest alone is all there is."""
    assert strata_rates(_learn(3, rest=_stratum(100, 100))) == {}


def test_new_heavy_hitters_are_a_reason_to_replan():
    """While something is shed, and they have work enough."""
    learned = _learn(3, key_1=_stratum(40, 40), rest=_stratum(60, 60))
    shed, whole = PatternShares({"type=0": 0.5}), PatternShares({"type=0": 1.0})

    assert "new" in find_strata_reason(learned, {PAIR: shed}, 1, SETTINGS)
    assert not find_strata_reason(learned, {PAIR: whole}, 1, SETTINGS)
