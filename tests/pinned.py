"""Results of fixed applications, streams and seeds, as plain values that can be written down.

`python -m tests.pinned` writes them to `tests/fixtures/pins`; `test_pins.py` compares. They
were written before names and files changed, to show that nothing but names did.
"""

import hashlib
import json
import random
import runpy
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from experiments.keyed_data import DATA_SETS
from shedlight.engines.simulator import Service, ServiceDistribution, simulate
from shedlight.engines.simulator.policies import ControllerPolicy
from shedlight.engines.spark.session.session import close_session, open_session
from shedlight.engines.tables import match_tables, run_application
from shedlight.graph import Application, Stream, load_application
from shedlight.language import parse_pattern
from shedlight.language.ast.expression import Attribute
from shedlight.matching.operators.cep_operator import (
    build_operator,
    ingest,
    new_operator_state,
)
from shedlight.matching.operators.reorder import StreamInput
from shedlight.model.build import build_model
from shedlight.model.latency import LatencyModel, Target
from shedlight.model.snapshot_file import read_snapshot
from shedlight.planning.plan import PlanSettings, make_plan
from shedlight.shedding.shares import PatternShares
from shedlight.shedding.shedder import event_hashes, kept_events, key_hashes
from tests.engines.spark.runs import on_spark, with_files

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "fixtures" / "pins"
ON_SPARK = "shed_on_spark"


def digest(rows: Iterable[Any]) -> dict[str, Any]:
    """Summarise rows: their number, a hash of all in order, and the first to look at."""
    texts = [json.dumps(row, default=str, ensure_ascii=False) for row in rows]
    whole = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    return {"rows": len(texts), "sha256": whole, "first": texts[:2]}


def matches_of_examples() -> dict[str, Any]:
    """All complex events of the example applications, by pattern."""
    found = {}
    for name in ("cluster", "fraud", "sensors", "paper", "overload"):
        results = run_application(*_example(name), timed_out=True)
        for operator, result in results.items():
            for kind, tables in (
                ("match", result.complex_events),
                ("timed out", result.timed_out),
            ):
                for pattern, table in tables.items():
                    key = f"{name} {operator}.{pattern} {kind}"
                    found[key] = digest(table.to_pylist())
    return found


def matches_of_random_patterns() -> dict[str, Any]:
    """Complex events of random patterns over random streams."""
    found = {}
    for seed in range(150):
        rng = random.Random(seed)
        text = _random_pattern(rng)
        inputs = [(StreamInput("s", ("id",), "time"), _random_events(rng, 300))]
        result = match_tables(inputs, {"P": parse_pattern(text).pattern}, timed_out=True)
        tables = result.complex_events["P"], result.timed_out["P"]
        rows = [row for table in tables for row in table.to_pylist()]
        found[f"{seed}: {text}"] = digest(rows)
    return found


def plans_of_examples() -> dict[str, Any]:
    """Shares, rates and prices of plans for the snapshots of the examples."""
    found = {}
    for name in ("cluster", "fraud", "sensors", "paper"):
        application, _ = _example(name)
        snapshot = read_snapshot(ROOT / "examples" / name / "snapshot.json", application)
        for load in (1.0, 3.0):
            loaded = type(snapshot)(
                **{
                    f.name: getattr(snapshot, f.name)
                    for f in fields(snapshot)
                    if f.name not in {"rates", "output_rates"}
                },
                rates={
                    s: {t: load * r for t, r in by.items()} for s, by in snapshot.rates.items()
                },
                output_rates={s: load * r for s, r in snapshot.output_rates.items()},
            )
            for latency in LatencyModel:
                for local in (False, True):
                    key = f"{name} x{load} {latency.value} {'local' if local else 'global'}"
                    wanted = PlanSettings(target=Target(latency=latency), local=local)
                    found[key] = _plan(build_model(application, loaded), wanted)
    return found


def _plan(model: Any, wanted: PlanSettings) -> Any:
    try:
        plan = make_plan(model, wanted, clock=lambda: 0.0)
    except Exception as error:  # noqa: BLE001  # which one is what is pinned
        return type(error).__name__
    return {
        "keep": {str(s): _numbers(k) for s, k in plan.keep.items()},
        "nodes": plan.nodes,
        "objective": _number(plan.objective),
        "prices": {name: _number(price) for name, price in plan.prices.items()},
        "outputs": {str(s): _numbers(r) for s, r in plan.rates.outputs.items()},
    }


def simulations() -> dict[str, Any]:
    """Intervals and results of simulations, shed by the controller and not."""
    found = {}
    for name, seconds in (("paper", 0.02), ("cluster", 0.004), ("fraud", 0.01)):
        application, tables = _example(name)
        patterns = [
            stream for spec in application.operators.values() for stream in spec.outputs
        ]
        for shed in (False, True):
            for kind in (ServiceDistribution.CONSTANT, ServiceDistribution.EXPONENTIAL):
                policy = ControllerPolicy(application) if shed else None
                done = simulate(
                    application,
                    tables,
                    Service(seconds=dict.fromkeys(patterns, seconds), distribution=kind),
                    interval=10.0,
                    policy=policy,
                    seed=7,
                    pace=2.0,
                )
                key = f"{name} {kind.value} {'controlled' if shed else 'unshed'}"
                found[key] = {
                    "sinks": {k: digest(t.to_pylist()) for k, t in done.sinks.items()},
                    "intervals": [_interval(one) for one in done.intervals],
                }
    return found


def keyed_simulations() -> dict[str, Any]:
    """The same of keyed streams under overload, as they were before there were strata."""
    found = {}
    for name in ("zipf", "half", "chain", "rare"):
        run = DATA_SETS[name].draw(2.0, 8.0, 5)
        policy = ControllerPolicy(run.application, every=2)
        done = simulate(
            run.application,
            {"s": run.events},
            run.service,
            interval=0.5,
            policy=policy,
            seed=5,
            unshed_sample=0.05,
        )
        found[name] = {
            "sinks": {k: digest(t.to_pylist()) for k, t in done.sinks.items()},
            "intervals": [_interval(one) for one in done.intervals],
            "reasons": [decision.reason for decision in policy.log],
            "shares": {
                str(stream): {label: _number(x) for label, x in each.shares.items()}
                for stream, each in policy.memory.shares.items()
            },
        }
    return found


def _interval(interval: Any) -> dict[str, Any]:
    return {
        "outputs": {str(s): n for s, n in interval.outputs.items()},
        "kept": {str(s): sum(by.values()) for s, by in interval.kept.items()},
        "busy": {name: _number(x) for name, x in interval.busy.items()},
        "processed": dict(interval.processed),
        "shed": dict(interval.shed),
        "latency": {name: _number(x) for name, x in interval.latency.items()},
    }


def shed_decisions() -> dict[str, Any]:
    """Which events are kept, by event and by key, at several shares."""
    table = _random_events(random.Random(11), 2_000)
    patterns = {
        "A": parse_pattern(
            "SELECT a.x WHERE SEQ(a.kind = 0, b.kind = 1, c.x > 2) WITHIN 9 ms"
        ).pattern
    }
    operator = build_operator([(StreamInput("s", ("id",), "time"), table.schema)], patterns)
    _, ready, _ = ingest(operator, new_operator_state(operator), {0: table}, frozenset([0]))
    by_event = event_hashes(table, ("id", "name"))
    time = table["time"].to_numpy()
    by_key = key_hashes(table, (Attribute("", ("key",)),), time, 5_000)
    found: dict[str, Any] = {
        "event hashes": digest(by_event.tolist()),
        "key hashes": digest(by_key.tolist()),
    }
    for share in (0.0, 0.1, 0.5, 0.999, 1.0):
        labels = {ready.types.label(n) for n in range(len(ready.types.signatures))} - {""}
        shares = PatternShares(dict.fromkeys(sorted(labels)[1:], share))
        for name, hashes in (("event", by_event), ("key", by_key)):
            kept = kept_events(shares, ready.types, ready.numbers, hashes)
            ids = np.flatnonzero(kept.mask).tolist()
            found[f"{name} {share}"] = {"kept": digest(ids), "unknown": sorted(kept.unknown)}
    return found


def shed_on_spark(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Results of the paper's application on Spark under fixed shares."""
    application, tables = _example("paper")
    tables = {name: table.slice(0, 2_000) for name, table in tables.items()}
    shares = {
        Stream("Q11", "w1"): PatternShares({"type=0": 0.7, "type=1": 0.9}),
        Stream("Q22", "w2"): PatternShares({"type=1": 0.5, "type=2": 1.0, "type=3": 0.8}),
    }
    given = with_files(application, tables, folder, cuts=(700, 1_500))
    found = on_spark(spark, given, folder, shares)
    return {sink: digest(rows) for sink, rows in found.items()}


PINS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "matches_of_examples": matches_of_examples,
    "matches_of_random_patterns": matches_of_random_patterns,
    "plans_of_examples": plans_of_examples,
    "simulations": simulations,
    "keyed_simulations": keyed_simulations,
    "shed_decisions": shed_decisions,
}


@cache
def _example(name: str) -> tuple[Application, dict[str, pa.Table]]:
    folder = ROOT / "examples" / name
    loaded = load_application(folder / "app.yaml")
    application = loaded.application
    if name == "overload":  # as it was pinned: how far amounts may be apart is a constant
        text = (folder / "app.yaml").read_text("utf-8")
        text = text.replace("0.0003 * (w.amount + d.amount)", "0.3")
        text = text.replace("0.0005 * (t.amount + d.amount)", "0.5")
        return load_application(text).application, {"payments": _payments(1_500)}
    generate = runpy.run_path(str(folder / "generate.py"))
    if name == "paper":
        return application, {f"s{i}": generate["events"](6_000, i) for i in (1, 2)}
    make = next(make for key, make in generate.items() if key.startswith("make_"))
    return application, {next(iter(application.sources)): make(6_000, 1)}


def _payments(count: int) -> pa.Table:
    rng = np.random.default_rng(3)
    kinds = np.array(["deposit", "withdrawal", "transfer"])[rng.integers(0, 3, count)]
    times = np.cumsum(rng.integers(1, 8_000, count))
    amounts = rng.uniform(1, 60, count).round(2)
    return pa.table(
        {"number": np.arange(count), "time_us": times, "kind": kinds, "amount": amounts}
    )


def _random_events(rng: random.Random, count: int) -> pa.Table:
    times = [0]
    for _ in range(count - 1):
        times.append(times[-1] + rng.choice([0, 1, 1, 2, 5]) * 1_000)
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "time": pa.array(times, pa.int64()),
            "kind": pa.array([rng.randrange(4) for _ in times], pa.int64()),
            "x": pa.array([rng.choice([None, *range(6)]) for _ in times], pa.int64()),
            "y": pa.array([rng.choice([None, 0.5, 1.5, -2.0]) for _ in times], pa.float64()),
            "key": pa.array([rng.choice([None, 1, 2, 3]) for _ in times], pa.int64()),
            "name": pa.array([rng.choice(["a", "b", ""]) for _ in times], pa.string()),
        }
    )


def _random_pattern(rng: random.Random) -> str:
    names = iter("abcdefghijkl")
    bound: list[str] = []

    def element(*, negated: bool = False) -> str:
        name = next(names)
        condition = rng.choice(
            [
                f"{name}.kind = {rng.randrange(4)}",
                f"{name}.kind = {rng.randrange(4)} AND {name}.x > {rng.randrange(4)}",
                f"{name}.name = 'a'",
                f"{name}.kind IN (0, {rng.randrange(1, 4)})",
                f"{name}.y IS NOT NULL AND {name}.kind != 2",
            ]
        )
        if negated:
            return f"NOT({condition})"
        bound.append(name)
        return condition + rng.choice(["", "", "", " {2}", " {1,3}", "+"])

    def sequence() -> str:
        parts = [element()]
        for _ in range(rng.randrange(1, 3)):
            if rng.random() < 0.25:
                parts.append(element(negated=True))
            parts.append(group() if rng.random() < 0.2 else element())
        return f"SEQ({', '.join(parts)})"

    def group() -> str:
        kind = rng.choice(["AND", "OR"])
        return f"{kind}({element()}, {element()})"

    body = rng.choice([sequence, sequence, sequence, group])()
    if len(bound) > 1 and rng.random() < 0.4:
        first, last = bound[0], bound[-1]
        body += rng.choice(
            [
                f" AND {last}.x > {first}.x",
                f" AND abs({last}.x - {first}.x) < 2",
                f" AND {first}.name = {last}.name",
            ]
        )
    window = rng.choice(["5 ms", "20 ms", "100 ms", "10 EVENTS"])
    key = rng.choice(["", "", " PARTITION BY key", " PARTITION BY key, name"])
    reuse = " REUSE" if rng.random() < 0.25 else ""
    return f"SELECT * WHERE {body} WITHIN {window}{key}{reuse}"


def _number(value: Any) -> float:
    return float(f"{float(value):.10g}")


def _numbers(values: Any) -> Any:
    return [_number(x) for x in np.atleast_1d(np.asarray(values, float)).ravel()]


def write() -> None:
    """Write all pins."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in PINS.items():
        _write(name, make())
    with tempfile.TemporaryDirectory() as folder:
        spark = open_session("pins")
        _write(ON_SPARK, shed_on_spark(spark, Path(folder)))
        close_session(spark)


def _write(name: str, pins: dict[str, Any]) -> None:
    text = json.dumps(pins, indent=1, ensure_ascii=False, sort_keys=True)
    (FOLDER / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    write()
