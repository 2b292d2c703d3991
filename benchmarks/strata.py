"""What strata of keys cost: planning copies of patterns, trials of ways, and shedding."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from pyspark.sql import SparkSession

from benchmarks.question import Answer, processor_seconds
from benchmarks.spark import SETTINGS, events_of_keys, keyed_application, with_files
from shedlight.engines.spark.control.micro_batch import read_report
from shedlight.engines.spark.run.deployment import Deployment
from shedlight.engines.spark.run.finite import run_available_now
from shedlight.engines.spark.run.outbox_writer import outbox_writer, with_query_conf
from shedlight.engines.spark.session.session import close_session, open_session
from shedlight.engines.spark.shed.strata_limits import open_numbers
from shedlight.engines.spark.source.watermark_files import end_of
from shedlight.engines.spark.step.strata_counts import from_text, to_text
from shedlight.engines.spark.support.found_record import FoundRecord
from shedlight.engines.spark.support.plan_store import ActivePlan
from shedlight.graph import (
    Application,
    Node,
    OperatorSpec,
    Sink,
    Source,
    Stream,
    build_application,
)
from shedlight.language import DataType, parse_pattern
from shedlight.language.eval.column import Column
from shedlight.matching.hashing import hash_keys
from shedlight.matching.jit import Array
from shedlight.model.build import build_model
from shedlight.model.model import Model
from shedlight.model.sampled.key_history import KeyHistory
from shedlight.model.snapshot import Snapshot, StratumRates
from shedlight.model.stratum_split import heavy_name
from shedlight.planning.plan import make_plan
from shedlight.shedding.found_keys import FoundKeys
from shedlight.shedding.key_bitmap import KeyBitmap
from shedlight.shedding.shares import sheddable
from shedlight.shedding.stratum_shares import StrataTable

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


_ROUNDS, _WARM = 6, 1
"""How often runs with and without strata are measured in turns; the first does not count."""
_OPEN, _CLOSED = 1_000_000, 30_000
"""How many keys are open, and how many of them others take the place of."""


def shed_strata() -> Iterator[Answer]:
    """Look up strata for each event on Spark, and tell of a million open keys."""
    yield _open_keys()
    folder = Path(tempfile.mkdtemp(prefix="shedlight-bench-"))
    session = open_session("shedlight benchmark", settings=SETTINGS)
    try:
        yield _keep_all(session, folder)
    finally:
        close_session(session)
        shutil.rmtree(folder, ignore_errors=True)


def _keep_all(session: SparkSession, folder: Path) -> Answer:
    """Run a keyed application that keeps all, with strata and without."""
    keyed = keyed_application()
    keyed = replace(
        keyed, nodes={n: replace(node, bound=60.0) for n, node in keyed.nodes.items()}
    )
    keyed = with_files(keyed, folder, 5, 1_000_000, events_of_keys(100_000))
    rounds = []
    for number in range(_WARM + _ROUNDS):
        order = (True, False) if number % 2 else (False, True)
        rounds.append({way: _speed(session, keyed, folder, strata=way) for way in order})
    ratios = [each[True] / each[False] for each in rounds[_WARM:]]
    without = median(each[False] for each in rounds[_WARM:])
    return Answer(
        "Spark: keep = 1 with strata / without",
        median(ratios),
        0.95,
        at_least=True,
        detail=f"{without:,.0f} events/s without; all rounds "
        f"{min(ratios):.2f}-{max(ratios):.2f}",
    )


def _speed(
    session: SparkSession, application: Application, folder: Path, *, strata: bool
) -> float:
    """Give the events per second of micro-batches but the first."""
    checkpoint = folder / "state"
    shares = sheddable(application)
    deployment = Deployment(application, session, checkpoint, shares, None, strata=strata)
    (name, query) = next(iter(deployment.nodes.items()))
    if strata:
        column = Column(DataType.BIGINT, np.arange(5_000), np.ones(5_000, np.bool_))
        keys = hash_keys([column], 5_000)
        table = StrataTable.of(np.sort(keys[0][:20]), {"high-yield": keys[0][20:]})
        active = query.plans.active or ActivePlan(1)
        found = query.plans.found_record.append(
            {n: FoundKeys(table) for n in deployment.application.operators}, 0
        )
        active = replace(active, found=found, history=0.002, looked_at=0.002)
        query.plans.activate(active)
    deployment.watermark_files(name).write(map(end_of, deployment.application.sources))
    with with_query_conf(session, query):
        progresses = run_available_now(outbox_writer(deployment, name))
    shutil.rmtree(checkpoint)
    reports = [report for each in progresses if (report := read_report(name, each)) is not None]
    warm = [report for report in reports[1:] if report.events]
    return sum(report.events for report in warm) / sum(report.seconds for report in warm)


def _open_keys() -> Answer:
    """Tell of a million open keys in two shards: in the slower of these, and in the driver."""
    rng, times = np.random.default_rng(_SEED), list[float]()
    folder = Path(tempfile.mkdtemp(prefix="shedlight-bench-"))
    record, held = FoundRecord(folder), _draw_hashes(rng, _OPEN)
    number, spent = 0, 0.0
    for _ in range(8):
        held = np.concatenate([held[_CLOSED:], _draw_hashes(rng, _CLOSED)])
        halves = [held[held % 2 == odd] for odd in (0, 1)]
        texts = []
        for half in halves:
            began = time.process_time()
            texts.append(to_text(KeyBitmap.of(half, 2).words))
            spent = time.process_time() - began
        began = time.process_time()
        joined = KeyBitmap()
        for text in texts:
            joined = joined.join(KeyBitmap(from_text(text)))
        found = FoundKeys(open={"P": joined})
        number = record.append({"w": found}, number)
        open_numbers(found, ["P"]).astype(">i8").tobytes()
        times.append(spent + time.process_time() - began)
    shutil.rmtree(folder)
    return Answer(
        f"bits of {_OPEN:,} open keys in two shards, joined, on record: processor seconds",
        median(times[1:]),
        0.05,
        detail=f"{min(times[1:]):.3f} to {max(times[1:]):.3f}; {_CLOSED:,} of them are new",
    )


def _draw_hashes(rng: np.random.Generator, number: int) -> Array:
    return rng.integers(-(1 << 63), 1 << 63, number, dtype=np.int64)


QUESTIONS = (plan_strata, shed_strata)
