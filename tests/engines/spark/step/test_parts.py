"""Watermarks by channels: believed when all that belongs to them is there, and not before."""

import random
from dataclasses import replace
from itertools import permutations

import pyarrow as pa

from shedlight.engines.spark.step.parts import (
    ChannelProgress,
    Progresses,
    RecordPart,
    WatermarkUpdate,
    furthest_announced,
    take_parts,
)
from shedlight.graph import Channels, Stream
from shedlight.graph.closures import find_closures
from shedlight.matching.operators.reorder import FOREVER
from shedlight.shedding.shares import PatternShares, Shares, is_shed_by_key
from tests.drawn_graphs import DrawnPlans, draw_application, draw_events
from tests.law import Run
from tests.step_nodes import StepWorld, slices

P = Stream("P", "w")
KEY = (str(P), 0)
RUNS = 8


def _update(watermark, batch, number, of, **more):
    return WatermarkUpdate(P, 0, watermark, part=RecordPart(batch, number, of), **more)


def test_a_watermark_waits_for_all_records():
    """What was kept upstream comes with one of them; the others do not know it."""
    early = [_update(10, 0, 1, 2, idle=True), _update(30, 1, 0, 1)]
    progresses, updates = take_parts({}, early)
    assert updates == []
    assert furthest_announced(progresses) == {KEY: 30}

    progresses, updates = take_parts(progresses, [_update(10, 0, 0, 2, idle=True, steps="{}")])

    assert updates == [
        WatermarkUpdate(P, 0, 10, idle=True, steps="{}"),
        WatermarkUpdate(P, 0, 30),
    ]
    assert progresses == {KEY: ChannelProgress(1)}
    assert furthest_announced(progresses) == {}


def test_what_comes_again_is_left_out():
    """So an origin that is awake again is not put to sleep by a record of before."""
    progresses, _ = take_parts({}, [_update(10, 3, 0, 1, idle=True), _update(20, 4, 0, 1)])

    assert take_parts(progresses, [_update(10, 3, 0, 1, idle=True)]) == (progresses, [])


def test_an_update_of_no_channel_holds_at_once():
    """It stands alone."""
    update = WatermarkUpdate(Stream("s"), 0, 5)

    assert take_parts({}, [update]) == ({}, [update])


def test_updates_are_taken_in_the_order_in_which_they_were_written():
    """Rows of a shuffle come in any: an origin that is awake again must not be put to sleep."""
    asleep = WatermarkUpdate(P, 0, 5, idle=True, written=1.0)
    awake = WatermarkUpdate(P, 0, 5, written=2.0)
    later = WatermarkUpdate(P, 0, 7, written=2.0)  # within a millisecond
    for read in permutations([asleep, awake, later]):
        assert take_parts({}, read) == ({}, [asleep, awake, later])


def test_records_in_any_order_and_any_number_say_the_same():
    """Whatever is left of attempts that failed, updates come once and in order."""
    rng = random.Random(4)
    for _ in range(200):
        sizes = [rng.randrange(1, 4) for _ in range(5)]
        sent = []
        for batch, size in enumerate(sizes):
            whole = [_update(batch, batch, number, size) for number in range(size)]
            left = [rng.choice(whole) for _ in range(rng.randrange(3))]
            mixed = left + whole
            rng.shuffle(mixed)
            sent += mixed
            sent += [rng.choice(sent) for _ in range(rng.randrange(2))]
        progresses: Progresses = {}
        seen: list[WatermarkUpdate] = []
        while sent:
            size = rng.randrange(1, 5)
            progresses, updates = take_parts(progresses, sent[:size])
            seen += updates
            del sent[:size]
        assert [update.watermark for update in seen] == [0, 1, 2, 3, 4]


class _ChannelWorld(StepWorld):
    """Nodes whose complex events come in records: some late, some twice, some out of order.

    A record is an event table, or nothing; all say how far their shard is after all of them.
    """

    def __init__(self, application, shares, rng):
        self._rng, self._said, self._mail, self._sent = rng, {}, {}, {}
        super().__init__(application, shares)

    def _publish(self, shard, outputs, steps):
        readers, self._readers = self._readers, {}
        super()._publish(shard, outputs, steps)
        self._readers = readers
        for stream, table in outputs.items():
            columns = [name for name in table.column_names if name != "events"]
            for number in range(len(table)):
                said = self._said.setdefault((str(stream.operator), shard), [])
                said.append((stream, table.select(columns).slice(number, 1)))

    def _publish_watermark(self, operator, shard, watermark, steps, idle):
        records = [*self._said.pop((operator, shard), []), None]
        batch = self._sent[operator, shard] = self._sent.get((operator, shard), -1) + 1
        letters = [
            (record, watermark, operator in idle, steps if record is None else None,
             RecordPart(batch, number, len(records)))
            for number, record in enumerate(records)
        ]  # fmt: skip
        left = [self._rng.choice(letters) for _ in range(self._rng.randrange(3))]
        mixed = letters + left
        self._rng.shuffle(mixed)
        readers = {n for s in self.application.operators[operator].outputs
                   for n in self._readers.get(s, ())}  # fmt: skip
        for name in readers:
            self._mail.setdefault((name, operator, shard), []).extend(mixed)

    def run(self, name, shares, *, all_of_it=False):
        """Run a micro-batch with some of what was sent."""
        for (reader, operator, shard), letters in self._mail.items():
            if reader != name:
                continue
            size = len(letters) if all_of_it else self._rng.randrange(len(letters) + 1)
            for record, watermark, idle, steps, part in letters[:size]:
                if record is not None:
                    self.nodes[name].inbox.events[record[0]].append(record[1])
                for stream in self.application.operators[operator].outputs:
                    update = WatermarkUpdate(stream, shard, watermark, idle, steps, part)
                    self.nodes[name].inbox.updates.append(update)
            del letters[:size]
        super().run(name, shares)


def _run(seed: int, *, sheds: bool) -> tuple[Run, set[str], set[str]]:
    """Run a random application by channels; give its ids, and those by folders."""
    rng = random.Random(seed)
    application, events = draw_application(rng, in_order=True), draw_events(rng)
    application = replace(application, unshed_sample=0.0)
    by_channel = replace(application, channels=Channels())
    closures = find_closures(application)
    shares: Shares = {
        stream: PatternShares({}, is_shed_by_key(application, closures, stream))
        for stream in application.streams
        if stream.operator and sheds
    }
    worlds = [StepWorld(application, shares), _ChannelWorld(by_channel, shares, rng)]
    policy = DrawnPlans(application, rng)
    for each in slices(rng, events, 5):
        plan = policy.decide(None) if sheds else {}
        for world in worlds:
            world.send("s", each)
            for name in world.nodes:
                world.run(name, {s: plan[s] for s in shares if s in plan})
                world.tell_driver(name)
    for world in worlds:
        world.send_watermark("s", FOREVER)
        for name in world.nodes:
            more = {"all_of_it": True} if isinstance(world, _ChannelWorld) else {}
            world.run(name, {}, **more)
    world = worlds[1]
    outputs = {stream: pa.concat_tables(tables) for stream, tables in world.outputs.items()}
    run = Run(by_channel, {"s": events}, world.record, outputs, shard_of=world.shard_of)
    return run, *(_ids(world) for world in worlds)


def _ids(world):
    return sorted(
        i for tables in world.outputs.values() for t in tables for i in t["id"].to_pylist()
    )


def test_nodes_find_by_channels_what_they_find_by_folders():
    """Nothing is lost and nothing is there twice, though records are."""
    found = 0
    for seed in range(RUNS):
        _, by_folders, by_channels = _run(seed, sheds=False)
        assert by_channels == by_folders
        found += len(by_folders)
    assert found > 100


def test_nothing_is_invented_by_channels():
    """What was shed of records that came before their watermark is known to be incomplete."""
    checked = {"words": 0, "exact": 0, "absent": 0}
    for seed in range(RUNS):
        run, _, _ = _run(seed, sheds=True)
        for what, number in run.check().items():
            checked[what] += number
    assert all(number > 2 for number in checked.values()), checked
