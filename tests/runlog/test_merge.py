"""Micro-batch records added up."""

from shedlight.runlog.merge import add_batches
from shedlight.runlog.records import MicroBatchRecord, PatternRecord


def _batch(number, **more):
    pattern = PatternRecord(
        kept=10, seconds=0.5, matches=2, partial_matches=number, types={"a": 7}, offered=12
    )
    given = {
        "time": float(number),
        "node": "n",
        "number": number,
        "seconds": 1.0,
        "events": 100,
        "kept": 10 * number,
        "relevant_events": 50,
        "latency": {"mean": float(number), "p99": 3.0 / number},
        "late": {"w": number},
        "arrived": {"w": {"s": 100}},
        "malformed": {"s": 1},
        "patterns": {"w.P": pattern},
    }
    return MicroBatchRecord(**{**given, **more})


def test_what_is_counted_is_added_and_what_is_is_as_it_was_last():
    """Late events are counted since the checkpoint began; a mean is one over what was kept."""
    total = add_batches(None, _batch(1))
    for number in (2, 3):
        total = add_batches(total, _batch(number))

    assert (total.number, total.seconds, total.events, total.kept) == (3, 3.0, 300, 60)
    assert (total.relevant_events, total.shed) == (150, 90)
    assert total.latency == {"mean": (10 + 40 + 90) / 60, "p99": 3.0}
    assert (total.late, total.malformed) == ({"w": 3}, {"s": 3})
    assert total.arrived == {"w": {"s": 300}}
    pattern = total.patterns["w.P"]
    assert (pattern.kept, pattern.matches, pattern.partial_matches) == (30, 6, 3)
    assert (pattern.seconds, pattern.offered, pattern.types) == (1.5, 36, {})


def test_what_one_of_them_does_not_know_is_not_known():
    """An empty micro-batch has no latency, and changes none."""
    empty = _batch(2, latency={}, kept=0, relevant_events=None, lag=None)
    total = add_batches(add_batches(None, _batch(1, lag=0.5)), empty)
    assert (total.relevant_events, total.latency["mean"], total.lag) == (None, 1.0, 0.5)
