"""When groups are told of silent sources: by the clock, and never too early."""

from hypothesis import given
from hypothesis import strategies as st

from shedlight.engines.spark.source.arrival import ArrivalStats
from shedlight.engines.spark.source.idleness import IdlenessTracker
from shedlight.engines.spark.source.watermark_files import SourceWatermark
from shedlight.engines.spark.support.micro_batch import MicroBatchReport
from shedlight.graph import Source
from shedlight.matching.operators.reorder import NEVER

PULSE, IDLE, START = 1.0, 10.0, 1000.0


def _source(**given):
    return Source(name="s", format="parquet", path="s", time="at", id=("no",), **given)


def _silence(**given):
    return IdlenessTracker({"s": _source(**given)}, PULSE, IDLE, START)


def _batch(start, latest=None, number=None, stream="s"):
    count = (latest is not None) if number is None else number
    arrived = {("w", stream): ArrivalStats(int(count), latest, None, {})}
    return MicroBatchReport(
        node="n", number=0, start=start, seconds=0.1, arrived=arrived, passed={}, shards=()
    )


def _rests():
    return False


def _works():
    return True


def _told(silence, times, at_work=_rests):
    return [(now, mark) for now in times for mark in silence.marks(now, at_work)]


def test_a_source_that_never_spoke_is_idle_in_time():
    """Nobody waits for it for ever; how far it is nobody knows."""
    told = _told(_silence(), [START + tick / 10 for tick in range(200)])
    assert [mark for _, mark in told] == [SourceWatermark("s", NEVER, idle=True)]
    assert IDLE <= told[0][0] - START <= IDLE + 0.3


def test_groups_are_told_how_far_a_source_is_before_it_is_idle():
    """Its events and its lateness say so: once by the pulse, once when it is idle."""
    silence = _silence(lateness=50)
    silence.hear(_batch(START, latest=1000), START + 2)
    told = _told(silence, [START + 2 + tick / 10 for tick in range(200)])
    assert [mark for _, mark in told] == [
        SourceWatermark("s", 950),
        SourceWatermark("s", 950, idle=True),
    ]
    assert PULSE <= told[0][0] - (START + 2) <= PULSE + 0.3
    assert IDLE <= told[1][0] - (START + 2) <= IDLE + 0.3


def test_a_source_says_itself_when_it_is_idle():
    """What it says counts in place of what all do."""
    told = _told(_silence(idle=3_000_000), [START + tick / 10 for tick in range(60)])
    assert 3 <= told[0][0] - START <= 3.3


def test_a_source_that_speaks_is_never_idle():
    """However long it runs, if it is heard more often than the pulse."""
    silence = _silence()
    for tick in range(300):
        now = START + tick / 2
        silence.hear(_batch(now, latest=tick), now)
        assert silence.marks(now, _rests) == []


def test_nobody_is_silent_while_a_micro_batch_is_under_way():
    """What has come since it began is not known, however long it takes."""
    assert not _told(_silence(), [START + second for second in range(100)], _works)


def test_what_a_micro_batch_did_not_find_had_not_come_when_it_began():
    """Its start counts as a look, also while the next one is under way."""
    silence = _silence()
    silence.hear(_batch(START + IDLE, number=0), START + 60)
    assert silence.marks(START + 60, _works) == [SourceWatermark("s", NEVER, idle=True)]


def test_one_that_was_idle_is_told_of_anew_when_it_has_spoken():
    """It wakes up by its events, and falls silent again."""
    silence = _silence()
    first = _told(silence, [START + tick for tick in range(20)])
    silence.hear(_batch(START + 20, latest=7), START + 20)
    second = _told(silence, [START + 20 + tick for tick in range(20)])
    assert [mark.idle for _, mark in first] == [True]
    assert [(mark.watermark, mark.idle) for _, mark in second] == [(7, False), (7, True)]


def test_streams_that_are_no_sources_are_nothing_to_it():
    """Complex events of other nodes have marks of their own."""
    silence = _silence()
    silence.hear(_batch(START, latest=5, stream="w.P"), START)
    assert [
        mark.watermark for _, mark in _told(silence, [START + 5, START + 50, START + 51])
    ] == [NEVER]


@given(
    st.lists(
        st.tuples(st.floats(0.05, 30), st.booleans(), st.none() | st.integers(0, 100)),
        max_size=40,
    )
)
def test_frontiers_that_are_told_never_fall_and_were_all_heard(steps):
    """Whatever comes when: no mark says more than the events did, nor less than one before."""
    silence, now, heard, last = _silence(), START, NEVER, NEVER
    for wait, at_work, latest in steps:
        now += wait
        if latest is not None:
            silence.hear(_batch(now, latest=latest), now)
            heard = max(heard, latest)
        for mark in silence.marks(now, _works if at_work else _rests):
            assert last <= mark.watermark <= heard
            last = mark.watermark
