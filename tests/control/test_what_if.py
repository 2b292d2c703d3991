"""What-if: as the planner plans, from planning input that was written and read again."""

import json
from dataclasses import replace

import pytest

from shedlight.control.controller import Memory
from shedlight.control.override import Override, apply_override
from shedlight.control.planning_input import (
    MAX_NUMBERS,
    PlanningInput,
    planning_input_of,
    planning_input_text,
    read_planning_input,
)
from shedlight.control.what_if import what_if
from shedlight.errors import PlanError, SnapshotError
from shedlight.graph.application import Stream
from shedlight.model.build import build_model
from shedlight.planning.plan import PlanSettings, make_plan
from shedlight.shedding.shares import shares_by_label
from tests.control.loops import run
from tests.control.observations import APPLICATION, NODE


@pytest.fixture
def planning_input() -> PlanningInput:
    """Have the planning input of an application that sheds."""
    memory, _ = run(Memory(application=APPLICATION), [2.0] * 3)
    found = planning_input_of(memory)
    assert found is not None
    assert found.shares
    return found


def planned(planning_input, override, load=1.0):
    """Plan with the planner itself, from the same numbers."""
    rates = {
        stream: {label: rate * load for label, rate in by.items()}
        for stream, by in planning_input.snapshot.rates.items()
    }
    outputs = {
        stream: rate * load for stream, rate in planning_input.snapshot.output_rates.items()
    }
    snapshot = replace(planning_input.snapshot, rates=rates, output_rates=outputs)
    model = build_model(apply_override(planning_input.application, override), snapshot)
    target = replace(planning_input.plan_settings.target, horizon=2 * planning_input.interval)
    return model, make_plan(model, PlanSettings(target=target))


def shares_of(shares):
    """Write shares as plain numbers."""
    return {
        str(stream): {label: pytest.approx(share) for label, share in one.shares.items()}
        for stream, one in shares.items()
    }


@pytest.mark.parametrize(
    ("override", "load"),
    [
        (Override(bounds={NODE: 10.0}), 1.0),
        (Override(bounds={NODE: 0.1}), 1.0),
        (Override(weights={"sink1": 50.0}), 1.0),
        (Override(bounds={NODE: 3.0}, weights={"sink2": 9.0}), 2.0),
        (Override(), 0.25),
    ],
)
def test_it_plans_as_the_planner_does(planning_input, override, load):
    """Shares, loads and what the sinks would get."""
    model, plan = planned(planning_input, override, load)
    found = what_if(planning_input, override, load)
    assert found.plan is not None
    if not found.plan.keeps_incumbent:
        expected = {**planning_input.shares, **shares_by_label(model, plan.keep)}
        assert {k: dict(v.shares) for k, v in map_str(found.shares)} == shares_of(expected)
        assert found.forecast_sinks == {
            k: pytest.approx(v) for k, v in plan.rates.sinks.items()
        }
    assert found.plan.objective == pytest.approx(plan.objective, rel=0.011)


def map_str(shares):
    """Name the patterns of shares."""
    return [(str(stream), one) for stream, one in shares.items()]


def test_the_same_is_found_after_writing_and_reading(planning_input):
    """Nothing that matters is lost on the way."""
    text = planning_input_text(planning_input)
    again = read_planning_input(text)
    override = Override(bounds={NODE: 3.0}, weights={"sink1": 7.0})
    one, other = what_if(planning_input, override, 1.5), what_if(again, override, 1.5)
    assert one.loads == other.loads
    assert one.current_sinks == other.current_sinks
    assert one.forecast_sinks == other.forecast_sinks
    assert one.health == other.health
    assert dict(map_str(one.shares)).keys() == dict(map_str(other.shares)).keys()


def test_asking_changes_nothing(planning_input):
    """Planning input is a value."""
    text = planning_input_text(planning_input)
    what_if(planning_input, Override(bounds={NODE: 100.0}, weights={"sink1": 0.0}), 3.0)
    assert planning_input_text(planning_input) == text


def test_nothing_else_is_asked_for_is_the_plan_in_force(planning_input):
    """It stays, for another would bring hardly more."""
    found = what_if(planning_input, Override())
    assert found.shares == planning_input.shares
    assert found.current_sinks == found.forecast_sinks


def test_more_is_shed_for_a_shorter_bound(planning_input):
    """And the sinks get less."""
    short = what_if(planning_input, Override(bounds={NODE: 0.05}), 6.0)
    long = what_if(planning_input, Override(bounds={NODE: 50.0}), 6.0)
    assert sum(short.forecast_sinks.values()) < sum(long.forecast_sinks.values())


def test_no_load_at_all_can_be_asked_for(planning_input):
    """Then nothing is shed, and nothing comes."""
    found = what_if(planning_input, Override(), 0.0)
    assert all(rate == 0 for rate in found.forecast_sinks.values())


@pytest.mark.parametrize(
    ("override", "what"),
    [
        (
            Override(bounds={"nobody": 1.0}),
            "there is no node 'nobody'; known: core, edge-1, edge-2",
        ),
        (Override(bounds={"core": 1.0}), "has no bound .* give it one in the application file"),
        (Override(weights={"k": 1.0}), "there is no sink 'k'; known: sink1, sink2"),
        (Override(bounds={NODE: -1.0}), "must be longer than zero"),
        (Override(weights={"sink1": float("nan")}), "must be from 0 on"),
    ],
)
def test_what_is_not_there_cannot_be_asked_for(planning_input, override, what):
    """In a sentence."""
    with pytest.raises(PlanError, match=what):
        what_if(planning_input, override)


def test_an_override_in_words():
    """For the log and the page."""
    override = Override({"edge": 2.5}, {"out": 3.0})
    weight = "the weight of sink 'out' is 3"
    assert override.describe({}) == f"the bound of node 'edge' is 2.5 s on average, {weight}"
    by_percentile = override.describe({"edge": 95})
    assert by_percentile == f"the bound of node 'edge' is 2.5 s at p95, {weight}"
    assert override.over(Override({"edge": 1.0, "core": 1.0})).bounds == {
        "edge": 2.5,
        "core": 1.0,
    }


def test_too_many_types_are_not_written(planning_input):
    """That would take longer than to plan."""
    rates = {Stream("s1"): {f"type={i}": 1.0 for i in range(MAX_NUMBERS + 1)}}
    large = replace(planning_input, snapshot=replace(planning_input.snapshot, rates=rates))
    text = planning_input_text(large)
    assert json.loads(text).keys() == {"version", "omitted_numbers"}
    with pytest.raises(
        SnapshotError, match=r"has \d+ numbers of event types, .* `shedlight plan`"
    ):
        read_planning_input(text)


def test_what_is_no_situation_is_refused(planning_input):
    """Cut off, of another version, or of something else."""
    text = planning_input_text(planning_input)
    other = json.dumps(json.loads(text) | {"version": 9})
    foreign = json.dumps(json.loads(text) | {"application": "name: x"})
    for bad in ("", "{}", "[]", "null", text[:-5], other, foreign, "[" * 100_000):
        with pytest.raises(SnapshotError, match="planning input"):
            read_planning_input(bad)


def test_before_any_observation_there_is_no_situation():
    """Nothing is known yet."""
    assert planning_input_of(Memory(application=APPLICATION)) is None
