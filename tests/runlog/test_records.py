"""A line of a log as a value, whatever is in it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.graph import load_application
from shedlight.runlog import (
    DecisionRecord,
    MicroBatchRecord,
    RunHeader,
    header_of,
    record_of,
    run_row,
)
from shedlight.runlog.records import OperatorRecord
from tests.runlog.logs import batch, decision

APPLICATION = Path(__file__).parents[2] / "examples/overload/app.yaml"


def test_a_micro_batch_is_read():
    """All that the log of a run has today."""
    row = batch(7.5, kept=40, refused={"payments": 2}, late={"flows": 1})

    record = record_of(json.dumps(row))

    assert isinstance(record, MicroBatchRecord)
    assert (record.time, record.node, record.kept, record.shed) == (7.5, "edge", 40, 60)
    assert record.latency == {"mean": 1.0, "p50": 1.0, "p95": 2.0, "p99": 3.0}
    assert record.patterns["flows.P"].partial_matches == 4
    assert (record.refused, record.late) == ({"payments": 2}, {"flows": 1})


def test_events_of_no_use_are_not_shed_if_the_log_tells_them_apart():
    """100 events, 70 of use, 40 kept: 30 were shed."""
    record = record_of(json.dumps(batch(7.5, kept=40, relevant_events=70)))

    assert isinstance(record, MicroBatchRecord)
    assert record.shed == 30


def test_what_is_missing_has_a_default():
    """A log of another version can be read."""
    assert record_of('{"kind":"batch","time":5,"node":"a"}') == MicroBatchRecord(
        time=5.0, node="a"
    )
    assert record_of('{"kind":"decision","time":5}') == DecisionRecord(time=5.0)
    assert record_of('{"kind":"run","time":5}') == RunHeader(time=5.0)


def test_what_has_the_wrong_form_is_missing():
    """Numbers that are none, and things that are something else."""
    row = {"kind": "batch", "time": 5, "node": "a", "events": "many", "seconds": True}
    row |= {"latency": [1], "patterns": {"p": 3}, "kept": -4, "lag": float("nan")}

    record = record_of(json.dumps(row))

    assert isinstance(record, MicroBatchRecord)
    assert (record.events, record.seconds, record.latency, record.kept) == (0, 0.0, {}, 0)
    assert record.lag is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "3",
        "{}",
        '{"kind":3}',
        '{"kind":"batch","time":5}',
        '{"kind":"decision"}',
        '{"kind":"decision","time":1e999}',
        '{"kind":"decision","time":-5}',
        '{"kind":"batch","time":5,"no',
        "[" * 100_000,
    ],
)
def test_what_is_no_record_is_an_error(line):
    """Nothing is made of half a line."""
    with pytest.raises(ValueError, match=r"."):
        record_of(line)


def test_a_kind_that_is_not_known_is_no_error():
    """Later versions may write more."""
    assert record_of('{"kind":"checkpoint"}') is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = sorted(batch(1.0) | decision(1.0) | {"nodes": 0, "operators": 0, "sinks": 0, "plan": 0})


@given(
    st.sampled_from(["run", "batch", "decision"]),
    st.dictionaries(st.sampled_from(NAMES), json_values),
)
def test_no_value_in_a_record_does_harm(kind, values):
    """With a time and a node it is a record, whatever else there is."""
    row = values | {"kind": kind, "time": 5.0, "node": "a"}

    assert record_of(json.dumps(row)) is not None


def test_the_first_record_says_what_is_run():
    """What `run_row` writes is what is read."""
    application = load_application(APPLICATION).application

    record = record_of(json.dumps(run_row(application, 5.0, version="0.1")))

    assert isinstance(record, RunHeader)
    assert record.bounds == {"edge": 10.0, "core": None}
    assert record.operators["flows"] == OperatorRecord(
        "edge", ("payments",), ("Passed", "Skimmed")
    )
    assert record.sinks == {"mules": "cases.Mule", "rings": "cases.Ring"}
    assert header_of(application, 5.0).bounds == record.bounds
