"""What fails in the control loop, or cannot be written, does not end a run."""

import logging
import os
import resource
from dataclasses import replace

import pytest

from shedlight.control.controller import ControlSettings
from shedlight.control.replan_trigger import DEFAULT_POLICY
from shedlight.engines.spark.control.event_log import RunLog
from shedlight.engines.spark.control.loop import micro_batch_settings
from shedlight.engines.spark.support.tolerance import FailureLog
from shedlight.errors import StateError
from shedlight.runlog.follow import read_run
from shedlight.runlog.records import run_header
from tests.control.observations import APPLICATION
from tests.engines.spark.control.plant import Plant

BOUNDS = {"busy": 3.0}
OVERLOAD = 60_000.0


def broken_settings() -> ControlSettings:
    """Give settings with which the controller raises a TypeError at every observation."""
    policy = replace(DEFAULT_POLICY, over="no number")  # type: ignore[arg-type]
    return replace(micro_batch_settings(), policy=policy)


def _plant(folder, **given):
    return Plant(folder, {"busy": lambda _: OVERLOAD}, bounds=BOUNDS, **given)


def test_a_controller_that_raises_every_time_keeps_the_plan_and_says_so_once(tmp_path, caplog):
    """Pressure still keeps the bound: it needs no controller."""
    plant = _plant(tmp_path, settings=broken_settings())
    with caplog.at_level(logging.WARNING):
        plant.run(30)
    done = plant.nodes["busy"].done
    assert {one.used.plan for one in done} == {1}
    assert not plant.decisions
    assert min(one.used.pressure for one in done[3:]) < 1
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("the controller failed: TypeError")
    assert caplog.messages[0].endswith("and the next observation tries again")


def test_a_plan_that_cannot_be_written_is_tried_again(tmp_path, caplog):
    """As when the disk is full: the active one stays until there is room."""
    plant = _plant(tmp_path)
    in_the_way = plant.nodes["busy"].planned.plans.folder / "plans" / f".2.npz-{os.getpid()}"
    in_the_way.mkdir()
    with caplog.at_level(logging.WARNING):
        plant.run(10)
    assert {one.used.plan for one in plant.nodes["busy"].done} == {1}
    assert not plant.loop.memory.shares, "it is not remembered as active"
    assert len(caplog.messages) == 1
    in_the_way.rmdir()
    plant.run(10)
    assert plant.nodes["busy"].done[-1].used.plan > 1
    assert plant.loop.memory.shares


def test_a_damaged_checkpoint_ends_the_run():
    """What goes on from there would be wrong."""
    with pytest.raises(StateError), FailureLog().tolerate("the controller", "it goes on"):
        raise StateError("the plan is damaged")


def test_each_kind_of_failure_is_said_once(caplog):
    """By where it was, and which exception."""
    failures = FailureLog()
    for error in (ValueError("a"), ValueError("b"), KeyError("c")):
        for where in ("here", "there"):
            with failures.tolerate(where, "it goes on"):
                raise error
    assert [m.split(":")[0] for m in caplog.messages] == ["here failed", "there failed"] * 2


def test_a_log_without_room_loses_whole_records(tmp_path, caplog):
    """A line is there or not: the next one does not go on in its middle."""
    path, header = tmp_path / "log.jsonl", run_header(APPLICATION, 1.0, version="9", timed=True)
    log = RunLog(path)
    log.write(header)
    size = path.stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + size // 2, limits[1]))
    try:
        log.write(header)
        log.write(header)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.stat().st_size == size
    log.write(header)
    log.close()
    run = read_run(tmp_path)
    assert (len(run.records), run.skipped) == (2, 0)
    assert [m.split(" failed")[0] for m in caplog.messages] == [f"writing to {path}"]


def test_a_log_that_cannot_be_made_does_not_end_a_run(tmp_path, caplog):
    """It begins when it can."""
    (tmp_path / "state").write_text("a file, and no folder")
    log = RunLog(tmp_path / "state" / "log.jsonl")
    header = run_header(APPLICATION, 1.0, version="9", timed=True)
    log.write(header)
    assert len(caplog.messages) == 1
    (tmp_path / "state").unlink()
    log.write(header)
    log.close()
    assert len(read_run(tmp_path / "state").records) == 1
