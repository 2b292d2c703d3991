"""The unshed sample in the steps of nodes: what is emitted, what is found, what is counted."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.spark.step.sample_counts import PERIOD, PatternSample, ResultCounts
from shedlight.engines.spark.support.sample_spec import find_sample
from shedlight.graph.closures import find_closures
from shedlight.language import DataType
from shedlight.language.eval.column import to_column
from shedlight.matching.hashing import hash_keys
from shedlight.matching.operators.reorder import FOREVER
from shedlight.shedding.estimate import SampleCounts
from shedlight.shedding.shares import PatternShares
from tests.sampled_runs import (
    BOTH,
    OTHER,
    PAIR,
    keyed_application,
    keyed_events,
    results_by_key,
    sampled_keys,
)
from tests.step_nodes import StepWorld, slices

STREAMS = (PAIR, OTHER, BOTH)
SHARE = 0.4


def application(share=SHARE):
    """Give the keyed application with a sample."""
    keyed = keyed_application()
    columns = dict.fromkeys(("time", "n", "type", "key"), DataType.BIGINT)
    source = replace(keyed.sources["s"], schema=columns)
    return replace(keyed, sources={"s": source}, unshed_sample=share)


def drawn_shares(kept, by_key):
    """Give the shares of the three patterns."""
    return {
        stream: PatternShares({}, by_key, default_share=share)
        for stream, share in zip(STREAMS, kept, strict=True)
    }


class Steps:
    """A run over events, micro-batch by micro-batch, each with its own plan."""

    def __init__(self, events, plans, share=SHARE, seed=0, heavy=()):
        rng = random.Random(seed)
        self.world = StepWorld(application(share), plans[0])
        self.world.heavy = tuple(heavy)
        self.shadows = []  # the streams that have shadows after each micro-batch
        for batch, plan in zip(slices(rng, events, len(plans)), plans, strict=True):
            self.world.send("s", batch)
            if len(batch):  # so that time goes on alike with more events and with fewer
                self.world.send_watermark("s", batch["time"][-1].as_py())
            self._run(plan)
        self.world.send_watermark("s", FOREVER)
        self._run(plans[-1])
        tables = self.world.outputs.items()
        self.outputs = {stream: pa.concat_tables(each) for stream, each in tables}

    def _run(self, plan):
        for name in self.world.nodes:
            self.world.run(name, plan)
        self.shadows.append({s for s, held in self.samples() if held.shadow is not None})

    def samples(self):
        """List what all shards hold of the sample, by pattern."""
        for node in self.world.nodes.values():
            for _, state in node.states.values():
                yield from state.samples.items()

    def counted(self, stream):
        """Give what was counted of each key, by its hash."""
        counted: dict[int, list[int]] = {}
        for each, held in self.samples():
            counts = held.recent.counts
            if each == stream:
                columns = (counts.keys, counts.unshed, counts.masked, counts.same)
                rows = zip(*(column.tolist() for column in columns), strict=True)
                counted |= {key: rest for key, *rest in rows}
        return counted


def expected_counts(unshed, masked, mine):
    """Count the results of some keys by the outputs of two runs of their own."""
    keys = sorted(mine)
    hashes = hash_keys([key_column(keys)], len(keys))[0].tolist()
    counts = {}
    for key, hashed in zip(keys, hashes, strict=True):
        without, left = Counter(unshed.of([key])), Counter(masked.of([key]))
        row = [without.total(), left.total(), (without & left).total()]
        if any(row):
            counts[hashed] = row
    return counts


def key_column(keys):
    """Give keys as a column."""
    return to_column(pa.chunked_array([pa.array(keys, pa.int64())]))


@settings(max_examples=4, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.tuples(*[st.floats(0, 1)] * 3),
    st.booleans(),
    st.sampled_from([1, 3, 6]),
)
def test_steps_emit_what_the_simulator_does(seed, kept, by_key, batches):
    """Event by event; and what is counted is what two runs of their own would find.

    One keeps everything, the other what the plan keeps without a sample.
    """
    rng = np.random.default_rng(seed)
    events = keyed_events(rng, 1500, 500, 30.0)
    shares = drawn_shares(kept, by_key)
    done = Steps(events, [shares] * batches, seed=seed)
    simulated = simulate(
        application(),
        {"s": events},
        Service(seconds=dict.fromkeys(STREAMS, 1e-6)),
        interval=7.0,
        shares=shares,
        with_outputs=True,
        unshed_sample=SHARE,
    )
    ours, theirs = (results_by_key(each.outputs, events) for each in (done, simulated))
    masked = results_by_key(Steps(events, [shares] * batches, 0.0, seed).outputs, events)
    unshed = results_by_key(Steps(events, [drawn_shares((1, 1, 1), by_key)]).outputs, events)
    mine = sampled_keys(events, SHARE)
    for stream in STREAMS:
        assert sorted(ours[stream].ids) == sorted(theirs[stream].ids)
        expected = expected_counts(unshed[stream], masked[stream], mine)
        assert done.counted(stream) == expected
    assert unshed[PAIR].of(mine)


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_shadow_begins_with_the_first_event_that_is_shed(seed, by_key):
    """And finds what it would have found from the beginning: it has what was open then."""
    events = keyed_events(np.random.default_rng(seed), 1500, 300, 10.0)
    everything = drawn_shares((1.0, 1.0, 1.0), by_key)
    some = drawn_shares((0.3, 0.6, 0.8), by_key)
    plans = [everything] * 3 + [some] * 3
    done = Steps(events, plans, seed=seed)
    assert not any(done.shadows[:3])
    assert {PAIR, OTHER} <= done.shadows[-1]
    masked = results_by_key(Steps(events, plans, 0.0, seed).outputs, events)
    unshed = results_by_key(Steps(events, [everything]).outputs, events)
    mine = sampled_keys(events, SHARE)
    for stream in STREAMS:
        expected = expected_counts(unshed[stream], masked[stream], mine)
        assert done.counted(stream) == expected


def test_without_shedding_nothing_is_matched_twice():
    """All results are counted all the same."""
    events = keyed_events(np.random.default_rng(3), 1500, 300, 10.0)
    done = Steps(events, [drawn_shares((1.0, 1.0, 1.0), by_key=True)] * 4)
    assert not any(done.shadows)
    counted = done.counted(BOTH)
    assert counted
    assert all(unshed == masked == same for unshed, masked, same in counted.values())


def test_a_share_of_nothing_is_no_sample():
    """Nothing is held, counted or marked."""
    events = keyed_events(np.random.default_rng(3), 300, 30, 10.0)
    done = Steps(events, [drawn_shares((0.5, 0.5, 0.5), by_key=True)] * 2, share=0.0)
    assert not list(done.samples())
    assert not done.world.context.sample.groups


def test_there_is_no_sample_where_nothing_is_ever_shed():
    """No pattern on the way to Q may shed, and nothing is said of it."""
    drawn = application()
    shares = {PAIR: PatternShares({})}
    sample = find_sample(drawn, find_closures(drawn), shares)
    assert set(sample.groups) == {PAIR, BOTH}
    assert (sample.sunk, sample.marked) == (frozenset({PAIR, BOTH}), frozenset({PAIR}))


def test_results_are_counted_for_two_periods():
    """So that the counts are of now, and do not grow for ever."""
    held = PatternSample()
    ones = np.ones(1, np.int64)
    for number in range(4):
        counts = SampleCounts(np.array([number]), ones, ones, ones)
        held = held.count(ResultCounts(number * PERIOD, number * PERIOD + 5, counts, 1))
    assert (held.before.counts.keys.tolist(), held.recent.counts.keys.tolist()) == ([2], [3])
    assert (held.before.since, held.recent.until) == (2 * PERIOD, 3 * PERIOD + 5)
    assert held.recent.heavy == 1


def test_heavy_hitters_are_shed_like_others():
    """And their results are counted by themselves."""
    events = keyed_events(np.random.default_rng(3), 3000, 100, 10.0)
    mine = sorted(sampled_keys(events, SHARE))
    heavy = mine[::2]
    hashes = hash_keys([key_column(heavy)], len(heavy))[0].tolist()
    plans = [drawn_shares((0.5, 0.5, 0.5), by_key=False)] * 3
    done = Steps(events, plans, heavy=hashes)
    found, masked, unshed = (
        results_by_key(run.outputs, events)
        for run in (done, Steps(events, plans, 0.0), Steps(events, plans[:1], 0.999))
    )
    for stream in STREAMS:
        assert found[stream].of(heavy) == masked[stream].of(heavy) != unshed[stream].of(heavy)
        others = mine[1::2]
        assert found[stream].of(others) == unshed[stream].of(others)
        said = [each for (of, _), each in done.world.samples.items() if of == str(stream)]
        assert sum(each.heavy for each in said) == len(found[stream].of(heavy))
        total = sum(results * keys for each in said for results, _, keys in each.keys)
        assert total == len(unshed[stream].of(others))
