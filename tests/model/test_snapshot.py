"""Snapshots: what is read from JSON, and the messages if that cannot be used."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.errors import SnapshotError
from shedlight.graph import Stream
from shedlight.model.build import build_model
from shedlight.model.snapshot import MicroBatchCosts, Snapshot
from shedlight.model.snapshot_file import read_snapshot
from tests.graph.applications import loaded, stream
from tests.model.applications import PAPERS, operators, paper, written

APPLICATION = paper()

FULL: dict[str, Any] = {
    **PAPERS,
    "second_moment": {"w2.Q21": 1e-5},
    "backlog": {"edge-2": 1.5},
    "micro_batch": {"edge-2": {"a": 0.2, "b_in": 1e-6}},
    "transport": {"core": 1e-6},
    "calibration": {"w1.Q11": 0.9},
    "event_bytes": {"w1.Q11": 60},
}


def test_the_snapshot_of_the_design_is_read(tmp_path):
    """As it stands there."""
    found = read_snapshot(written(tmp_path, PAPERS), APPLICATION)

    assert found.rates[Stream("s1")] == {"type=0": 40, "type=1": 20, "type=2": 10, "type=3": 10}
    assert found.output_rates == {stream("w1.Q11"): 19.9, stream("w1.Q12"): 6.0}
    assert found.processing_time == {stream("w2.Q21"): 0.002, stream("w2.Q22"): 0.004}


def test_everything_else_may_be_said_too(tmp_path):
    """By pattern or by node."""
    found = read_snapshot(written(tmp_path, FULL), APPLICATION)

    assert found.second_moment == {stream("w2.Q21"): 1e-5}
    assert found.backlog == {"edge-2": 1.5}
    assert found.micro_batch == {"edge-2": MicroBatchCosts(0.2, 1e-6)}
    assert found.transport == {"core": 1e-6}
    assert found.calibration == {stream("w1.Q11"): 0.9}
    assert found.event_bytes == {stream("w1.Q11"): 60}


def test_times_may_be_given_by_type(tmp_path):
    """In any order, with several words in any order."""
    times = {"w2.Q21": {"type=1": 0.001, "type=0": 0.002}}
    found = read_snapshot(written(tmp_path, {**PAPERS, "processing_time": times}), APPLICATION)

    assert found.processing_time == {stream("w2.Q21"): {"type=1": 0.001, "type=0": 0.002}}


TYPES = "known: other, type=0, type=1, type=2, type=3"
PATTERNS = "known: w1.Q11, w1.Q12, w2.Q21, w2.Q22, w3.Q31, w4.Q41"
RATE = "write events per second, a number from 0 on"
TIME = "write seconds per event, a number greater than 0"
WRONG: list[tuple[tuple[Any, ...], str]] = [
    (("rates", "s1", "type=0", -3), f'rates.s1["type=0"] is -3; {RATE}'),
    (("rates", "s1", "type=0", None), f'rates.s1["type=0"] is null; {RATE}'),
    (("rates", "s1", "type=0", "40"), f"rates.s1[\"type=0\"] is the text '40'; {RATE}"),
    (("rates", "s1", "type=0", True), f'rates.s1["type=0"] is true; {RATE}'),
    (("rates", "s1", "type=0", [4]), f'rates.s1["type=0"] is a list; {RATE}'),
    (("rates", "s1", "type=0", {}), f'rates.s1["type=0"] is an object; {RATE}'),
    (("rates", "s1", "type=0", math.nan), f'rates.s1["type=0"] is NaN; {RATE}'),
    (("rates", "s1", "type=0", math.inf), f'rates.s1["type=0"] is Infinity; {RATE}'),
    (("rates", "s1", "type=0", -math.inf), f'rates.s1["type=0"] is -Infinity; {RATE}'),
    (("rates", "s1", "type=0", 10**400), f'rates.s1["type=0"] is Infinity; {RATE}'),
    (
        ("rates", "s1", "typ=0", 3),
        f"rates.s1 has the unknown type 'typ=0'; {TYPES}; did you mean 'type=0'?",
    ),
    (
        ("rates", "s1", "type=4", 3),
        f"rates.s1 has the unknown type 'type=4'; {TYPES}; did you mean 'type=3'?",
    ),
    (
        ("rates", "s1", 3),
        'rates.s1 is 3, not an object; write {"type=0": ...} with events per second by type',
    ),
    (
        ("rates", "s3", {}),
        "rates names the unknown source 's3'; known: s1, s2",
    ),
    (
        ("rates", "w1.Q13", {}),
        f"rates names the unknown pattern 'w1.Q13'; {PATTERNS}; did you mean 'w1.Q12'?",
    ),
    (("rates", []), 'rates is a list, not an object; write {"source": ...}'),
    (
        ("rates", {"s1": {}}),
        (
            "rates has nothing for the source 's2'; add rates.s2 with events per second by "
            'type, such as {"type=0": 10}'
        ),
    ),
    (
        ("rate", {}),
        (
            "the snapshot has no 'rate'; known: backlog, calibration, event_bytes, "
            "micro_batch, output_rates, processing_time, rates, second_moment, strata, "
            "transport; did you mean 'rates'?"
        ),
    ),
    (
        ("event_bytes", "w1.Q11", -1),
        'event_bytes["w1.Q11"] is -1; write bytes per complex event, a number from 0 on',
    ),
    (("output_rates", "w1.Q11", -1), f'output_rates["w1.Q11"] is -1; {RATE}'),
    (("output_rates", "s1", 1), f"output_rates names the unknown pattern 's1'; {PATTERNS}"),
    (("processing_time", "w2.Q21", 0), f'processing_time["w2.Q21"] is 0; {TIME}'),
    (("processing_time", "w2.Q21", -1), f'processing_time["w2.Q21"] is -1; {TIME}'),
    (("processing_time", "w2.Q21", None), f'processing_time["w2.Q21"] is null; {TIME}'),
    (
        ("processing_time", "w2.Q", 1),
        f"processing_time names the unknown pattern 'w2.Q'; {PATTERNS}; did you mean 'w2.Q22'?",
    ),
    (
        ("processing_time", "w2.Q21", {"type=0": 0}),
        f'processing_time["w2.Q21"]["type=0"] is 0; {TIME}',
    ),
    (
        ("processing_time", "w2.Q21", {"source=Q11": 1}),
        f"processing_time[\"w2.Q21\"] has the unknown type 'source=Q11'; {TYPES}",
    ),
    (
        ("second_moment", "w2.Q21", 0),
        (
            'second_moment["w2.Q21"] is 0; write squared seconds per event, '
            "a number greater than 0"
        ),
    ),
    (
        ("second_moment", "w1.Q11", 1),
        'second_moment["w1.Q11"] is of no use without processing_time["w1.Q11"]; add that too',
    ),
    (
        ("backlog", "edge-2", -1),
        "backlog.edge-2 is -1; write busy seconds that are queued, a number from 0 on",
    ),
    (
        ("backlog", "edge2", 1),
        (
            "backlog names the unknown node 'edge2'; known: core, edge-1, edge-2; "
            "did you mean 'edge-2'?"
        ),
    ),
    (
        ("micro_batch", "core", 1),
        'micro_batch.core is 1, not an object; write {"a": seconds, "b_in": seconds}',
    ),
    (
        ("micro_batch", "core", {"a": 1}),
        'micro_batch.core lacks \'b_in\'; write {"a": seconds, "b_in": seconds}',
    ),
    (("micro_batch", "core", {"a": 1, "b": 1}), "micro_batch.core has no 'b'; known: a, b_in"),
    (
        ("micro_batch", "core", {"a": -1, "b_in": 1}),
        "micro_batch.core.a is -1; write seconds, a number from 0 on",
    ),
    (("transport", "core", -1), "transport.core is -1; write seconds, a number from 0 on"),
    (
        ("calibration", "w1.Q11", 0.001),
        (
            'calibration["w1.Q11"] is 0.001; write matches measured over matches modelled, '
            "a number from 0.01 to 100"
        ),
    ),
    (
        ("events_per_window", {}),
        (
            "the snapshot has no 'events_per_window'; known: backlog, calibration, "
            "event_bytes, micro_batch, output_rates, processing_time, rates, second_moment, "
            "strata, transport"
        ),
    ),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=lambda one: repr(one)[:60])
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, change, message):
    """With the file, the place in it, what is wrong and what to do."""
    *keys, last = change
    value = copy.deepcopy(FULL)
    place = value
    for key in keys[:-1]:
        place = place.setdefault(key, {})
    place[keys[-1]] = last
    path = written(tmp_path, value)

    with pytest.raises(SnapshotError) as error:
        read_snapshot(path, APPLICATION)

    assert str(error.value) == f"{path}: {message}"


WHOLE = 'write {"rates": {"s1": {"type=0": 10}}}, events per second by source and type'
TEXTS = {
    "": ", line 1, column 1: this is not JSON (expecting value); write an object with names in "
    "double quotes and no comma at its end",
    '{"rates": {},}': ", line 1, column 14: this is not JSON (expecting property name enclosed "
    "in double quotes); write an object with names in double quotes and no comma at its end",
    "[]": f": the snapshot is a list, not an object; {WHOLE}",
    "null": f": the snapshot is null, not an object; {WHOLE}",
    "{}": f": the snapshot lacks 'rates'; {WHOLE}",
    '{"file": "x"}': ": the snapshot has no 'file'; leave it out",
    '{"rates": {"s1": {"type=0": 1, "type=1": 1, "type=0": 2}}}': (
        ": rates.s1 has 'type=0' twice; leave one of them out"
    ),
    '{"rates": {"s1": {}, "s1": {}}}': ": rates has 's1' twice; leave one of them out",
    '{"rates": {}, "rates": {}}': ": the snapshot has 'rates' twice; leave one of them out",
    '{"rates": {"s1": {"type=0": 1e999}, "s2": {}}}': (
        f': rates.s1["type=0"] is Infinity; {RATE}'
    ),
    "[" * 100_000: ": too much stands inside each other; a snapshot has at most five levels",
}


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:30]))
def test_what_is_no_snapshot_is_an_error(tmp_path, text):
    """Nor is one that says two things of one place."""
    path = written(tmp_path, text)

    with pytest.raises(SnapshotError) as error:
        read_snapshot(path, APPLICATION)

    assert str(error.value) == f"{path}{TEXTS[text]}"


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    """It may be missing, a folder, or no text."""
    odd = tmp_path / "odd.json"
    odd.write_bytes(b'{"rates":\n\xff}')

    for path, problem in (
        (tmp_path / "none.json", ": the file cannot be read (No such file or directory); name"),
        (tmp_path, ": the file cannot be read (Is a directory); name"),
        (odd, ", line 2: this is not UTF-8; save the file as UTF-8"),
    ):
        with pytest.raises(SnapshotError) as error:
            read_snapshot(path, APPLICATION)
        assert str(error.value).startswith(f"{path}{problem}")


def test_a_source_that_nobody_reads_needs_no_rates(tmp_path):
    """It is a warning of its own; what is said of it is not looked at."""
    second = "sources:\n  s2: {format: rate, time: ts, id: key}"
    application = loaded(("sources:", second))

    alone = read_snapshot(written(tmp_path, {"rates": {"s1": {}}}), application)
    both = read_snapshot(written(tmp_path, {"rates": {"s1": {}, "s2": {"x": 1}}}), application)

    assert set(alone.rates) == {Stream("s1")}
    assert build_model(application, both).operators["w1"].sources["s1"].sum() == 0


def test_a_label_belongs_to_any_reader_that_knows_it(tmp_path):
    """Two operators may ask different things of one source."""
    application = operators(
        w1="s1: SELECT * WHERE A.type = 0", w2="s1: SELECT * WHERE A.cpu > 0.5"
    )
    rates = {"s1": {"type=0": 3, "cpu > 0.5": 4, "other": 5}}
    assert read_snapshot(written(tmp_path, {"rates": rates}), application)

    rates["s1"]["type=0 & cpu > 0.5"] = 1

    with pytest.raises(SnapshotError, match=r"the unknown type 'type=0 & cpu > 0\.5'"):
        read_snapshot(written(tmp_path, {"rates": rates}), application)


def test_a_snapshot_made_in_python_is_checked_alike():
    """Its numbers when it is made, its names when it is used."""
    with pytest.raises(SnapshotError, match=r'the snapshot: rates\.s1\["type=0"\] is NaN; '):
        Snapshot(rates={Stream("s1"): {"type=0": math.nan}})

    with pytest.raises(SnapshotError, match="the snapshot: rates has nothing for the source"):
        build_model(APPLICATION, Snapshot(rates={}))


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(["x", "type=0"])
)
names = st.sampled_from(
    [*FULL, "s1", "s2", "w1.Q11", "w2.Q21", "edge-2", "type=0", "a", "b_in"]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@given(value=values, section=names, key=names)
def test_whatever_it_says_it_is_used_or_explained(tmp_path_factory, value, section, key):
    """No other error than the one for users comes out, and a model of what is used."""
    for document in (value, {**FULL, section: value}, {**FULL, section: {key: value}}):
        path = written(tmp_path_factory.getbasetemp(), json.dumps(document))
        message = what_is_wrong(path)
        assert "\n" not in message
        assert not message or message.startswith(str(path))


def what_is_wrong(path: Path) -> str:
    """Use a snapshot, and give the message if that cannot be."""
    try:
        build_model(APPLICATION, read_snapshot(path, APPLICATION))
    except SnapshotError as error:
        return str(error)
    return ""
