"""From what was observed to a snapshot that can be planned with."""

from dataclasses import replace

import pytest

from shedlight.control.observation import shed_patterns, snapshot_of
from shedlight.graph.application import Node, Sink, Stream
from shedlight.model.build import build_model
from shedlight.model.rates import predict
from shedlight.shedding.shares import PatternShares
from tests.control.observations import APPLICATION, RATES, observed
from tests.graph.applications import stream
from tests.model.applications import operators

Q11, Q12, Q21, Q22 = map(stream, ("w1.Q11", "w1.Q12", "w2.Q21", "w2.Q22"))
HALF = {Q21: PatternShares({"type=0": 0.5, "type=1": 1.0})}


def test_rates_of_sources_are_those_before_shedding():
    """What is shed still arrives."""
    snapshot = snapshot_of(observed(shares=HALF), APPLICATION)

    assert snapshot.rates[Stream("s2")] == RATES["s2"]


def test_what_arrives_downstream_is_what_upstream_emits():
    """An overloaded operator counts less than is sent to it."""
    seen = observed()
    taken_in = {Q11: {"source=Q11": 1.0}, Q21: {"source=Q21": 1.0}}
    overloaded = replace(seen, arrivals={**seen.arrivals, "w3": taken_in})

    model = build_model(APPLICATION, snapshot_of(overloaded, APPLICATION))

    assert sum(predict(model).arrivals["w3"]) == pytest.approx(20 + 30)


def test_what_a_shedding_pattern_emits_is_modelled():
    """Measured under shedding it would say too little about what comes without."""
    seen = observed(shares=HALF)
    snapshot = snapshot_of(seen, APPLICATION)

    assert shed_patterns(seen, APPLICATION) == {Q21}
    assert set(snapshot.output_rates) == {Q11, Q12, Q22}


def test_a_type_that_was_not_processed_has_the_mean_of_the_others():
    """It is shed altogether, so nobody could measure it."""
    measured = {Q21: {"type=0": 0.002}, Q22: 0.008}
    seen = observed(processing_time=measured, second_moment={Q21: {"type=0": 1e-9}})

    snapshot = snapshot_of(seen, APPLICATION)

    times = snapshot.processing_time[Q21]
    assert times == dict.fromkeys(RATES["s2"], 0.002)
    assert snapshot.second_moment == {Q21: {"type=0": 0.002**2}}
    build_model(APPLICATION, snapshot)


def test_a_pattern_that_processed_nothing_has_the_mean_of_its_node():
    """A node with a bound needs the times of all its patterns."""
    snapshot = snapshot_of(observed(processing_time={Q21: 0.002}), APPLICATION)

    assert snapshot.processing_time == {Q21: 0.002, Q22: 0.002}


def test_readers_of_one_source_each_know_their_types():
    """Other is what nobody knows; an overloaded reader counts too little."""
    application = operators(
        w1="s1: SELECT E WHERE E.type = 0",
        w2="s1: SELECT E WHERE OR(E.type = 0, F.type = 1)",
    )
    s1 = Stream("s1")
    arrivals = {
        "w1": {s1: {"type=0": 40.0, "other": 60.0}},
        "w2": {s1: {"type=0": 30.0, "type=1": 20.0, "other": 10.0}},
    }
    seen = replace(observed(), arrivals=arrivals, kept={}, outputs={}, processing_time={})

    snapshot = snapshot_of(replace(seen, busy={}), application)

    assert snapshot.rates[s1] == {"type=0": 40, "type=1": 20, "other": 40}


def test_complex_events_that_nobody_saw_yet_are_no_obstacle():
    """Nothing says of what type they are, so they are taken to be of none."""
    application = replace(
        operators(
            w1="s1: SELECT E.cpu WHERE E.type = 0", w2="w1.W1: SELECT E WHERE E.cpu > 0.5"
        ),
        nodes={"on-w1": Node(name="on-w1", bound=1.0), "on-w2": Node(name="on-w2")},
        sinks={"out": Sink(name="out", input=stream("w2.W2"), format="parquet")},
    )
    arrivals = {"w1": {Stream("s1"): {"type=0": 5.0}}}
    times = {stream("w2.W2"): {"cpu > 0.5": 0.1}}
    seen = replace(
        observed(), arrivals=arrivals, kept={}, outputs={}, processing_time=times, busy={}
    )

    snapshot = snapshot_of(seen, application)

    assert snapshot.processing_time == {stream("w2.W2"): 0.1}
    build_model(application, snapshot)


def test_an_interval_must_last():
    """A rate needs time."""
    with pytest.raises(ValueError, match="interval must be longer than zero, got 0"):
        replace(observed(), interval=0)
