"""An application that changes between two micro-batches: what is as it was goes on."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from shedlight.engines.spark.support.placement import node_context
from shedlight.engines.spark.support.versions import Versions, find_unchanged, next_versions
from shedlight.graph import Application, OperatorSpec, Sink, Stream
from shedlight.graph.application import build_application
from shedlight.graph.closures import find_closures
from shedlight.language.ast.pattern import Pattern, Window
from shedlight.matching.operators.reorder import FOREVER
from shedlight.matching.output.complex_events import ID
from shedlight.shedding.shares import PatternShares, Shares, is_shed_by_key
from tests.drawn_graphs import DrawnPlans, draw_application, draw_events
from tests.law import Run
from tests.step_nodes import StepWorld, slices

RUNS, SOAK_RUNS = 6, 3_000
LATENESS = 100_000


def change(rng: random.Random, application: Application) -> Application:
    """Change one pattern, remove one, add one, and give the new one a sink.

    Operators read what they read before: only what nobody reads is removed.
    """
    read = {stream for spec in application.operators.values() for stream in spec.inputs}
    specs = dict(application.operators)
    changed, added = rng.choice(list(specs)), rng.choice(list(specs))
    specs[changed] = _with_other_pattern(rng, specs[changed])
    specs[added] = _with_new_pattern(rng, specs[added])
    for name, spec in rng.sample(list(specs.items()), len(specs)):
        left = {n: p for n, p in spec.patterns.items() if Stream(n, name) in read or n == "new"}
        if left and len(left) < len(spec.patterns):
            gone = rng.choice([n for n in spec.patterns if n not in left])
            patterns = {n: p for n, p in spec.patterns.items() if n != gone}
            specs[name] = replace(spec, patterns=patterns)
            break
    there = {stream for spec in specs.values() for stream in spec.outputs}
    sinks = [sink for sink in application.sinks.values() if sink.input in there]
    new = Sink(name="new", input=Stream("new", added), format="parquet", path="out/new")
    sources, nodes = application.sources.values(), application.nodes.values()
    return build_application("drawn", sources, nodes, specs.values(), [*sinks, new])


def _with_other_pattern(rng: random.Random, spec: OperatorSpec) -> OperatorSpec:
    name = rng.choice(list(spec.patterns))
    return replace(spec, patterns={**spec.patterns, name: _other(spec.patterns[name])})


def _with_new_pattern(rng: random.Random, spec: OperatorSpec) -> OperatorSpec:
    """Put it before the others: what events carry of patterns is by their order."""
    pattern = _other(_other(rng.choice(list(spec.patterns.values()))))
    return replace(spec, patterns={"new": pattern, **spec.patterns})


def _other(pattern: Pattern) -> Pattern:
    """Give a pattern with a shorter window, or one that emits something more."""
    if pattern.within is None:
        item = replace(pattern.select[0], name=f"more{len(pattern.select)}")
        return replace(pattern, select=(*pattern.select, item))
    length, unit = pattern.within.length, pattern.within.unit
    return replace(pattern, within=Window(max(2, length - 1), unit))


def shuffled(rng: random.Random, events: pa.Table) -> pa.Table:
    """Have events arrive out of order, by less than they may."""
    arrival = [time + rng.randrange(LATENESS) for time in events["time"].to_pylist()]
    order = sorted(range(len(arrival)), key=arrival.__getitem__)
    return events.take(order)


def run(world: StepWorld, pieces: list[pa.Table]) -> StepWorld:
    """Send pieces of a stream, and run all nodes after each."""
    for piece in pieces:
        world.send("s", piece)
        for name in world.nodes:
            world.run(name, {})
    return world


def finish(world: StepWorld) -> dict[Stream, list[str]]:
    """Come to the end; give the ids of what all patterns found."""
    world.send_watermark("s", FOREVER)
    for name in world.nodes:
        world.run(name, {})
    return {
        stream: sorted(id_ for table in tables for id_ in table[ID].to_pylist())
        for stream, tables in world.outputs.items()
    }


def test_what_is_unchanged_finds_the_same():
    """As if nobody had changed anything; what is new finds what it finds in later events."""
    checked = {"unchanged": 0, "new": 0}
    for seed in range(RUNS):
        for what, number in compare(seed).items():
            checked[what] += number
    assert all(number > 5 for number in checked.values()), checked


def compare(seed: int) -> dict[str, int]:
    """Hold a run that is changed twice against runs that are not."""
    rng = random.Random(seed)
    drawn = draw_application(rng, in_order=True)
    sources = {"s": replace(drawn.sources["s"], lateness=LATENESS)}
    before = replace(drawn, sources=sources)
    now = change(rng, before)
    last = change(random.Random(seed + 1), before)  # of what was removed some comes back
    pieces = list(slices(rng, shuffled(rng, draw_events(rng)), 9))
    first, second = sorted(rng.sample(range(9), 2))
    world = run(StepWorld(before, {}), pieces[:first]).changed(now, {})
    world = run(world, pieces[first:second]).changed(last, {})
    found = finish(run(world, pieces[second:]))
    whole = finish(run(StepWorld(before, {}), pieces))
    unchanged = find_unchanged(before, now) & find_unchanged(now, last)
    for stream in unchanged:
        assert found.get(stream, []) == whole.get(stream, []), (seed, stream)
    began = world.context.versions.patterns
    new = {s for s, each in began.items() if each.version == 3 and s in last.streams}
    new = {s for s in new if last.operators[str(s.operator)].inputs == (Stream("s"),)}
    checked = 0
    for stream in new:
        time = began[stream].time
        later = [piece.filter(pa.array(piece["time"].to_numpy() >= time)) for piece in pieces]
        alone = finish(run(StepWorld(last, {}), later))
        assert found.get(stream, []) == alone.get(stream, []), (seed, stream)
        checked += len(alone.get(stream, []))
    return {"unchanged": sum(len(whole.get(s, [])) for s in unchanged), "new": checked}


def sheddable(application: Application, bounded: list[str]) -> Shares:
    """Give what patterns at some nodes keep at first."""
    closures = find_closures(application)
    return {
        stream: PatternShares({}, is_shed_by_key(application, closures, stream))
        for stream in application.streams
        if stream.operator and application.operators[stream.operator].node in bounded
    }


def run_law(seed: int) -> Run | None:
    """Run a random application that sheds, changed on the way; None: its epochs changed."""
    rng = random.Random(seed)
    before, events = draw_application(rng, in_order=True), draw_events(rng)
    before = replace(before, unshed_sample=(0.0, 0.3, 0.7)[seed % 3])
    now = replace(change(rng, before), unshed_sample=before.unshed_sample)
    bounded = [name for name in before.nodes if rng.random() < 0.8]
    if epochs(before) != epochs(now):
        return None
    pieces = list(slices(rng, events, 9))
    at = rng.randrange(1, 9)
    world, shares = StepWorld(before, sheddable(before, bounded)), sheddable(before, bounded)
    policy = DrawnPlans(before, rng)
    for number, piece in enumerate(pieces):
        if number == at:
            shares = sheddable(now, bounded)
            world, policy = world.changed(now, shares), DrawnPlans(now, rng)
        world.send("s", piece)
        plan = policy.decide(None)
        run_round(world, rng, {s: plan[s] for s in shares if s in plan})
    world.send_watermark("s", FOREVER)
    for name in world.nodes:
        world.run(name, {})
    outputs = {stream: pa.concat_tables(tables) for stream, tables in world.outputs.items()}
    return Run(now, {"s": events}, world.record, outputs, shard_of=world.shard_of)


def run_round(world: StepWorld, rng: random.Random, shares: Shares) -> None:
    """Run most of the nodes; the driver knows of some of that."""
    for name in world.nodes:
        if rng.random() < 0.8:
            world.run(name, shares)
            if rng.random() < 0.7:
                world.tell_driver(name)


def epochs(application: Application) -> set[int]:
    """List for how long keys are salted alike."""
    guards = node_context(application, {}).guards.values()
    return {find_closures(application).epoch, *(g.epoch for g in guards if g.epoch)}


def test_a_change_invents_nothing():
    """Under shedding, too: what a new pattern watches was not whole before it began."""
    checked = {"words": 0, "exact": 0, "absent": 0}
    for run in runs(range(RUNS)):
        for what, number in run.check().items():
            checked[what] += number
    assert all(number > 5 for number in checked.values()), checked


def runs(seeds: range) -> Iterator[Run]:
    """Give the runs whose epochs are as they were."""
    return (run for run in map(run_law, seeds) if run is not None)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_a_change_invents_nothing_in_many_runs(part):
    """As above, for longer."""
    for run in runs(range(RUNS + part, RUNS + SOAK_RUNS, 10)):
        run.check()


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_what_is_unchanged_finds_the_same_in_many_runs(part):
    """As above, for longer."""
    for seed in range(RUNS + part, RUNS + SOAK_RUNS, 10):
        compare(seed)


def test_what_reads_a_changed_pattern_begins_with_it():
    """And not what reads another one of the same operator."""
    rng = random.Random(3)
    before = next(
        drawn
        for drawn in iter(lambda: draw_application(rng, in_order=True), None)
        if len(drawn.operators) > 1
    )
    first, *others = before.operators.values()
    new = set(first.outputs)
    for spec in others:  # each after those that it reads
        new |= set(spec.outputs if new & set(spec.inputs) else ())
    changed = replace(first, patterns={n: _other(p) for n, p in first.patterns.items()})
    now = replace(before, operators={**before.operators, first.name: changed})
    versions = next_versions(before, now, Versions(), {"s": 41})

    assert find_unchanged(before, now) == {s for s in now.streams if s.operator} - new
    assert versions.patterns[first.outputs[0]] == (2, 42)
    assert versions.in_outbox(first.outputs[0]).name.endswith("@2")
