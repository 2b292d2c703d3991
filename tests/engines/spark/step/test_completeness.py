"""Nothing is invented by the steps of nodes that shed, whatever order they run in."""

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream
from shedlight.graph.application import build_application
from shedlight.graph.closures import find_closures
from shedlight.language import parse_pattern
from shedlight.matching.operators.reorder import FOREVER
from shedlight.shedding.shares import PatternShares, is_shed_by_key
from tests.drawn_graphs import SCHEMA, DrawnPlans, draw_application, draw_events
from tests.law import Run
from tests.step_nodes import StepWorld, slices

RUNS, SOAK_RUNS = 30, 2_000


def run_steps(seed: int) -> Run:
    """Run a random application node by node, and give what the checker reads."""
    rng = random.Random(seed)
    application, events = draw_application(rng, in_order=True), draw_events(rng)
    application = replace(application, unshed_sample=(0.0, 0.3, 0.7)[seed % 3])
    closures = find_closures(application)
    bounded = [name for name in application.nodes if rng.random() < 0.8]
    shares = {
        stream: PatternShares({}, is_shed_by_key(application, closures, stream))
        for stream in application.streams
        if stream.operator and application.operators[stream.operator].node in bounded
    }
    world, policy = StepWorld(application, shares), DrawnPlans(application, rng)
    is_slow, sends_watermarks = rng.random() < 0.3, rng.random() < 0.5
    latest = 0
    for each in slices(rng, events, rng.choice([2, 4, 9])):
        world.send("s", each)
        latest = max([latest, *each["time"].to_pylist()])
        if sends_watermarks:
            world.send_watermark("s", latest)
        plan = policy.decide(None)
        for name in world.nodes:
            if rng.random() < 0.8:
                world.run(name, {s: plan[s] for s in shares if s in plan})
                if not is_slow or rng.random() < 0.3:
                    world.tell_driver(name)
    world.send_watermark("s", FOREVER)
    for name in world.nodes:
        world.run(name, {})
    outputs = {stream: pa.concat_tables(tables) for stream, tables in world.outputs.items()}
    return Run(application, {"s": events}, world.record, outputs, shard_of=world.shard_of)


@pytest.mark.parametrize("third", range(3))
def test_nothing_is_invented_by_steps(third):
    """And watchers with a key emit exactly what they may."""
    checked = {"words": 0, "exact": 0, "absent": 0}
    for seed in range(third, RUNS, 3):
        for what, number in run_steps(seed).check().items():
            checked[what] += number
    assert all(number > 5 for number in checked.values()), checked


@pytest.mark.parametrize("sheds", [True, False])
def test_what_a_cap_evicts_is_not_taken_for_absent(sheds):
    """A pattern that lost partial matches is whole for no key until they would have ended.

    So it is where nothing is ever shed, too.
    """
    texts = {
        "P": "SELECT a.key AS key WHERE SEQ(a.type = 0, b.type = 1) WITHIN 1 s",
        "X": "SELECT c.source AS what WHERE SEQ(c.type = 2, NOT(d.source = 'P')) WITHIN 100 ms",
    }
    source = Stream("s")
    operators = [
        OperatorSpec(
            name=name,
            node=name,
            inputs=(source, Stream("P", "w"))[: 1 + (name == "v")],
            patterns={pattern: parse_pattern(texts[pattern]).pattern},
        )
        for name, pattern in (("w", "P"), ("v", "X"))
    ]
    sink = Sink(name="k", input=Stream("X", "v"), format="parquet", path="out")
    described = Source(name="s", format="parquet", path="in", time="time", id=("n",))
    nodes = [Node(name=name, bound=1.0) for name in "wv"]
    application = build_application(
        "caps", [replace(described, schema=SCHEMA)], nodes, operators, [sink]
    )
    both = [Stream("P", "w"), Stream("X", "v")]
    shares = dict.fromkeys(both, PatternShares({})) if sheds else {}
    rng = random.Random(5)
    events = draw_events(rng, 400)
    found = []
    for cap in (10_000, 2):
        world = StepWorld(application, shares)
        for state in world.nodes["w"].states.values():
            (operator,) = state[0].operators
            matchers = tuple(replace(matcher, cap=cap) for matcher in operator.matchers)
            chain = replace(state[0], operators=(replace(operator, matchers=matchers),))
            world.nodes["w"].states[0] = chain, state[1]
        for each in slices(rng, events, 20):
            world.send("s", each)
            for name in world.nodes:
                world.run(name, {})
                world.tell_driver(name)
        alarms = pa.concat_tables(world.outputs[Stream("X", "v")])
        found.append({row["events"][0]["n"] for row in alarms.to_pylist()})
    assert found[1] < found[0]
    assert found[0]


@pytest.mark.soak
def test_nothing_is_invented_by_many_steps():
    """As above, for longer."""
    for seed in range(RUNS, RUNS + SOAK_RUNS):
        run_steps(seed).check()
