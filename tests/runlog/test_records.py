"""A line of a log as a value, whatever is in it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.graph import load_application
from shedlight.runlog.records import (
    ClosureRecord,
    DecisionRecord,
    LogFormatError,
    MicroBatchRecord,
    OperatorRecord,
    RunHeader,
    parse_record,
    run_header,
)
from tests.planning.closures import alarms
from tests.runlog.logs import batch, decision

APPLICATION = Path(__file__).parents[2] / "examples/overload/app.yaml"


def test_a_micro_batch_is_read():
    """All that the log of a run has today."""
    row = batch(7.5, kept=40, malformed={"payments": 2}, late={"flows": 1})

    record = parse_record(json.dumps(row))

    assert isinstance(record, MicroBatchRecord)
    assert (record.time, record.node, record.kept, record.shed) == (7.5, "edge", 40, 60)
    assert record.latency == {"mean": 1.0, "p50": 1.0, "p95": 2.0, "p99": 3.0}
    assert record.patterns["flows.P"].partial_matches == 4
    assert (record.malformed, record.late) == ({"payments": 2}, {"flows": 1})


def test_irrelevant_events_are_not_shed_if_the_log_tells_them_apart():
    """100 events, 70 relevant, 40 kept: 30 were shed."""
    record = parse_record(json.dumps(batch(7.5, kept=40, relevant_events=70)))

    assert isinstance(record, MicroBatchRecord)
    assert record.shed == 30


def test_what_is_missing_has_a_default():
    """A log of another version can be read."""
    assert parse_record('{"record":"micro_batch","time":5,"node":"a"}') == MicroBatchRecord(
        time=5.0, node="a"
    )
    assert parse_record('{"record":"decision","time":5}') == DecisionRecord(time=5.0)
    assert parse_record('{"record":"run","time":5}') == RunHeader(time=5.0)


def test_what_has_the_wrong_form_is_missing():
    """Numbers that are none, and things that are something else."""
    row = {"record": "micro_batch", "time": 5, "node": "a", "events": "many", "seconds": True}
    row |= {"latency": [1], "patterns": {"p": 3}, "kept": -4, "lag": float("nan")}

    record = parse_record(json.dumps(row))

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
        '{"record":3}',
        '{"record":"micro_batch","time":5}',
        '{"record":"decision"}',
        '{"record":"decision","time":1e999}',
        '{"record":"decision","time":-5}',
        '{"record":"micro_batch","time":5,"no',
        "[" * 100_000,
    ],
)
def test_what_is_no_record_is_an_error(line):
    """Nothing is made of half a line."""
    with pytest.raises(ValueError, match=r"."):
        parse_record(line)


def test_a_record_type_that_is_not_known_is_no_error():
    """Later versions may write more."""
    assert parse_record('{"record":"checkpoint"}') is None


@pytest.mark.parametrize(
    "line",
    [
        '{"kind":"batch","time":5,"node":"a"}',
        '{"kind":"run","time":5}',
        '{"record":"run","time":5,"format":3}',
    ],
)
def test_a_record_of_another_format_is_told_apart(line):
    """Its keys have other names, and nothing is made of it."""
    with pytest.raises(LogFormatError):
        parse_record(line)


def test_what_is_malformed_takes_nothing_else_with_it():
    """In nested values too: the rest of a list, of a pattern and of its types is read."""
    row = batch(5.0, patterns={"p": {"kept": 3, "matches": "x", "types": {"a": 1, "b": -1}}})
    record = parse_record(json.dumps(row))

    assert isinstance(record, MicroBatchRecord)
    assert (record.patterns["p"].kept, record.patterns["p"].matches) == (3, 0)
    assert record.patterns["p"].types == {"a": 1}
    header = parse_record('{"record":"run","time":5,"sources":["a",1,2,"b"],"timed":0}')
    assert isinstance(header, RunHeader)
    assert (header.sources, header.timed) == (["a", "b"], True)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = sorted(
    batch(1.0) | decision(1.0) | {"bounds": 0, "operators": 0, "sinks": 0, "plan": 0}
)


@given(
    st.sampled_from(["run", "micro_batch", "decision", "override"]),
    st.dictionaries(st.sampled_from(NAMES), json_values),
)
def test_no_value_in_a_record_does_harm(record_type, values):
    """With a time and a node it is a record, whatever else there is."""
    row = values | {"record": record_type, "time": 5.0, "node": "a"}

    assert parse_record(json.dumps(row)) is not None


def test_the_first_record_says_what_is_run():
    """What `run_header` writes is what is read."""
    application = load_application(APPLICATION).application

    record = parse_record(run_header(application, 5.0, version="0.1").model_dump_json())

    assert isinstance(record, RunHeader)
    assert record.bounds == {"edge": 3.0, "core": None}
    assert record.operators["flows"] == OperatorRecord(
        node="edge", inputs=["payments"], patterns=["Passed", "Skimmed"]
    )
    assert record.sinks == {"mules": "cases.Mule", "rings": "cases.Ring"}
    assert record == run_header(application, 5.0, version="0.1")


def test_the_header_has_the_protected_closures():
    """By their watchers, with the key if they are shed by one."""
    plain, keyed = (run_header(alarms(keyed=each), 5.0).closures for each in (False, True))

    assert plain["w2.alarm"] == ClosureRecord(watches=["w1.Q"], members=["w1.Q"])
    assert keyed["w2.alarm"] == ClosureRecord(
        watches=["w1.Q"], members=["w1.Q", "w1.P"], key="host"
    )
    assert run_header(load_application(APPLICATION).application, 5.0).closures == {}
