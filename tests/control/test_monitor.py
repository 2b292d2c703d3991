"""The monitor: its averages are plain means, and it reports what has moved and nothing else."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.control.averages import Averages, Key, Measure, NodeCounts, OperatorCounts
from shedlight.control.controller import Memory, decide
from shedlight.control.monitor import (
    MonitorMemory,
    ReportingRule,
    merge_reports,
    observation_of,
    observe,
)
from shedlight.control.node_status import NodeStatus
from shedlight.graph.application import Stream
from tests.control.observations import APPLICATION, observed

S, A = Stream("s"), Stream("A", "w")
ARRIVALS = Key(Measure.ARRIVALS, "w", S, "type=0")


def _counts(events=100.0, seconds=1.0, each=0.001, **more):
    """Count events of one type that one pattern keeps and processes."""
    types = {"type=0": events}
    counts = OperatorCounts(
        arrivals={S: types},
        kept={A: types},
        processed={A: types},
        busy={A: {"type=0": events * each}},
        squares={A: {"type=0": events * each * each}},
        outputs={A: events / 2},
        partial_matches={A: 3},
    )
    settings = {"busy": events * each, "waited": events * 0.2, "processed": events, **more}
    return NodeCounts(node="n", time=0.0, seconds=seconds, operators={"w": counts}, **settings)


def _fed(counts, **rule):
    memory, reports = MonitorMemory(rule=ReportingRule(**rule)), []
    for each in counts:
        memory, report = observe(memory, each)
        reports.append(report)
    return memory, reports


def test_first_everything_is_reported():
    """Nothing is known before."""
    _, (report,) = _fed([_counts()])

    values = {(key.measure.value, key.label): value for key, value in report.values.items()}
    assert values == pytest.approx(
        {
            ("arrivals", "type=0"): 100,
            ("kept", "type=0"): 100,
            ("outputs", ""): 50,
            ("processing_time", "type=0"): 0.001,
            ("second_moment", "type=0"): 1e-6,
            ("partial_matches", ""): 3,
            ("backlog", ""): 0,
            ("busy", ""): 0.1,
            ("latency", ""): 0.2,
        }
    )


def test_a_stable_stream_sends_nothing():
    """That is what reports on change are for."""
    memory, reports = _fed([_counts()] * 20)

    assert reports[1:] == [None] * 19
    assert memory.messages == 1


@given(st.floats(0.5, 2))
def test_exactly_what_passes_the_threshold_is_reported(factor):
    """With a window of one interval an average is that of the interval."""
    _, (_, report) = _fed([_counts(), _counts(events=100 * factor)], events=1, threshold=0.05)

    moved = abs(100 * factor - 100) > 0.05 * 100
    assert (report is not None and ARRIVALS in report.values) is moved


def test_small_steps_are_reported_when_they_add_up():
    """It counts what was last reported, not what was last seen."""
    _, reports = _fed([_counts(events=n) for n in (100, 103, 106)], events=1)

    assert [report is not None for report in reports] == [True, False, True]


@given(
    st.lists(st.tuples(st.integers(1, 500), st.floats(0.1, 5)), min_size=1, max_size=20),
    st.integers(1, 2000),
)
def test_averages_are_plain_running_means(intervals, events):
    """They are over the fewest latest intervals that have so many events."""
    memory, reports = _fed(
        [_counts(n, seconds) for n, seconds in intervals], events=events, threshold=0.0
    )
    window = []
    for interval in reversed(intervals):
        window.append(interval)
        if sum(n for n, _ in window) >= events:
            break

    expected = sum(n for n, _ in window) / sum(seconds for _, seconds in window)
    assert memory.reported[ARRIVALS] == pytest.approx(expected)
    assert len(memory.recent) == len(window)
    assert memory.messages == sum(report is not None for report in reports)


@given(st.lists(st.tuples(st.integers(1, 50), st.floats(1e-4, 1)), min_size=1, max_size=9))
def test_a_processing_time_is_the_mean_over_events(intervals):
    """Not over intervals: one with more events counts more."""
    memory, _ = _fed([_counts(n, each=each) for n, each in intervals], threshold=0.0)

    total = sum(n * each for n, each in intervals)
    mean = memory.reported[Key(Measure.TIME, "w", A, "type=0")]
    assert mean == pytest.approx(total / sum(n for n, _ in intervals))


def test_a_type_that_stays_away_is_reported_as_none():
    """Its processing time stays as it was measured."""
    empty = replace(_counts(), operators={"w": OperatorCounts(arrivals={S: {"type=1": 100.0}})})
    memory, _ = _fed([_counts(), empty], events=1)

    assert memory.reported[ARRIVALS] == 0
    assert memory.reported[Key(Measure.TIME, "w", A, "type=0")] == pytest.approx(0.001)


def test_a_backlog_is_not_averaged():
    """What is queued is queued now."""
    memory, _ = _fed([_counts(backlog=1.0), _counts(backlog=5.0)])

    assert memory.reported[Key(Measure.BACKLOG, "n")] == 5


def test_messages_and_bytes_are_those_sent():
    """The overhead is what is encoded."""
    memory, reports = _fed([_counts(n) for n in (100, 100, 150)], events=1)
    sent = [report.encode() for report in reports if report]

    assert (memory.messages, memory.bytes) == (2, sum(map(len, sent)))
    assert json.loads(sent[0])[0] == "n"


def test_a_quiet_operator_is_not_remembered_for_ever():
    """However few events there are, no more intervals are kept than asked for."""
    memory, _ = _fed([_counts(1)] * 30, events=1000, longest=10)

    assert len(memory.recent) == 10


def test_an_observation_is_made_of_what_was_reported_last():
    """What was not reported again stands."""
    _, reports = _fed([_counts(), _counts(200, backlog=0.4)], events=1)
    values = merge_reports({}, [each for each in reports if each])

    seen = observation_of(values, time=2.0, interval=1.0)

    assert seen.arrivals == {"w": {S: {"type=0": 200}}}
    assert seen.kept == {A: {"type=0": 200}}
    assert seen.outputs == {A: 100}
    assert seen.processing_time == {A: {"type=0": 0.001}}
    assert seen.backlog == {"n": 0.4}
    assert seen.busy == {"n": pytest.approx(0.2)}
    assert seen.latency == {"n": pytest.approx(0.2)}


def test_reports_are_enough_to_decide():
    """From what nodes count to a plan, with nothing but reports in between."""
    seen = observed(1.5)
    values: Averages = {}
    for node, names in {"edge-1": ["w1"], "edge-2": ["w2"], "core": ["w3", "w4"]}.items():
        operators = {name: OperatorCounts(**_counts_of(seen, name)) for name in names}
        counts = NodeCounts(node=node, time=1.0, seconds=1.0, operators=operators)
        _, report = observe(MonitorMemory(), counts)
        assert report is not None
        values = merge_reports(values, [report])

    _, decision = decide(
        Memory(application=APPLICATION), observation_of(values, time=1.0, interval=1.0)
    )

    assert decision.plan is not None
    assert decision.plan.nodes == ("edge-2",)
    assert decision.health["edge-2"].status is NodeStatus.SHEDDING


def _counts_of(seen, name):
    """Count one second of what was observed."""
    kept = {one: types for one, types in seen.kept.items() if one.operator == name}
    busy = {
        one: {label: n * seen.processing_time[one] for label, n in types.items()}
        for one, types in kept.items()
    }
    outputs = {one: n for one, n in seen.outputs.items() if one.operator == name}
    return {
        "arrivals": seen.arrivals[name],
        "kept": kept,
        "processed": kept,
        "busy": busy,
        "outputs": outputs,
    }


def test_an_interval_must_last():
    """A rate needs time."""
    with pytest.raises(ValueError, match="seconds must be more than zero, got 0"):
        _counts(seconds=0)
