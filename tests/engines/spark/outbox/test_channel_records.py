"""The records of a channel: what a shard has said, as parts."""

import json
import random

import pyarrow as pa
import pytest

from shedlight.engines.spark.codec.decode import decode_table
from shedlight.engines.spark.codec.encode import encode_table
from shedlight.engines.spark.outbox import channel_records as channel
from shedlight.engines.spark.support.arrival_sketch import ARRIVAL


def _events(first, number):
    ids = [f"{n:032x}" for n in range(first, first + number)]
    return pa.table({"id": ids, "time": list(range(first, first + number))})


def _row(name, arrival=1, **more):
    row = {"operator": "w", "name": name, "origin": 3, "watermark": 0, "idle": False}
    return {**row, "steps": None, "number": 0, "events": None, ARRIVAL: arrival, **more}


def _found(first, number, arrival=1):
    data = encode_table(_events(first, number)).to_pybytes()
    return _row("P", arrival, number=number, events=data)


def test_what_a_shard_said_comes_in_parts():
    """The last part has the watermark; all say where their shard is after them."""
    steps = [json.dumps({"w.P": [[0, 5, 0.5]]}), json.dumps({"w.P": [[5, 9, 0.2]]})]
    rows = [
        _found(0, 2),
        _row("", 1, watermark=5, steps=steps[0]),
        _found(2, 1, 2),
        _row("", 2, watermark=9, steps=steps[1], idle=True),
    ]

    heads, values = channel.parts_of(rows, 7)

    assert [(head["part"], head["parts"], head["batch"]) for head in heads] == [
        (0, 3, 7),
        (1, 3, 7),
        (2, 3, 7),
    ]
    assert [(head["name"], head["number"]) for head in heads] == [("P", 2), ("P", 1), ("", 0)]
    assert {(head["watermark"], head["idle"], head["origin"]) for head in heads} == {
        (9, True, 3)
    }
    assert [head.get("steps") for head in heads[:2]] == [None, None]
    assert json.loads(heads[2]["steps"]) == {"w.P": [[0, 5, 0.5], [5, 9, 0.2]]}
    tables = [decode_table(value) for value in values[:2]]
    assert pa.concat_tables(tables)["time"].to_pylist() == [0, 1, 2]
    assert values[2] == b""


def test_an_attempt_that_is_repeated_writes_the_same():
    """Spark gives rows in any order; which part is which must not depend on it."""
    rows = [_found(n, 1, n % 3) for n in range(8)] + [
        _row("", n, watermark=n) for n in range(4)
    ]
    first = channel.parts_of(rows, 0)
    for seed in range(20):
        random.Random(seed).shuffle(rows)
        assert channel.parts_of(rows, 0) == first


@pytest.mark.parametrize("is_idle", [True, False])
def test_the_last_watermark_says_whether_a_shard_is_idle(is_idle):
    """The watermark itself may stay as it was."""
    rows = [
        _row("", 1, watermark=5, idle=not is_idle),
        _row("", 2, watermark=5, idle=is_idle),
    ]
    for each in (rows, rows[::-1]):
        ((head,), _) = channel.parts_of(each, 0)
        assert (head["watermark"], head["idle"]) == (5, is_idle)


def test_many_complex_events_are_divided(monkeypatch):
    """Brokers take records of a megabyte; a single event is not divided, however large."""
    monkeypatch.setattr(channel, "MAX_RECORD_BYTES", 3000)
    heads, values = channel.parts_of([_found(0, 500), _row("", watermark=1)], 0)
    assert len(heads) > 3
    assert max(map(len, values)) <= 3000
    assert sum(head["number"] for head in heads) == 500
    times = [t for value in values[:-1] for t in decode_table(value)["time"].to_pylist()]
    assert times == list(range(500))

    monkeypatch.setattr(channel, "MAX_RECORD_BYTES", 1)
    heads, _ = channel.parts_of([_found(0, 2), _row("", watermark=1)], 0)
    assert [head["number"] for head in heads] == [1, 1, 0]
