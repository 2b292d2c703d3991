"""One run at a time has a checkpoint that is in no local folder."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest

from shedlight.engines.spark.support.lease import LeaseTimes, hold_lease, this_holder
from shedlight.engines.spark.support.storage import replace_file
from shedlight.errors import StateError

QUICK = LeaseTimes(renew=0.05, take_over=1.0, poll=0.02)
PATIENCE_S = 20.0


def _elsewhere(owner):
    """Have an owner be of a computer of which nothing is known here."""
    return replace(owner, computer="another")


def test_a_second_run_is_refused_while_the_first_goes_on(tmp_path):
    """It sees that the first renews its lease, and says whose it is."""
    file = tmp_path / "run" / "lock"
    with (
        hold_lease(file, _elsewhere(this_holder(os.getpid())), QUICK),
        pytest.raises(StateError, match=rf"in use by process {os.getpid()} on"),
        hold_lease(file, this_holder(os.getpid()), QUICK),
    ):
        pass


def test_who_ends_lets_the_next_begin_at_once(tmp_path):
    """Nothing is left to wait for."""
    file = tmp_path / "lock"
    with hold_lease(file, this_holder(os.getpid()), QUICK):
        assert file.exists()
    assert not file.exists()
    with hold_lease(file, this_holder(os.getpid()), replace(QUICK, take_over=1000.0)):
        pass


@pytest.mark.skipif(not this_holder(1).computer, reason="processes are not known to be of here")
def test_a_run_whose_writer_is_gone_is_not_waited_for(tmp_path):
    """If it had its number on this computer, in this container."""
    file = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    replace_file(file, json.dumps({**asdict(this_holder(ended.pid)), "beat": 3}))
    with hold_lease(file, this_holder(os.getpid()), replace(QUICK, take_over=1000.0)) as lease:
        lease.check()


def test_a_run_elsewhere_that_says_nothing_is_taken_over(tmp_path):
    """After the time that it has; it need not have the clock of this computer."""
    file = tmp_path / "lock"
    silent = _elsewhere(this_holder(os.getpid()))
    replace_file(file, json.dumps({**asdict(silent), "beat": 3}))
    start = time.monotonic()
    with hold_lease(file, this_holder(os.getpid()), replace(QUICK, take_over=0.3)) as lease:
        assert time.monotonic() - start >= 0.3
        lease.check()


def test_a_run_that_was_taken_over_says_so_and_leaves_the_other_alone(tmp_path, caplog):
    """As one that was suspended for long."""
    file = tmp_path / "lock"
    with hold_lease(file, this_holder(os.getpid()), QUICK) as lease:
        other = json.dumps(
            {"name": "process 7 on b", "computer": "", "writer": 7, "token": "b"}
        )
        over = time.monotonic() + PATIENCE_S
        while time.monotonic() < over and not caplog.records:
            replace_file(file, other)
            time.sleep(0.02)
        with pytest.raises(StateError, match=r"has lost its checkpoint .* to process 7 on b"):
            lease.check()
    assert file.read_text() == other


def test_a_lease_that_nobody_can_read_is_waited_for(tmp_path):
    """It may be one of a version to come."""
    file = tmp_path / "lock"
    file.write_text("{")
    with hold_lease(file, this_holder(os.getpid()), replace(QUICK, take_over=0.1)) as lease:
        lease.check()
