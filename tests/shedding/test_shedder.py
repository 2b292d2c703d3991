"""The shedder keeps the shares it is given, the same events every time."""

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.language import parse_pattern
from shedlight.language.ast.expression import Attribute
from shedlight.matching.operators.cep_operator import (
    build_operator,
    new_operator_state,
    step_operator,
)
from shedlight.matching.operators.classify import EventTypes
from shedlight.matching.operators.reorder import StreamInput
from shedlight.shedding.shares import PatternShares
from shedlight.shedding.shedder import (
    event_hashes,
    keeps_all,
    kept_events,
    key_hashes,
    threshold,
)

SEQUENCE = "SELECT a.type WHERE SEQ(a.type = 0, b.type = 0, c.type = 1) WITHIN 10 ms"
CONJUNCTION = "SELECT a.type WHERE AND(a.type = 1, b.type = 2, c.type = 3) WITHIN 10 ms"


def _events(number, seed=1):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "time": np.arange(number) * 100,
            "id": np.arange(number),
            "type": rng.integers(0, 4, number),
            "key": rng.integers(0, 500, number),
        }
    )


def _operator(table, **patterns):
    inputs = [(StreamInput("s", ("id",), "time"), table.schema)]
    return build_operator(
        inputs, {name: parse_pattern(text).pattern for name, text in patterns.items()}
    )


def _types(table):
    operator = _operator(table, a=SEQUENCE, b=CONJUNCTION)
    signatures = tuple((code,) for code in range(4))
    return EventTypes(operator.alphabet, signatures, {s: i for i, s in enumerate(signatures)})


@settings(max_examples=60)
@given(st.floats(0, 1), st.integers(0, 1000))
def test_a_share_is_met_in_expectation(share, seed):
    """Within five standard deviations of a binomial."""
    table = _events(4000, seed)
    numbers = table["type"].to_numpy().astype(np.int32)
    hashes = event_hashes(table.set_column(1, "id", [np.arange(4000) + seed * 7919]), ["id"])
    shares = PatternShares({f"type={i}": share for i in range(4)})
    kept = int(kept_events(shares, _types(table), numbers, hashes).mask.sum())
    spread = 5 * math.sqrt(4000 * share * (1 - share)) + 1
    assert abs(kept - 4000 * share) <= spread


@settings(max_examples=100)
@given(st.floats(0, 1), st.floats(0, 1))
def test_what_a_smaller_share_keeps_a_larger_one_keeps_too(one, other):
    """So an event that one pattern keeps is likelier kept by another."""
    table = _events(500)
    numbers = table["type"].to_numpy().astype(np.int32)
    hashes = event_hashes(table, ["id"])
    masks = [
        kept_events(
            PatternShares({f"type={i}": share for i in range(4)}),
            _types(table),
            numbers,
            hashes,
        ).mask
        for share in sorted([one, other])
    ]
    assert not (masks[0] & ~masks[1]).any()


def test_all_and_nothing_are_exact():
    """A share of 1 keeps the greatest hash too, one of 0 not even the least."""
    table = _events(3)
    types, numbers = _types(table), np.zeros(3, np.int32)
    hashes = np.array([-(1 << 63), 0, (1 << 63) - 1])
    for share, expected in ((1.0, 3), (0.0, 0)):
        kept = kept_events(PatternShares({"type=0": share}), types, numbers, hashes)
        assert kept.mask.sum() == expected


def test_types_are_shed_each_by_its_own_share_and_unknown_ones_by_the_mean():
    """A type that the plan does not know is named."""
    table = _events(20_000)
    numbers = table["type"].to_numpy().astype(np.int32)
    shares = PatternShares({"type=0": 1.0, "type=1": 0.0, "type=2": 0.5})
    kept = kept_events(shares, _types(table), numbers, event_hashes(table, ["id"]))
    by_type = [kept.mask[numbers == i].mean() for i in range(4)]
    assert by_type[:2] == [1.0, 0.0]
    assert by_type[2:] == pytest.approx([0.5, 0.5], abs=0.03)
    assert kept.unknown == ("type=3",)


@given(st.floats(0, 1), st.floats(0, 1))
def test_pressure_lowers_what_is_not_exempt(share, pressure):
    """Exempt shares stay as they are."""
    shares = PatternShares(
        {"type=0": share, "type=1": share}, pressure_exempt=frozenset({"type=1"})
    )
    lowered = shares.lower_by(pressure).shares
    assert lowered["type=0"] == pytest.approx(share * pressure)
    assert lowered["type=1"] == share


@given(st.floats(0, 1), st.floats(0, 1))
def test_pressure_is_there_before_any_share_is(first, second):
    """Without a plan all is kept, and under pressure as much as that leaves."""
    assert PatternShares({}).mean == 1
    lowered = PatternShares({}).lower_by(first).lower_by(second)
    assert lowered.mean == pytest.approx(first * second)


def test_partners_of_a_key_survive_together():
    """Of each key all events are kept or none, until the epoch changes."""
    table = _events(50_000)
    time = table["time"].to_numpy()
    hashes = key_hashes(table, [Attribute("", ("key",))], time, window=200_000)
    mask = hashes < threshold(0.5)
    keys, epochs = table["key"].to_numpy(), time // 2_000_000
    assert len(set(epochs.tolist())) > 2
    kept: dict[tuple[int, int], bool] = {}
    for key, epoch, is_kept in zip(keys.tolist(), epochs.tolist(), mask.tolist(), strict=True):
        assert kept.setdefault((key, epoch), is_kept) == is_kept
    changed = sum(
        kept[key, 0] != kept.get((key, 1), kept[key, 0]) for key in set(keys.tolist())
    )
    assert changed > 100
    assert mask.mean() == pytest.approx(0.5, abs=0.05)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.floats(0.2, 1), st.lists(st.integers(1, 599), max_size=3))
def test_matching_what_is_kept_is_matching_a_stream_of_it(seed, share, cuts):
    """However the stream is cut; each pattern by its own shares."""
    table = _events(600, seed)
    operator = _operator(table, a=SEQUENCE, b=CONJUNCTION)
    shares = {
        "a": PatternShares({"type=0": share, "type=1": 1.0}),
        "b": PatternShares({"type=1": share / 2, "type=2": share, "type=3": 1.0}),
    }

    def shed(ready):
        hashes = event_hashes(ready.table, ["id"])
        return {
            name: kept_events(one, ready.types, ready.numbers, hashes).mask
            for name, one in shares.items()
        }

    found: dict[str, list[str]] = {"a": [], "b": []}
    state, places = new_operator_state(operator), [0, *sorted(set(cuts)), 600]
    for start, end in pairwise(places):
        ended = frozenset({0}) if end == 600 else frozenset[int]()
        batch = table.slice(start, end - start)
        state, outcome = step_operator(operator, state, {0: batch}, ended, shed)
        for name, events in outcome.complex_events.items():
            found[name] += events["id"].to_pylist()

    hashes = event_hashes(table, ["id"])
    types = table["type"].to_numpy()
    for name, text in (("a", SEQUENCE), ("b", CONJUNCTION)):
        limits = [shares[name].shares.get(f"type={i}", 0.0) for i in range(4)]
        mask = [
            limits[t] >= 1 or h < threshold(limits[t])
            for t, h in zip(types, hashes, strict=True)
        ]
        alone = _operator(table, **{name: text})
        kept = table.filter(pa.array(mask))
        _, outcome = step_operator(alone, new_operator_state(alone), {0: kept}, frozenset({0}))
        assert found[name] == outcome.complex_events[name]["id"].to_pylist()


@given(
    st.dictionaries(
        st.sampled_from([f"type={i}" for i in range(4)]), st.sampled_from([0.5, 1])
    ),
    st.sampled_from([0.5, 1.0]),
    st.lists(st.integers(0, 3), max_size=50),
)
def test_a_pattern_keeps_all_only_if_no_hash_sheds_an_event(shares, default_share, types):
    """What no hash sheds needs no hash."""
    table, one = _events(4), PatternShares(shares, default_share=default_share)
    numbers = np.array(types, np.int32)
    highest = np.full(len(types), np.iinfo(np.int64).max)
    mask = kept_events(one, _types(table), numbers, highest).mask
    assert keeps_all(one, _types(table), numbers) == bool(mask.all())
