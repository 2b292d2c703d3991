"""Reading logs: finished, broken, growing, cut off, replaced."""

import os

import pytest

from shedlight.errors import InputError
from shedlight.runlog import follow
from shedlight.runlog.follow import Follower, read_run
from tests.runlog.logs import batch, decision, header, text


@pytest.fixture
def log(tmp_path):
    """Have a place for a log."""
    return tmp_path / "log.jsonl"


def new(follower):
    """Give what was written since the last call."""
    return [record for chunk in follower.read_chunks() for record in chunk]


def times(records):
    """Say when the records were written."""
    return [one.time for one in records]


def test_a_log_is_read(log):
    """Records are in order and by type."""
    log.write_text(text(header(1.0), batch(2.0), decision(3.0), batch(4.0)))

    run = read_run(log)

    assert times(run.records) == [1, 2, 3, 4]
    assert (times(run.headers), times(run.decisions)) == ([1], [3])
    assert (run.skipped, run.unknown) == (0, 0)


def test_a_half_written_last_line_is_skipped_and_counted(log):
    """A run may be writing it right now."""
    log.write_text(text(batch(2.0)) + text(batch(4.0))[:40])

    run = read_run(log)

    assert times(run.records) == [2]
    assert run.skipped == 1


def test_a_last_line_without_an_end_counts_if_it_is_whole(log):
    """Some tools take the last end of line away."""
    log.write_text(text(batch(2.0), batch(4.0)).rstrip("\n"))

    assert times(read_run(log).records) == [2, 4]


def test_bad_lines_between_good_ones_are_counted(log):
    """Also bytes that are no text; blank lines are nothing."""
    good = text(batch(2.0)).encode()
    log.write_bytes(good + b"\xff\xfe\x00\n\nnot json\n" + good + b'{"record":"new"}\n')

    run = read_run(log)

    assert times(run.records) == [2, 2]
    assert (run.skipped, run.unknown) == (2, 1)


def test_a_log_is_found_in_its_checkpoint(log):
    """A run writes it there unless --log names another."""
    log.write_text(text(batch(2.0)))

    assert times(read_run(log.parent).records) == [2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it is empty: the run has written nothing yet"),
        ("a,b\n1,2\n", "it is no log of a run: none of its 2 lines"),
        ('{"record":"other"}\n', "it is no log of a run: none of its 1 lines"),
        ('{"kind":"batch","time":5}\n', "its records are not of log format 2"),
    ],
)
def test_what_is_no_log_is_said(log, content, message):
    """With what to give instead."""
    log.write_text(content)

    with pytest.raises(InputError, match=message):
        read_run(log)


def test_what_is_not_there_is_said(log):
    """A file, and a log in a folder."""
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_run(log)
    with pytest.raises(InputError, match="there is no log in it"):
        read_run(log.parent)


def test_a_line_that_is_too_long_is_not_kept_in_memory(log, monkeypatch):
    """What follows it is read."""
    monkeypatch.setattr(follow, "_MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(follow, "_CHUNK_BYTES", 100)
    log.write_text("x" * 5000 + "\n" + text(batch(2.0)))

    run = read_run(log)

    assert times(run.records) == [2]
    assert run.skipped == 1


def test_records_are_given_as_the_file_grows(log):
    """Before it is there, nothing; half a line waits for its other half."""
    follower = Follower(log)
    assert new(follower) == []

    line = text(batch(2.0))
    with log.open("w") as file:
        file.write(text(batch(1.0)) + line[:30])
        file.flush()
        assert times(new(follower)) == [1]
        assert new(follower) == []

        file.write(line[30:])
        file.flush()
        assert times(new(follower)) == [2]

    assert follower.parser.skipped == 0
    follower.close()


def test_a_file_that_is_cut_off_is_read_from_its_beginning(log):
    """Shorter than before, or as long but with another beginning."""
    log.write_text(text(batch(1.0), batch(2.0)))
    follower = Follower(log)
    new(follower)

    log.write_text(text(batch(3.0)))
    assert times(new(follower)) == [3]

    log.write_text(text(batch(4.0), batch(5.0), batch(6.0)))
    assert times(new(follower)) == [4, 5, 6]
    follower.close()


def test_nothing_is_lost_when_a_file_is_replaced(log):
    """What was written to the old one before it was moved away, and all of the new one."""
    log.write_text(text(batch(1.0)))
    follower = Follower(log)
    new(follower)

    with log.open("a") as file:
        file.write(text(batch(2.0)))
    os.replace(log, log.with_suffix(".1"))  # noqa: PTH105
    assert times(new(follower)) == [2]

    log.write_text(text(batch(3.0)))
    assert times(new(follower)) == [3]
    follower.close()


@pytest.mark.parametrize("moved", [True, False])
def test_half_a_line_is_not_joined_with_what_comes_in_its_place(log, moved):
    """A run was killed while it wrote; the next one begins a new file, or the same anew."""
    log.write_text(text(batch(1.0)) + text(batch(2.0))[:30])
    follower = Follower(log)
    new(follower)

    if moved:
        os.replace(log, log.with_suffix(".1"))  # noqa: PTH105
    log.write_text(text(header(3.0), batch(4.0)))

    assert times(new(follower)) == [3, 4]
    assert follower.parser.skipped == 1
    follower.close()
