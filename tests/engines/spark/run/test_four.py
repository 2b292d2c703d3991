"""The paper's example as four processes in networks of their own, whose links are not good."""

import json
import random
import time
from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice

import pytest

from shedlight.engines.spark.control.messages import PlanMessage
from shedlight.graph import Stream
from shedlight.shedding.shares import PatternShares
from tests.engines.spark.broker import Broker
from tests.engines.spark.network import Link, Namespace, has_network_namespaces
from tests.engines.spark.run.test_apart import NODES, Apart, open_link

pytestmark = pytest.mark.spark

EVERYBODY = (*NODES, "control")
BROKER = "broker"
LOOSE = "bound: 3 s", "bound: 600 s"  # a bound that nothing is shed for


class Four(Apart):
    """Nodes and controller, each behind a link to the broker; without root on the loopback."""

    def __init__(self, folder, seed, *, edit=LOOSE, shedder="global", troubled=True):
        self.namespaces, self.links = {}, {}
        with ExitStack() as stack:
            for number, name in enumerate(EVERYBODY):
                host = "127.0.0.1"
                if has_network_namespaces():
                    namespace = stack.enter_context(Namespace(number))
                    self.namespaces[name], host = namespace, namespace.outside
                self.links[name] = Link(host, seed * 10 + number if troubled else None)
                stack.callback(self.links[name].close)
            (folder / BROKER).mkdir()
            doors = {name.upper(): link.address for name, link in self.links.items()}
            self.broker = Broker(folder / BROKER, doors)
            for name, link in self.links.items():
                link.lead_to(self.broker.doors[name.upper()])
            self.broker.start()
            stack.callback(self.broker.kill)
            self.stack = stack.pop_all()
        super().__init__(self.broker, folder, seed, shedder=shedder)
        text = self.text.replace(*edit)
        for name, link in self.links.items():
            own = text.replace(self.broker.servers, link.address)
            (folder / self.file_for(name)).write_text(own)

    def file_for(self, name):
        """Each has one of its own, for brokers are elsewhere for each."""
        return f"{name}.yaml"

    def command_for(self, name, command):
        """Run it in its network."""
        namespace = self.namespaces.get(name)
        return command if namespace is None else namespace.command(command)

    def kill_and_start(self, name, seconds=0.0):
        """Kill a process or the broker, and start it again after so many seconds."""
        if name == BROKER:
            self.broker.kill()
            time.sleep(seconds)
            self.broker.start()
        else:
            self.kill(name)
            time.sleep(seconds)
            self.start(name)

    def end(self):
        """Leave nothing behind."""
        super().end()
        self.stack.close()


@pytest.fixture
def four(tmp_path, jars, request):  # noqa: ARG001
    """Start all four."""
    run = Four(tmp_path, **getattr(request, "param", {"seed": 1}))
    try:
        run.start(*EVERYBODY)
        run.wait(lambda: "in control of apart" in run.said("control"))
        yield run
    finally:
        run.end()


def _taken(four):
    """Say which plan each node took last."""
    files = [four.folder / "state" / f"apart-{node}" / "taken" for node in NODES]
    return [json.loads(file.read_text()) if file.exists() else None for file in files]


def _have_moved(four, before):
    """Say whether both edges have done a micro-batch since."""
    now = [four.micro_batches(node) for node in NODES[:2]]
    return all(new > old for new, old in zip(now, before, strict=True))


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    ("four", "kills"),
    [({"seed": 1}, 0), ({"seed": 2}, 12)],
    indirect=["four"],
    ids=["undisturbed", "killed"],
)
def test_four_processes_find_what_match_finds(four, kills):
    """Over links that stall and break, though each of them and the broker is killed."""
    rng, parts = random.Random(kills), kills + 3
    killed = list(islice(cycle([*EVERYBODY, BROKER]), kills))
    for number in range(parts):
        before = [four.micro_batches(node) for node in NODES[:2]]
        four.feed(number, parts)
        four.wait(partial(_have_moved, four, before))
        if number < len(killed):
            time.sleep(rng.uniform(0, 3))
            four.kill_and_start(killed[number], rng.uniform(0, 3))

    four.check()

    links = four.links.values()
    assert sum(link.stalls for link in links)
    assert sum(link.cuts for link in links)


PLANS, GONE_S = 5, 60.0


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("four", [{"seed": 3, "troubled": False}], indirect=True)
def test_plans_reach_all_nodes_in_two_seconds_and_outlast_their_controller(four, spark):
    """Each within two seconds; for a minute without a controller nodes keep the last."""
    four.feed(0, 2)
    four.wait(partial(_have_moved, four, [-1, -1]))
    four.kill("control")
    link, took = open_link(spark, four.folder / "app.yaml"), []
    for number in range(1, PLANS + 1):
        shares = {Stream("Q", "w2"): PatternShares({"type=0": 1 / number})}
        began = time.monotonic()
        link.publish(PlanMessage(epoch=2, number=number, shares=shares))
        four.wait(lambda n=number: _taken(four) == [[2, n]] * len(NODES), every=0.05)
        took.append(time.monotonic() - began)
    link.close()
    assert max(took) < 2, took

    before = [four.micro_batches(node) for node in NODES[:2]]
    time.sleep(GONE_S / 2)
    four.feed(1, 2)
    four.wait(partial(_have_moved, four, before))
    time.sleep(GONE_S / 2)
    assert _taken(four) == [[2, PLANS]] * len(NODES)
    four.start("control")
    four.wait(lambda: f"epoch 3, the last plan is {PLANS}" in four.said("control"))
