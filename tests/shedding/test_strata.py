"""Strata of keys in the shedder."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.model.model import SheddingWay
from shedlight.model.stratum_split import REST, heavy_name
from shedlight.shedding.heavy_hitters import MAX_HEAVY, RecentWork
from shedlight.shedding.key_bitmap import KeyBitmap
from shedlight.shedding.shares import PatternShares
from shedlight.shedding.shedder import kept_events
from shedlight.shedding.strata import EventHashes, kept_by_strata
from shedlight.shedding.stratum_shares import StrataTable, StratumShares

hashes = st.integers(-(1 << 63), (1 << 63) - 1)
NO_KEYS = np.zeros(0, np.int64)


class _Types:
    """Three types, named by their numbers."""

    signatures = (0, 1, 2)

    @staticmethod
    def label(number: int) -> str:
        return f"type={number}"


TYPES: Any = _Types()
TABLE = StrataTable(np.array([3, 11]))


def _batch(seed: int, number: int = 2_000) -> tuple[np.ndarray, EventHashes]:
    rng = np.random.default_rng(seed)
    drawn = rng.integers(-(1 << 63), 1 << 63, size=(2, number), dtype=np.int64)
    keys = rng.integers(0, 20, number)
    salted = np.random.default_rng(7).integers(-(1 << 63), 1 << 63, size=20, dtype=np.int64)
    return rng.integers(0, 3, number), EventHashes(keys, salted[keys], drawn[0])


@given(st.sets(hashes, max_size=61), st.lists(st.integers(0, 9_999), max_size=40))
def test_a_key_is_of_its_own_stratum_or_of_the_rest(heavy, keys):
    """Names and numbers say the same, whatever the hashes are, if they end differently."""
    even = np.array(sorted(key for key in keys if key % 2 == 0), np.int64)
    table = StrataTable.of(np.array(sorted(heavy), np.int64), {"high-yield": even})

    found = table.find(np.array([*keys, *heavy], np.int64))

    names = [table.names[number] for number in found.tolist()]
    other = {0: "high-yield", 1: REST}
    mine = [heavy_name(key) if key in heavy else other[key % 2] for key in keys]
    assert names == [*mine, *map(heavy_name, heavy)]


@pytest.mark.parametrize("seed", range(3))
def test_strata_with_the_same_shares_shed_what_one_would(seed):
    """By key and by event: a stratum changes nothing but the shares."""
    numbers, given_hashes = _batch(seed)
    shares = {"type=0": 0.3, "type=1": 1.0, "type=2": 0.0}
    for way, used in (
        (SheddingWay.WHOLE_KEYS, given_hashes.salted),
        (SheddingWay.EVENTS, given_hashes.events),
    ):
        stratum = StratumShares(way, shares)
        strata = {heavy_name(3): stratum, heavy_name(11): stratum, REST: stratum}

        mine = kept_by_strata(
            PatternShares({}, strata=strata), TABLE, TYPES, numbers, given_hashes
        )

        alone = kept_events(PatternShares(shares), TYPES, numbers, used)
        assert (mine.mask == alone.mask).all()


def test_each_stratum_is_shed_in_its_way():
    """A heavy hitter by events, the rest by whole keys."""
    numbers, given_hashes = _batch(1)
    half = dict.fromkeys(("type=0", "type=1", "type=2"), 0.5)
    strata = {
        heavy_name(3): StratumShares(SheddingWay.EVENTS, half),
        REST: StratumShares(SheddingWay.WHOLE_KEYS, half),
    }

    mask = kept_by_strata(
        PatternShares({}, strata=strata), TABLE, TYPES, numbers, given_hashes
    ).mask

    by_key = [mask[given_hashes.keys == key].mean() for key in range(20)]
    assert 0.3 < by_key[3] < 0.7
    assert set(by_key[:3] + by_key[4:]) == {0.0, 1.0}


def test_openers_only_tells_open_keys_from_others():
    """Both are shed by the hash of the event: each as if there was no other."""
    numbers, drawn = _batch(4)
    opened = np.array([1, 4, 9])
    given_hashes = EventHashes(drawn.keys, drawn.salted, drawn.events, KeyBitmap.of(opened))
    of_open = {"type=0": 0.3, "type=1": 1.0, "type=2": 1.0}
    of_others = {"type=0": 0.3, "type=1": 0.0, "type=2": 0.6}
    stratum = StratumShares(SheddingWay.OPENERS, of_others, of_open, of_others)
    shares = PatternShares({}, strata={REST: stratum})

    mask = kept_by_strata(shares, TABLE, TYPES, numbers, given_hashes).mask

    is_open = np.isin(drawn.keys, opened)
    for rows, by_label in ((is_open, of_open), (~is_open, of_others)):
        alone = kept_events(PatternShares(by_label), TYPES, numbers[rows], drawn.events[rows])
        assert (mask[rows] == alone.mask).all()
    nothing = shares.lower_by(0.0)
    assert not kept_by_strata(nothing, TABLE, TYPES, numbers, given_hashes).mask.any()


def test_decisions_do_not_depend_on_how_a_stream_is_cut():
    """A decision is a function of the event and the plan alone."""
    numbers, given_hashes = _batch(5)
    strata = {
        heavy_name(3): StratumShares(SheddingWay.EVENTS, {"type=0": 0.4}),
        REST: StratumShares(SheddingWay.WHOLE_KEYS, {"type=0": 0.6, "type=1": 0.6}),
    }
    shares = PatternShares({}, strata=strata)
    whole = kept_by_strata(shares, TABLE, TYPES, numbers, given_hashes).mask

    parts = []
    for rows in np.array_split(np.arange(len(numbers)), 7):
        cut = EventHashes(
            given_hashes.keys[rows], given_hashes.salted[rows], given_hashes.events[rows]
        )
        parts.append(kept_by_strata(shares, TABLE, TYPES, numbers[rows], cut).mask)

    assert (np.concatenate(parts) == whole).all()


def test_a_stratum_that_a_plan_does_not_know_is_as_the_rest():
    """A key that became a heavy hitter after the plan was made."""
    numbers, given_hashes = _batch(2)
    rest = StratumShares(SheddingWay.WHOLE_KEYS, dict.fromkeys(("type=0", "type=1"), 0.5))
    shares = PatternShares({}, strata={REST: rest})

    masks = [
        kept_by_strata(shares, table, TYPES, numbers, given_hashes).mask
        for table in (TABLE, StrataTable())
    ]

    assert (masks[0] == masks[1]).all()


def test_pressure_lowers_all_strata_but_what_is_exempt():
    """As without strata."""
    stratum = StratumShares(SheddingWay.EVENTS, {"type=0": 0.8, "type=1": 1.0})
    shares = PatternShares(
        {"type=0": 0.8}, strata={REST: stratum}, pressure_exempt=frozenset({"type=1"})
    )

    lowered = shares.lower_by(0.5)

    assert lowered.strata[REST].shares == {"type=0": 0.4, "type=1": 1.0}
    assert shares.lower_by(1.0) is shares


def test_keys_above_one_percent_are_heavy_hitters():
    """One of 2 % is found, others of 0.5 % are not; a switch is found too."""
    keys = np.concatenate([np.full(200, -1), np.repeat(np.arange(196), 50)])
    work = RecentWork().add(keys)
    assert work.heavy_hitters(NO_KEYS).tolist() == [-1]

    for _ in range(100):
        work = work.age().add(np.concatenate([np.full(200, -2), np.repeat(np.arange(196), 50)]))

    assert work.heavy_hitters(np.array([-1])).tolist() == [-2]


def test_heavy_hitters_are_no_more_than_there_is_room_for():
    """The heaviest stay, in order of their hashes."""
    work = RecentWork().add(np.repeat(np.arange(80), np.arange(80) + 10_000))

    heavy = work.heavy_hitters(NO_KEYS)

    assert heavy.tolist() == list(range(80 - MAX_HEAVY, 80))
    assert StrataTable(heavy).names[-1] == REST
