"""What timed out, in simulations: as without them, and nothing that shedding invents."""

import numpy as np
import pyarrow as pa
import pytest

from shedlight.control.override import Override, apply_override, current_values
from shedlight.engines.simulator import Service, simulate
from shedlight.engines.simulator.observation import observation_of
from shedlight.engines.simulator.policies import ControllerPolicy
from shedlight.engines.tables import run_application
from shedlight.errors import PlanError
from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream, build_application
from shedlight.language import parse_pattern
from shedlight.model.build import build_model
from shedlight.model.snapshot import Snapshot
from shedlight.runlog.records import run_header
from shedlight.shedding.shares import sheddable_by_pressure

TEXTS = {
    "P": "SELECT a.key AS key WHERE SEQ(a.type = 0, b.type = 1) WITHIN 1 s{}",
    "Q": "SELECT a.key AS key WHERE SEQ(a.type = 2, b.type = 3) WITHIN 1 s{}",
}
P, Q = Stream("P", "w"), Stream("Q", "w")


def _application(by=" PARTITION BY key", bound=1.0):
    patterns = {name: parse_pattern(text.format(by)).pattern for name, text in TEXTS.items()}
    sinks = [
        Sink(name=name, input=stream, format="parquet", path=name)
        for name, stream in (("p", P), ("q", Q))
    ]
    slow = Sink(name="slow", input=P, timed_out=True, weight=0, format="parquet", path="slow")
    return build_application(
        "slow",
        [Source(name="s", format="parquet", path="s", time="time", id=("id",))],
        [Node(name="n", bound=bound)],
        [OperatorSpec(name="w", node="n", inputs=(Stream("s"),), patterns=patterns)],
        [*sinks, slow],
    )


def _events(seed, rates):
    rng = np.random.default_rng(seed)
    parts = [
        15_000_000 * place + np.sort(rng.integers(0, 15_000_000, rate * 15))
        for place, rate in enumerate(rates)
    ]
    time = np.concatenate(parts)
    return pa.table(
        {
            "time": time,
            "id": np.arange(len(time)),
            "key": rng.integers(0, 40, len(time)),
            "type": rng.choice(4, len(time), p=[0.2, 0.2, 0.3, 0.3]),
        }
    )


def test_a_simulation_fills_sinks_of_what_timed_out():
    """Without shedding, with what is found without a simulation."""
    application, table = _application(bound=None), _events(1, (30, 60))
    expected = run_application(application, {"s": table})["w"]
    found = simulate(application, {"s": table}, Service(seconds={}), interval=0.7)

    assert list(expected.timed_out) == ["P"]
    assert len(expected.timed_out["P"]) > 50
    for sink, events in (("slow", expected.timed_out), ("p", expected.complex_events)):
        ids = events["P"]["id"].to_pylist()
        assert found.sinks[sink]["id"].to_pylist() == ids


def test_no_plan_and_no_pressure_makes_anything_time_out():
    """The pattern is seen in full while the other one is shed."""
    application, table = _application(""), _events(2, (300, 900, 200, 900))
    expected = run_application(application, {"s": table})["w"].timed_out["P"]
    service = Service(seconds={P: 0.001, Q: 0.003})
    policy = ControllerPolicy(application, every=2)
    done = simulate(application, {"s": table}, service, policy=policy, seed=2)

    assert sum(decision.plan is not None for decision in policy.log) >= 2
    assert done.counts["w"].shed > 1_000
    assert done.sinks["slow"]["id"].to_pylist() == expected["id"].to_pylist()


def test_what_times_out_is_shed_by_key():
    """Where there is a key; `tests/test_law.py` holds that nothing of it is invented."""
    application, table = _application(), _events(2, (900, 900))
    expected = run_application(application, {"s": table})["w"].timed_out["P"]
    service = Service(seconds={P: 0.006, Q: 0.0001})
    policy = ControllerPolicy(application, every=2)
    done = simulate(application, {"s": table}, service, policy=policy, seed=2)
    assert 0 < len(done.sinks["slow"]) < len(expected)


@pytest.mark.parametrize("by", ["", " PARTITION BY key"])
def test_plans_do_not_count_what_timed_out(by):
    """Its sink is not in the model, and what it needs is whole: as one, or by its key."""
    application = _application(by)
    model = build_model(
        application, Snapshot(rates={Stream("s"): {"type=0": 1.0, "type=1": 1.0}})
    )
    patterns = {one.stream: one for one in model.operators["w"].patterns}

    assert set(model.sinks) == {"p", "q"}
    assert patterns[P].watches
    assert bool(patterns[P].group) == bool(by)
    assert patterns[P].is_switched == (not by)
    assert not patterns[Q].watches
    spared = {s: each.spares_unknown for s, each in sheddable_by_pressure(application).items()}
    assert spared == {P: not by, Q: False}


def test_its_sink_cannot_be_given_a_weight():
    """Nor is it among the sinks that a log or a page shows."""
    application = _application()
    with pytest.raises(PlanError, match="sink 'slow' takes what timed out, which plans do not"):
        apply_override(application, Override(weights={"slow": 2.0}))
    changed = apply_override(application, Override(weights={"p": 2.0}))
    assert current_values(changed).weights == {"p": 2.0, "q": 1.0}
    assert changed.sinks["slow"] == application.sinks["slow"]

    record = run_header(changed, 0.0)
    assert (record.sinks, record.weights) == (
        {"p": "w.P", "q": "w.Q"},
        {"p": 2.0, "q": 1.0},
    )


def test_an_observation_leaves_out_what_timed_out():
    """An interval counts it, for its sink; a plan is made from the matches."""
    application, table = _application(bound=None), _events(1, (30,))
    done = simulate(application, {"s": table}, Service(seconds={}), interval=5.0)
    slow = application.sinks["slow"].stream

    counted = sum(one.outputs.get(slow, 0) for one in done.intervals)
    assert counted == len(done.sinks["slow"]) > 0
    assert set(observation_of(done.intervals[0]).outputs) == {P, Q}
