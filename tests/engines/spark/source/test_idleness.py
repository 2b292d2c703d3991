"""When shards are sent watermarks of idle sources: by the clock, and never too early."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.engines.spark.source.arrival import ArrivalStats
from shedlight.engines.spark.source.idleness import IdlenessTracker
from shedlight.engines.spark.source.watermark_files import SourceWatermark
from shedlight.engines.spark.support.run_clock import RunClock
from shedlight.graph import Source
from shedlight.matching.operators.reorder import NEVER

INTERVAL, IDLE, START = 1.0, 10.0, 1000.0


def _source(**given):
    return Source(name="s", format="parquet", path="s", time="at", id=("no",), **given)


def _tracker(**given):
    return IdlenessTracker({"s": _source(**given)}, INTERVAL, IDLE, START)


def _batch(start, latest=None, number=None, stream="s"):
    count = (latest is not None) if number is None else number
    return {("w", stream): ArrivalStats(int(count), latest, None, {})}, start


def _rests():
    return False


def _works():
    return True


def _sent(tracker, times, at_work=_rests):
    return [(now, update) for now in times for update in tracker.updates(now, at_work)]


def test_a_source_without_events_is_idle_in_time():
    """Nobody waits for it for ever; its watermark is not known."""
    sent = _sent(_tracker(), [START + tick / 10 for tick in range(200)])
    assert [update for _, update in sent] == [SourceWatermark("s", NEVER, idle=True)]
    assert IDLE <= sent[0][0] - START <= IDLE + 0.3


def test_shards_are_sent_the_watermark_of_a_source_before_it_is_idle():
    """Its events and its lateness say so: once when it has moved, once when it is idle."""
    tracker = _tracker(lateness=50)
    tracker.on_micro_batch(*_batch(START, latest=1000), START + 2)
    sent = _sent(tracker, [START + 2 + tick / 10 for tick in range(200)])
    assert [update for _, update in sent] == [
        SourceWatermark("s", 950),
        SourceWatermark("s", 950, idle=True),
    ]
    assert sent[0][0] == START + 2
    assert IDLE <= sent[1][0] - (START + 2) <= IDLE + 0.3


def test_events_from_the_future_are_events_without_a_watermark():
    """The source is not idle for them, and its watermark stays where it was."""
    tracker = _tracker()
    tracker.on_micro_batch(*_batch(START, latest=-7), START)
    tracker.on_micro_batch(*_batch(START + 9, number=1), START + 9)
    sent = _sent(tracker, [START + 9 + tick / 10 for tick in range(200)])
    assert [(update.watermark, update.idle) for _, update in sent] == [(-7, False), (-7, True)]
    assert IDLE <= sent[1][0] - (START + 9) <= IDLE + 0.3


def test_a_source_may_have_a_timeout_of_its_own():
    """It counts in place of the one that all have."""
    sent = _sent(_tracker(idle=3_000_000), [START + tick / 10 for tick in range(60)])
    assert 3 <= sent[0][0] - START <= 3.3


def test_a_source_with_events_is_never_idle():
    """However long it runs; shards whose keys have no events hear of it once in an interval."""
    tracker, sent = _tracker(), []
    for tick in range(300):
        now = START + tick / 2
        tracker.on_micro_batch(*_batch(now, latest=tick), now)
        sent += tracker.updates(now, _rests)
    assert sent == [SourceWatermark("s", tick) for tick in range(0, 300, 2)]


def test_no_source_is_idle_while_a_micro_batch_is_under_way():
    """What has come since it began is not known, however long it takes."""
    assert not _sent(_tracker(), [START + second for second in range(100)], _works)


def test_what_a_micro_batch_did_not_find_had_not_come_when_it_began():
    """Its start counts as a look, also while the next one is under way."""
    tracker = _tracker()
    tracker.on_micro_batch(*_batch(START, number=0), START)  # the first of a query may be old
    tracker.on_micro_batch(*_batch(START + IDLE, number=0), START + 60)
    assert tracker.updates(START + 60, _works) == [SourceWatermark("s", NEVER, idle=True)]


def test_a_source_that_was_idle_is_sent_anew_when_it_has_had_events():
    """It wakes up by its events, and falls idle again."""
    tracker = _tracker()
    first = _sent(tracker, [START + tick for tick in range(20)])
    tracker.on_micro_batch(*_batch(START + 20, latest=7), START + 20)
    second = _sent(tracker, [START + 20 + tick for tick in range(20)])
    assert [update.idle for _, update in first] == [True]
    assert [(update.watermark, update.idle) for _, update in second] == [(7, False), (7, True)]


def test_streams_that_are_no_sources_are_nothing_to_it():
    """Complex events of other nodes have watermarks of their own."""
    tracker = _tracker()
    tracker.on_micro_batch(*_batch(START, latest=5, stream="w.P"), START)
    assert [
        update.watermark for _, update in _sent(tracker, [START + 5, START + 50, START + 51])
    ] == [NEVER]


@given(
    st.lists(
        st.tuples(st.floats(0.05, 30), st.booleans(), st.none() | st.integers(0, 100)),
        max_size=40,
    )
)
def test_watermarks_that_are_sent_never_fall_and_were_all_observed(steps):
    """Whatever comes when: no watermark is above that of the events, or falls."""
    tracker, now, observed, last = _tracker(), START, NEVER, NEVER
    for wait, at_work, latest in steps:
        now += wait
        if latest is not None:
            tracker.on_micro_batch(*_batch(now, latest=latest), now)
            observed = max(observed, latest)
        for update in tracker.updates(now, _works if at_work else _rests):
            assert last <= update.watermark <= observed
            last = update.watermark


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_a_wall_clock_that_is_set_does_not_freeze_idleness(step):
    """It is set while a micro-batch runs that finds nothing; the source is idle in time."""
    now, offset = [START], [1_000_000.0]
    clock = RunClock(lambda: now[0] + offset[0], lambda: now[0])
    tracker, sent = _tracker(), []
    tracker.on_micro_batch(*_batch(START, latest=5), clock.steady())
    for tick in range(300):
        now[0] = START + tick / 10
        if tick == 50:
            began = clock.wall() - 1.0
            offset[0] += step
            arrived, _ = _batch(began, number=0)
            tracker.on_micro_batch(arrived, clock.steady_start(began, 1.0), clock.steady())
        sent += [(clock.steady(), each) for each in tracker.updates(clock.steady(), _rests)]
    assert [update.idle for _, update in sent] == [False, True]
    assert IDLE <= sent[1][0] - START <= IDLE + 0.3


def test_a_micro_batch_began_at_the_latest_so_long_ago_as_it_took():
    """Whatever the wall clock says; that a while passed since its end counts if it says so."""
    wall = [100.0]
    clock = RunClock(lambda: wall[0], lambda: 50.0)
    assert clock.steady_start(97.5, 2.0) == 47.5
    wall[0] = 40.0
    assert clock.steady_start(97.5, 2.0) == 48.0


def test_a_query_that_was_started_again_has_not_looked_yet():
    """What came while it was down is unread, however long that was, and so it is not idle."""
    tracker = _tracker()
    tracker.on_micro_batch(*_batch(START, latest=7), START + 1)
    assert not _idle(tracker, START + 2, START + 13, _works), "it fails, and waits"
    tracker.restart(START + 13)
    assert not _idle(tracker, START + 13, START + 17)
    assert not _idle(tracker, START + 17, START + 40, _works), "it does again what had failed"
    assert not _idle(tracker, START + 40, START + 40.1), "and has looked for nothing yet"
    tracker.on_micro_batch(*_batch(START + 13, number=0), START + 40.1)
    assert not _idle(tracker, START + 40.1, START + 45)
    tracker.on_micro_batch(*_batch(START + 40.2, latest=9), START + 45)
    (idle,) = _idle(tracker, START + 45, START + 60)
    assert IDLE <= idle - (START + 45) <= IDLE + 0.3


def _idle(tracker, since, until, at_work=_rests):
    """Say when shards were sent that the source is idle."""
    times = [since + tick / 10 for tick in range(round(10 * (until - since)))]
    return [now for now, update in _sent(tracker, times, at_work) if update.idle]
