"""What planning in strata of keys costs: copies of patterns, and the trial of ways to shed."""

from collections.abc import Iterator
from statistics import median

import numpy as np

from benchmarks.question import Answer, processor_seconds
from shedlight.graph import (
    Application,
    Node,
    OperatorSpec,
    Sink,
    Source,
    Stream,
    build_application,
)
from shedlight.language import parse_pattern
from shedlight.model.build import build_model
from shedlight.model.model import Model
from shedlight.model.sampled.key_history import KeyHistory
from shedlight.model.snapshot import Snapshot, StratumRates
from shedlight.model.stratum_split import heavy_name
from shedlight.planning.plan import make_plan

_PATTERNS, _STRATA = 20, 64
_CLASSES = ("high-yield", "good-yield", "low-yield", "rest")
_EVENTS, _KEYS, _SECONDS = 12_000, 500, 80
_SEED = 1


def plan_strata() -> Iterator[Answer]:
    """Plan 64 strata x 20 patterns, without histories of keys and with them."""
    model, history = _model(), _history()
    times = processor_seconds(lambda: make_plan(model), runs=15)
    yield Answer(
        f"{_STRATA} strata x {_PATTERNS} patterns: complete plan, processor seconds",
        min(times),
        0.1,
        detail=f"the least of {len(times)}; their median is {median(times):.3f}",
    )
    plans = [make_plan(model, key_histories={"w": history})]
    times = processor_seconds(
        lambda: plans.append(make_plan(model, key_histories={"w": history})), runs=5
    )
    yield Answer(
        "the same with the trial of ways, processor seconds",
        min(times),
        0.5,
        detail=f"the least of {len(times)}; {len(plans[-1].trials)} patterns are tried on "
        f"{_EVENTS:,} events",
    )


def _application() -> Application:
    texts = {
        f"P{i}": f"SELECT a.key AS key WHERE SEQ(a.type = {i}, b.type = {i + 1}) WITHIN 10 s "
        "PARTITION BY key"
        for i in range(_PATTERNS)
    }
    patterns = {name: parse_pattern(text).pattern for name, text in texts.items()}
    return build_application(
        "strata",
        [Source(name="s", format="parquet", path="s", time="time", id=("id",))],
        [Node(name="edge", bound=2.0)],
        [OperatorSpec(name="w", node="edge", inputs=(Stream("s"),), patterns=patterns)],
        [
            Sink(name=name, input=Stream(name, "w"), format="parquet", path=name)
            for name in patterns
        ],
    )


def _model() -> Model:
    """Make a model that asks for 2 busy seconds per second."""
    application, rng = _application(), np.random.default_rng(_SEED)
    labels = [f"type={i}" for i in range(_PATTERNS + 1)]
    heavy = tuple(map(heavy_name, range(1, _STRATA - len(_CLASSES) + 1)))
    rates = rng.uniform(5, 20, (_STRATA, len(labels)))
    rates[-len(_CLASSES) :] *= 10  # most keys are no heavy hitters
    patterns = application.operators["w"].patterns
    strata = {
        name: StratumRates(
            dict(zip(labels, rates[i].tolist(), strict=True)),
            {pattern: float(rng.uniform(0.2, 1)) for pattern in patterns},
        )
        for i, name in enumerate((*heavy, *_CLASSES))
    }
    snapshot = Snapshot(
        rates={Stream("s"): dict(zip(labels, rates.sum(0).tolist(), strict=True))},
        processing_time={Stream(name, "w"): float(1 / rates.sum()) for name in patterns},
        strata={"w": strata},
    )
    return build_model(application, snapshot)


def _history() -> KeyHistory:
    """Draw as many events as a history has at most, in batches of a second."""
    rng = np.random.default_rng(_SEED)
    time = np.sort(rng.integers(_SECONDS * 10**6, size=_EVENTS))
    keys = rng.integers(_KEYS, size=_EVENTS)
    types = rng.integers(_PATTERNS + 1, size=_EVENTS).astype(np.int32)
    return KeyHistory(
        tuple(f"type={i}" for i in range(_PATTERNS + 1)),
        _CLASSES,
        time,
        np.stack([keys, keys + 1], axis=1),
        types,
        rng.random(_EVENTS),
        keys % len(_CLASSES),
        time // 10**6,
    )


QUESTIONS = (plan_strata,)
