"""A node and its controller apart from each other: what travels between them, and what not."""

from dataclasses import replace
from pathlib import Path

import pytest

from shedlight.control.averages import Key, Measure
from shedlight.control.monitor import observation_of, values_of
from shedlight.control.override import Override
from shedlight.engines.spark.control.activity import LoopTiming
from shedlight.engines.spark.control.central import (
    LOST_S,
    CentralController,
    ControllerListener,
)
from shedlight.engines.spark.control.messages import (
    NodeReport,
    PlanMessage,
    join_parts,
    plan_from_text,
    plan_to_text,
    report_from_text,
    report_to_text,
)
from shedlight.engines.spark.control.observe import observation_of as observe_windows
from shedlight.engines.spark.control.override_store import OverrideWatcher, store_override
from shedlight.engines.spark.control.remote_loop import RemoteLoop
from shedlight.engines.spark.shed.keep_sql import PlannedNode
from shedlight.errors import StateError
from shedlight.graph import Stream, load_application
from shedlight.runlog.records import MicroBatchRecord
from shedlight.shedding.shares import PatternShares
from tests.engines.spark.control.test_loop import BOUND, NODE, World

SHARES = {Stream("P", "w"): PatternShares({"a": 0.5})}

OF, TOPIC = "abc", "topic"


class Wire:
    """Both ends of the way between a node and a controller; texts, as Kafka has them."""

    def __init__(self):
        self.reports, self.plans, self.bytes, self.is_cut = [], [], 0, False

    def report(self, report):
        """Send a report, unless the wire is cut."""
        text = report_to_text(report, OF)
        self.bytes += len(text)
        if not self.is_cut:
            self.reports.append(text)
        return not self.is_cut

    def publish(self, plan):
        """Send a plan."""
        if not self.is_cut:
            self.plans.append(plan_to_text(plan, OF))

    @property
    def to_node(self):
        """The end of the node."""
        return _End(self.report, self.plans, lambda text: plan_from_text(text, OF, TOPIC))

    @property
    def to_controller(self):
        """The end of the controller."""
        return _End(self.publish, self.reports, lambda text: report_from_text(text, OF, TOPIC))


class _End:
    def __init__(self, send, queue, read):
        self.report = self.publish = send
        self._queue, self._read = queue, read

    def poll(self):
        """Give what has come."""
        found = [self._read(text) for text in self._queue]
        self._queue.clear()
        return found


class Apart(World):
    """A node whose controller is elsewhere."""

    def __init__(self, folder):
        super().__init__(folder)
        self.wire, self._folder, self.decisions = Wire(), folder, []
        self.begin_node()
        self.begin_controller(PlanMessage(epoch=0, number=0))

    def begin_node(self):
        """Start the node, anew or for the first time."""
        self.loop = RemoteLoop(
            self.application,
            NODE,
            self.nodes[NODE],
            self.wire.to_node,
            self._folder / "taken",
            timing=LoopTiming(clock=None),
        )
        self.loop.start(self.clock)

    def begin_controller(self, last):
        """Start a controller after another."""
        listener = ControllerListener(on_decision=self.decisions.append)
        overrides = OverrideWatcher(self._folder)
        self.controller = CentralController(
            self.application, self.wire.to_controller, last, listener, overrides
        )

    def run(self, rate, batches, *, controlled=True):
        """Run micro-batches, and let both sides look for what has come."""
        for _ in range(batches):
            self.batch(rate, seconds=0.2)
            self.loop.poll_overrides(self.clock)
            if controlled:
                self.controller.tick(self.clock, self.clock)
                self.loop.poll_overrides(self.clock)

    @property
    def active(self):
        """What the node keeps now."""
        return self.plans.active


@pytest.fixture
def world(tmp_path):
    """Make a node and a controller that know nothing of each other yet."""
    return Apart(tmp_path)


def test_an_observation_is_the_same_after_the_way(world):
    """All that plans are made from travels."""
    batches = tuple(world.batch(2000.0)[0] for _ in range(6))
    node = world.loop._nodes[NODE]  # noqa: SLF001  # what is observed of it
    window = replace(node.window(world.application.nodes[NODE]), batches=batches)
    observation = observe_windows({NODE: window}, 7.0)

    again = observation_of(values_of(observation), 7.0, observation.interval)

    assert again == observation


def test_an_overloaded_node_gets_a_plan_and_keeps_its_bound(world):
    """As it does with a controller of its own."""
    world.run(40_000.0, 30)

    assert world.controller.last.number >= 1
    assert any(decision.plan is not None for decision in world.decisions)
    done, used, _ = world.batch(40_000.0)
    assert used.plan > 1
    assert done.seconds * 1.5 < BOUND * 1.1
    assert done.kept > 0
    assert min(each.mean for each in world.controller.last.shares.values()) < 1


def test_little_is_sent_while_nothing_changes(world):
    """Less than a kilobyte in a second, and what has not moved by 5 % not at all."""
    world.run(20_000.0, 30)
    sent, began = world.wire.bytes, world.clock

    world.run(20_000.0, 60)

    assert (world.wire.bytes - sent) / (world.clock - began) < 1000


def test_a_node_without_a_controller_keeps_its_plan_and_its_pressure(world):
    """And a controller that comes back goes on with the next number."""
    world.run(40_000.0, 30)
    plan, last = world.active.plan, world.controller.last
    world.wire.is_cut = True
    world.run(40_000.0, 20, controlled=False)
    assert world.active.plan == plan
    world.run(80_000.0, 10, controlled=False)
    assert world.active.plan == plan
    assert world.active.pressure < 1

    world.wire.is_cut = False
    world.begin_controller(last)
    world.run(80_000.0, 20)

    assert world.controller.last.epoch == last.epoch + 1
    assert world.controller.last.number > last.number
    assert world.active.plan > plan


def test_a_plan_that_is_older_is_not_taken(world):
    """Of a controller that was fenced, or after a restart of the node."""
    world.run(40_000.0, 30)
    plan, last = world.active.plan, world.controller.last
    stale = [replace(last, number=last.number - 1), replace(last, epoch=0, number=99), last]
    for each in stale:
        world.wire.publish(each)
        world.loop.poll_overrides(world.clock)
    assert world.active.plan == plan

    world.begin_node()
    world.wire.publish(last)
    world.loop.poll_overrides(world.clock)
    assert world.active.plan == plan
    world.wire.publish(replace(last, number=last.number + 1))
    world.loop.poll_overrides(world.clock)
    assert world.active.plan == plan + 1


def test_an_override_reaches_the_node(world, tmp_path):
    """Its pressure is for the bound that holds, and there is another plan."""
    world.run(40_000.0, 30)
    number = world.controller.last.number
    store_override(tmp_path, Override({NODE: BOUND / 2}))

    world.run(40_000.0, 10)

    assert world.loop.memory.application.nodes[NODE].bound == BOUND / 2
    assert world.controller.last.number > number
    assert "as was asked for" in "".join(each.reason for each in world.decisions)


def test_plans_are_taken_in_the_order_of_controllers(world):
    """A new controller goes on from the plan of the one before, which may come later."""
    plan = PlanMessage(epoch=1, number=5, shares=SHARES)
    for message in (PlanMessage(epoch=2, number=0), plan):
        world.wire.publish(message)
    world.loop.poll_overrides(1.0)
    assert world.loop._order == plan.order  # noqa: SLF001  # there is no other way to see it


def test_a_plan_that_could_not_be_taken_is_taken_later(world, monkeypatch):
    """A disk may have been full."""
    plan = PlanMessage(epoch=1, number=1, shares=SHARES)
    world.wire.publish(plan)
    with monkeypatch.context() as full:
        full.setattr(PlannedNode, "publish", _fail)
        world.loop.poll_overrides(1.0)
    assert world.loop._order < plan.order  # noqa: SLF001
    world.loop.poll_overrides(2.0)
    assert world.loop._order == plan.order  # noqa: SLF001


def _fail(*_):
    raise OSError("no space left")


def test_a_node_that_says_nothing_is_left_out(world, caplog):
    """It is said once, and nothing is planned by what is not so any more."""
    world.run(40_000.0, 20)
    for seconds in range(60):
        world.controller.tick(world.clock + seconds, world.clock + seconds)
    number = len(world.decisions)
    assert caplog.text.count(f"node {NODE} has not reported for {LOST_S:g} s") == 1
    world.controller.tick(world.clock + 70, world.clock + 70)
    assert len(world.decisions) == number


def test_reports_that_were_overtaken_are_left_out(world):
    """What is known is what was said last."""
    key = Key(Measure.BUSY, NODE)
    first = NodeReport(
        node=NODE, boot="a", number=0, time=1.0, values={key: 1.0}, is_whole=True
    )
    for number, value in ((2, 3.0), (1, 2.0)):
        world.wire.report(first)
        world.wire.report(replace(first, number=number, values={key: value}, is_whole=False))
    world.controller.tick(5.0, 5.0)
    known = world.controller._known[NODE]  # noqa: SLF001  # there is no other way to see it
    assert known.values == {key: 3.0}


def test_messages_are_the_same_after_the_way():
    """Whatever is in them."""
    shares = {Stream("P", "w"): PatternShares({"a": 0.5}, pressure_exempt=frozenset({"a"}))}
    plan = PlanMessage(
        epoch=3, number=4, shares=shares, bounds={"n": 1.5}, infeasible=("n",), work={"n": 0.5}
    )
    assert plan_from_text(plan_to_text(plan, OF), OF, TOPIC) == plan
    values = {Key(Measure.KEPT, "w", Stream("P", "w"), "a"): 0.25, Key(Measure.BUSY, "n"): 1.0}
    report = NodeReport(
        node="n",
        boot="b",
        number=1,
        time=2.0,
        values=values,
        has_settled=True,
        batch=MicroBatchRecord(time=2.0, node="n", events=7),
    )
    assert report_from_text(report_to_text(report, OF), OF, TOPIC) == report


def test_each_node_gets_its_part_of_a_plan():
    """And the next controller puts them together again."""
    application = load_application(Path("examples/paper/app.yaml")).application
    streams = [stream for spec in application.operators.values() for stream in spec.outputs]
    kept = {stream: PatternShares({stream.name: 0.5}) for stream in streams}
    numbers = {node: float(number) for number, node in enumerate(application.nodes, 1)}
    plan = PlanMessage(
        epoch=3, number=4, shares=kept, bounds=numbers, infeasible=(*numbers,), work=numbers
    )
    parts = {node: plan.of_node(application, node) for node in application.nodes}
    assert join_parts(parts.values()) == plan
    for node, part in parts.items():
        assert part.order == plan.order
        assert {application.operators[str(each.operator)].node for each in part.shares} <= {
            node
        }
        assert (*part.bounds,) == part.infeasible == (*part.work,) == (node,)
    assert not join_parts(()).number


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (plan_to_text(PlanMessage(epoch=1, number=1), "other"), "its fingerprint is other"),
        ("no json", "the topic topic has a record that cannot be read"),
        ('{"version": 2, "application": "abc"}', "has a record that cannot be read"),
        (
            '{"version": 9, "application": "abc"}',
            "of version 9, and here it is abc of version 2",
        ),
    ],
)
def test_what_is_not_ours_is_refused(text, problem):
    """In a sentence that says what to do."""
    with pytest.raises(StateError) as error:
        plan_from_text(text, OF, TOPIC)
    assert problem in str(error.value)
    assert "`prefix`" in str(error.value)
