"""Trial of ways to shed strata of keys on histories of keys."""

import numpy as np
import pytest

from experiments.keyed_data import PAIR, keyed_application
from shedlight.graph.application import Stream
from shedlight.model.build import build_model
from shedlight.model.model import SheddingWay
from shedlight.model.sampled.key_history import (
    KeyHistory,
    merge_batches,
    run_by_open_keys,
    run_history,
)
from shedlight.model.sampled.runner import build_runner
from shedlight.model.snapshot import Snapshot
from shedlight.model.strata import StratumPlan
from shedlight.planning.trial import can_try, try_ways

NAMES = ("high-yield", "low-yield", "rest")
SECOND = 1_000_000


def _model(levels=1, window=10):
    snapshot = Snapshot(
        rates={Stream("s"): {"type=0": 50.0, "type=1": 50.0}}, processing_time={PAIR: 0.01}
    )
    return build_model(keyed_application(window, levels), snapshot)


def _history(closers, seed=1, number=6_000, keys=100, seconds=100):
    """Draw events of which a share closes: of keys by number, and so many strata in turn."""
    rng = np.random.default_rng(seed)
    key = rng.integers(keys, size=number)
    times = np.sort(rng.integers(seconds * SECOND, size=number))
    return KeyHistory(
        ("type=1", "type=0", "type=7"),  # not as a model numbers them
        NAMES,
        times,
        np.stack([key + 1, key * 7 + 3], axis=1),
        np.where(rng.random(number) < closers(key), 0, 1).astype(np.int32),
        rng.random(number),
        key % len(NAMES),
        times // SECOND,
    )


def _plans(share):
    keep = np.full(2, share)
    return tuple(
        StratumPlan(name, SheddingWay.WHOLE_KEYS, keep, 10.0) for name in ("key 1f", *NAMES)
    )


def _try(history, share=0.5):
    model = _model()
    return try_ways(model.operators["w"], model.patterns[PAIR], _plans(share), history)


def _known(history, model):
    """Number the types as a model does."""
    numbers = [model.operators["w"].types.index(label) for label in ("type=1", "type=0")]
    types = np.array(numbers, np.int32)[history.types]
    return KeyHistory(
        history.labels,
        history.names,
        history.time,
        history.keys,
        types,
        history.chance,
        history.strata,
        history.batch,
    )


def test_batches_change_nothing_if_nothing_is_shed():
    """What is found batch by batch is what is found at once."""
    model = _model()
    history = _known(_history(lambda key: 0.5 + 0 * key), model)
    runner = build_runner(model.operators["w"], model.patterns[PAIR])
    everything = np.ones(len(history.time), np.bool_)

    at_once = run_history(history, runner, everything)
    by_batch = run_by_open_keys(history, runner, lambda here, _: everything[here])

    assert len(at_once.times) > 1_000
    assert np.array_equal(at_once.times, by_batch.times)
    assert np.array_equal(at_once.keys, by_batch.keys)


def test_a_key_is_open_from_the_batch_after_its_opener_until_it_closes():
    """Batches see the keys that were open before them, and not longer than a window."""
    model = _model()
    number = {name: model.operators["w"].types.index(name) for name in ("type=0", "type=1")}
    opener, closer = number["type=0"], number["type=1"]
    seconds = np.array([0, 1, 2, 3, 4, 15, 16])
    history = KeyHistory(
        (),
        ("rest",),
        seconds * SECOND,
        np.ones((7, 2), np.int64),
        np.array([opener, opener, closer, closer, opener, opener, closer], np.int32),
        np.zeros(7),
        np.zeros(7, np.int64),
        np.arange(7),
    )
    seen = []

    def admit(_, is_open):
        seen.append(bool(is_open[0]))
        return np.ones(len(is_open), np.bool_)

    runner = build_runner(model.operators["w"], model.patterns[PAIR])
    run = run_by_open_keys(history, runner, admit)

    assert seen == [False, True, True, True, False, True, True]
    assert run.times.tolist() == [2 * SECOND, 3 * SECOND, 16 * SECOND]
    merged = merge_batches(history, 5 * SECOND)
    assert merged.batch.tolist() == [0, 0, 0, 0, 0, 1, 1]


def test_where_few_events_close_openers_are_shed():
    """What closes is cheap: nearly all results are found for half of the work."""
    trial = _try(_history(lambda key: 0.05 + 0 * key))

    found = trial.found
    best = max(found, key=lambda way: found[way])
    assert best in {SheddingWay.EVENTS, SheddingWay.OPENERS}
    assert found[SheddingWay.WHOLE_KEYS] == pytest.approx(0.5, abs=0.1)
    assert found[best] > 1.3 * found[SheddingWay.WHOLE_KEYS]
    heavy, *others = trial.plans
    assert heavy.way is SheddingWay.WHOLE_KEYS  # it is no part of the history
    assert any(plan.way is best for plan in others)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.3, 0.6])
def test_no_way_spends_more_than_was_planned(seed, share):
    """Counted in events of the history, after its first window."""
    history = _history(lambda key: 0.1 + 0.2 * (key % 3), seed)
    trial = _try(history, share)

    late = history.time >= history.time[0] + 10 * SECOND
    types = 1 - history.types  # as the model numbers them
    assert _model().operators["w"].types == ("type=0", "type=1")
    cells = np.bincount((history.strata * 2 + types)[late], minlength=6).reshape(3, 2)
    spent = sum(float(cells[i] @ plan.keep) for i, plan in enumerate(trial.plans[1:]))
    assert 0.9 * share * cells.sum() < spent < 1.02 * share * cells.sum()


def test_strata_that_yield_most_are_kept_first():
    """By what arrived, not by what was kept: what yields now is what counts."""
    trial = _try(_history(lambda key: np.where(key % 3 == 1, 0.5, 0.0)), share=0.34)

    shares = {plan.name: plan.keep.mean() for plan in trial.plans}
    assert shares["low-yield"] > 0.9
    assert max(shares["high-yield"], shares["rest"]) < 0.1


def test_nothing_is_tried_where_nothing_can_be_told():
    """Few results, a history that is too short, or nothing to shed."""
    assert _try(_history(lambda key: 0.0 * key)) is None
    assert _try(_history(lambda key: 0.5 + 0 * key, seconds=15)) is None
    assert _try(_history(lambda key: 0.5 + 0 * key), share=1.0) is None
    assert _try(KeyHistory()) is None


def test_what_an_operator_reads_is_shed_by_whole_keys():
    """Results of one key stay together for it."""
    assert can_try(_model(), _model().patterns[PAIR])
    assert not can_try(_model(levels=2), _model(levels=2).patterns[PAIR])


def test_a_trial_says_what_each_way_found():
    """Which way is taken, and the best first."""
    text = str(_try(_history(lambda key: 0.05 + 0 * key)))

    assert text.count("%") == 3
    assert text.startswith("types and events (types and events: ")
    assert "whole keys: " in text
