"""The utility shedder: what it learns, what it keeps, and that position counts for it."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.simulator.espice import UtilityPolicy, refill
from shedlight.engines.simulator.policies import RandomPolicy
from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream, build_application
from shedlight.language import parse_pattern

Q = Stream("Q", "w")
SECONDS = 80


def application(text):
    """One pattern on a node with a bound."""
    return build_application(
        "one",
        [Source(name="s", format="parquet", path="s", time="time", id=("id", "part"))],
        [Node(name="n", bound=1.0)],
        [
            OperatorSpec(
                name="w",
                node="n",
                inputs=(Stream("s"),),
                patterns={"Q": parse_pattern(text).pattern},
            )
        ],
        [Sink(name="k", input=Q, format="parquet", path="k")],
    )


PAIR = "SELECT a.type WHERE SEQ(a.type = 0, b.type = 1) WITHIN 100 ms"


def beats(keys):
    """Every half second a 0 with a 1 at its heels, and nine more 1 that are too late for it."""
    rng = np.random.default_rng(5)
    starts = np.repeat(np.arange(0, SECONDS, 0.5), keys) + rng.uniform(0, 0.005)
    after = np.hstack(
        [
            np.zeros((len(starts), 1)),
            rng.uniform(0.02, 0.04, (len(starts), 1)),
            rng.uniform(0.15, 0.48, (len(starts), 9)),
        ]
    )
    times = ((starts[:, None] + after) * 1e6).astype(np.int64)
    table = pa.table(
        {
            "time": times.ravel(),
            "id": np.arange(times.size),
            "part": [f"p{i % 3}" for i in range(times.size)],
            "type": np.tile([0, *[1] * 10], len(starts)),
            "key": np.repeat(np.tile(np.arange(keys), len(starts) // keys), 11),
        }
    )
    return table.sort_by("time")


def found(policy, app, table, load):
    """Say which share of the complex events is found at a load, in the second half."""
    rate = len(table) / (table["time"][-1].as_py() / 1e6)
    service = Service(seconds={Q: load / rate})
    done = simulate(app, {"s": table}, service, policy=policy)
    half = [one for one in done.intervals if one.start > SECONDS / 2]
    zeros = sum(one.arrivals["w"][Stream("s")].get("type=0", 0) for one in half)
    return sum(one.outputs[Q] for one in half) / zeros


@pytest.mark.parametrize(
    ("text", "keys"), [(PAIR, 1), (f"{PAIR} PARTITION BY key", 8)], ids=["all", "by key"]
)
@pytest.mark.parametrize("load", [1.5, 4.0])
def test_where_position_matters_it_finds_far_more_than_random(text, keys, load):
    """Two events in eleven are of use, and the type does not tell which."""
    app, table = application(text), beats(keys)

    blind = found(RandomPolicy(app, every=5), app, table, load)
    useful = found(UtilityPolicy(app, every=5), app, table, load)

    assert useful > 2 * blind
    assert useful > 0.5


def test_what_a_not_watches_is_always_kept():
    """Else there would be matches that are none."""
    text = "SELECT a.type WHERE SEQ(a.type = 0, NOT(x.type = 2), b.type = 1) WITHIN 100 ms"
    rng = np.random.default_rng(2)
    times = np.unique(rng.integers(0, 40_000_000, 12_000))
    table = pa.table(
        {
            "time": times,
            "id": np.arange(len(times)),
            "part": ["p"] * len(times),
            "type": rng.integers(0, 3, len(times)),
        }
    )
    app = application(text)
    policy = UtilityPolicy(app, every=2)

    done = simulate(app, {"s": table}, Service(seconds={Q: 0.006}), policy=policy)

    kept, offered = (
        sum(counts.get("type=2", 0) for counts in every)
        for every in (
            [one.kept[Q] for one in done.intervals],
            [one.arrivals["w"][Stream("s")] for one in done.intervals],
        )
    )
    assert kept == offered
    assert sum(one.kept[Q].get("type=1", 0) for one in done.intervals) < 0.8 * offered


some = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 10), st.floats(0, 5)), min_size=1, max_size=20
)


@given(some, st.floats(0, 50))
def test_the_limit_is_filled_and_kept(cells, limit):
    """Everything is kept if that fits; else the limit is used up, with shares from 0 to 1."""
    shares, work, worth = (np.array(column) for column in zip(*cells, strict=True))
    new = refill(shares, work, worth, limit)
    assert ((new >= 0) & (new <= 1)).all()
    if work.sum() <= limit:
        assert (new == 1).all()
    else:
        assert new @ work == pytest.approx(limit, rel=1e-6, abs=1e-6)


def test_the_most_useful_are_filled_first_and_the_like_alike():
    """What is given back goes to the first; the two that are worth the same stay the same."""
    shares, work = np.full(4, 0.5), np.ones(4)
    worth = np.array([9.0, 3.0, 3.01, 0.0])
    for _ in range(100):
        shares = refill(shares, work, worth, 2.0)
    assert shares[0] == pytest.approx(1.0)
    assert shares[1] == pytest.approx(shares[2])
    assert shares[1] == pytest.approx(0.5, abs=0.02)
    assert 0 < shares[3] <= 0.02
