"""Overrides of bounds and weights: applied by the control loop, checked, remembered."""

import json

import pytest

from shedlight.control.override import Override
from shedlight.engines.spark.control.loop import ControlLoop
from shedlight.engines.spark.control.override_store import (
    OVERRIDE,
    OverrideWatcher,
    read_override,
    store_override,
)
from shedlight.errors import InputError
from tests.engines.spark.control.test_loop import BOUND, COST, NODE, World

RATE = 3 / (1.25 * COST)


class Overridden(World):
    """The application of the control loop's tests, with a checkpoint for overrides."""

    def __init__(self, folder):
        super().__init__(folder)
        self.folder, self.outcomes = folder, []
        self.restart()

    def restart(self):
        """Start the loop as a new process would."""
        self.loop = ControlLoop(
            self.application,
            self.nodes,
            overrides=OverrideWatcher(self.folder),
            on_override=self.outcomes.append,
        )
        self.loop.start(self.clock)

    def batches(self, number):
        """Run micro-batches as Live does; give the decisions."""
        found = []
        for _ in range(number):
            self.loop.poll_overrides(self.clock)
            found.append(self.batch(RATE, seconds=0.05)[2])
        return [one for one in found if one is not None]

    def kept(self):
        """Say which share of the offered work is kept."""
        done, _, _ = self.batch(RATE, seconds=0.05)
        return done.kept / done.events


@pytest.fixture
def world(tmp_path):
    """Have an application that sheds and whose plan is settled."""
    world = Overridden(tmp_path)
    world.batches(40)
    return world


def weights(world):
    """Find the weights that the controller plans with."""
    return {name: one.weight for name, one in world.loop.memory.application.sinks.items()}


def test_without_an_override_nothing_changes(world):
    """The plan is the same after some more micro-batches."""
    before = world.loop.memory.shares
    assert all(one.plan is None for one in world.batches(6))
    assert world.loop.memory.shares == before
    assert world.outcomes == []


def test_another_weight_brings_another_plan(world):
    """What the sink gets that is worth more now is shed less."""
    before = {str(s): one.mean for s, one in world.loop.memory.shares.items()}
    store_override(world.folder, Override(weights={"k1": 100.0}))
    assert world.loop.memory.shares  # not before it is seen
    assert weights(world)["k1"] == 1.0
    decisions = world.batches(6)
    after = {str(s): one.mean for s, one in world.loop.memory.shares.items()}
    assert weights(world) == {"k1": 100.0, "k2": 1.0}
    assert after["w2.Q21"] > before["w2.Q21"]
    assert after["w2.Q22"] < before["w2.Q22"]
    (planned,) = (one for one in decisions if one.plan is not None)
    assert planned.reason.startswith("as was asked for, the weight of sink 'k1' is 100; ")


def test_another_bound_is_planned_for_and_kept(world):
    """A micro-batch has to be shorter from then on."""
    before = world.kept()
    store_override(world.folder, Override(bounds={NODE: 2.0}))
    world.batches(25)
    assert world.loop.memory.application.nodes[NODE].bound == 2.0
    assert world.application.nodes[NODE].bound == BOUND  # what the file says stays
    assert world.kept() < before
    done = [world.batch(RATE, seconds=0.05)[0] for _ in range(5)]
    assert all(1.5 * one.seconds < 2.0 for one in done)


def test_it_is_reported_once_with_all_that_is_active(world):
    """And only when it is taken up."""
    store_override(world.folder, Override(bounds={NODE: 3.0}))
    assert world.outcomes == []
    world.batches(5)
    (outcome,) = world.outcomes
    assert outcome.rejected == ""
    assert outcome.active == Override({NODE: 3.0}, {"k1": 1.0, "k2": 1.0})


def test_overrides_add_up_and_outlive_a_restart(world):
    """What was asked for first holds after the second, and in the next process."""
    store_override(world.folder, Override(bounds={NODE: 3.0}))
    world.batches(2)
    store_override(world.folder, Override(weights={"k2": 5.0}))
    world.batches(2)
    world.restart()
    assert world.loop.memory.application.nodes[NODE].bound == 3.0
    assert weights(world)["k2"] == 5.0
    assert len(world.outcomes) == 3


def test_without_the_file_all_is_as_in_the_application(world):
    """An override is taken back by deleting it."""
    store_override(world.folder, Override(weights={"k1": 100.0}))
    world.batches(3)
    (world.folder / OVERRIDE).unlink()
    decisions = world.batches(6)
    assert weights(world)["k1"] == 1.0
    assert any("all is as in the file" in one.reason for one in decisions)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"bounds": {"nobody": 1}}', "there is no node 'nobody'; known: edge-2"),
        ('{"bounds": {"edge-2": 0}}', "must be longer than zero"),
        ('{"weights": {"k1": -1}}', "must be from 0 on"),
        ('{"weights": {"k9": 1}}', "there is no sink 'k9'"),
        ('{"weights": {"k1": NaN}}', "cannot be read as an override"),
        ('{"weights": {"k1": "2"}}', "cannot be read as an override"),
        ("[1]", "cannot be read as an override"),
        ("{", "cannot be read as an override"),
        ("[" * 100_000, "cannot be read as an override"),
    ],
)
def test_what_cannot_be_is_rejected_and_reported(world, text, what):
    """The run goes on as before."""
    before = world.loop.memory.application
    (world.folder / OVERRIDE).write_text(text)
    world.batches(3)
    assert world.loop.memory.application == before
    (outcome,) = world.outcomes
    assert what in outcome.rejected
    assert str(world.folder) not in outcome.rejected


def test_what_cannot_be_read_is_not_replaced(world):
    """A bound that somebody set earlier would be lost; whoever asks gets an error."""
    store_override(world.folder, Override(bounds={NODE: 3.0}))
    world.batches(2)
    text = (world.folder / OVERRIDE).read_text()[:-3]
    (world.folder / OVERRIDE).write_text(text)
    with pytest.raises(InputError, match="cannot be read as an override; delete it"):
        store_override(world.folder, Override(weights={"k1": 2.0}))
    assert (world.folder / OVERRIDE).read_text() == text
    world.batches(2)
    assert world.loop.memory.application.nodes[NODE].bound == 3.0
    assert "cannot be read" in world.outcomes[-1].rejected


def test_what_is_rejected_is_logged_where_nobody_listens(tmp_path, caplog):
    """A run that was started from Python has no other way to say it."""
    (tmp_path / OVERRIDE).write_text("{")
    world = World(tmp_path)
    loop = ControlLoop(world.application, world.nodes, overrides=OverrideWatcher(tmp_path))
    loop.start(world.clock)
    assert "cannot be read as an override" in caplog.text


def test_a_stored_override_is_one_whole_file(tmp_path):
    """Nothing else is in the folder."""
    store_override(tmp_path, Override({"a": 1.0}))
    assert json.loads((tmp_path / OVERRIDE).read_text()) == {
        "bounds": {"a": 1.0},
        "weights": {},
    }
    assert [path.name for path in tmp_path.iterdir()] == [OVERRIDE]
    assert read_override(tmp_path / OVERRIDE) == Override({"a": 1.0})
