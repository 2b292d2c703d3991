"""The results of a simulation, as text and as JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

from shedlight.control.controller import Decision
from shedlight.engines.simulator import ServiceDistribution
from shedlight.engines.simulator.latency_file import LatencySummary
from shedlight.engines.simulator.recall import Recall
from shedlight.engines.simulator.scenario import Scenario, Unshed
from shedlight.engines.simulator.scenario_run import NodeRow, ScenarioResult
from shedlight.engines.simulator.shedders import Shedder
from shedlight.graph.application import bound_kind
from shedlight.graph.closures import exempt_patterns
from shedlight.model.spark_costs import Costs
from shedlight.text_table import align_columns

_MAX_PLANS = 10
_MEASURES = {
    "recall": "recall",
    "precision": "precision",
    "recall (half)": "recall_by_overlap",
    "precision (half)": "precision_by_overlap",
}
_SHEDDERS = {
    Shedder.GLOBAL: "the controller sheds for the most results at the sinks",
    Shedder.LOCAL: "the controller sheds for the most results of the overloaded nodes",
    Shedder.RANDOM: "events are shed at random",
    Shedder.UTILITY: "events are shed by utility",
    Shedder.NONE: "nothing is shed",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulationReport:
    """A scenario and its results."""

    scenario: Scenario  # what was simulated
    unshed: Unshed  # its results without shedding
    outcome: ScenarioResult  # its results
    recall: Mapping[str, Recall]  # what the results of each sink have in common with those
    events: str  # where the events are from, as text
    costs: str = ""  # where the costs of micro-batches are from; empty: there are none


def as_json(report: SimulationReport) -> dict[str, Any]:
    """Convert a report to values of JSON."""
    scenario, outcome = report.scenario, report.outcome
    return {
        "application": scenario.application.name,
        "shedder": outcome.shedder.value,
        "events": report.events,
        "duration": scenario.duration,
        "pace": scenario.pace,
        "squeeze": bool(scenario.squeeze and scenario.pace != 1),
        "seed": scenario.seed,
        "service": {
            "distribution": scenario.service.distribution.value,
            "processing_time": {str(k): v for k, v in scenario.service.seconds.items()},
        },
        "micro_batch": {name: asdict(each) for name, each in (scenario.costs or {}).items()},
        "nodes": {name: _node(report, name) for name in scenario.application.nodes},
        "operators": {k: asdict(v) for k, v in outcome.simulation.counts.items()},
        "sinks": {name: _sink(recall) for name, recall in report.recall.items()},
        "unshed_sample": {k: asdict(v) for k, v in outcome.simulation.estimates.items()},
        "plans": [decision_row(d) for d in outcome.decisions if d.plan is not None],
        "states": {k: str(v) for k, v in _states(outcome.decisions).items()},
    }


def decision_row(decision: Decision) -> dict[str, Any]:
    """Convert a decision to values of JSON; how long planning took is left out."""
    return {
        "time": decision.time,
        "replanned": decision.plan is not None,
        "reason": decision.reason,
        "limits": dict(decision.busy_limits),
        "keep": {str(stream): dict(kept.shares) for stream, kept in decision.shares.items()},
        "states": {name: str(health.status) for name, health in decision.health.items()},
    }


def as_text(report: SimulationReport) -> str:
    """Write a report as tables."""
    sections = (
        _top(report),
        _nodes(report),
        _events(report),
        _sinks(report),
        _sample(report),
        _plans(report),
    )
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines)


def _top(report: SimulationReport) -> Iterator[str]:
    scenario, outcome = report.scenario, report.outcome
    node, load = max(report.unshed.demand.items(), key=lambda item: item[1])
    yield (
        f"{scenario.application.name}: {scenario.events:,} events in "
        f"{seconds(scenario.duration)}; {_SHEDDERS[outcome.shedder]}"
    )
    yield f"  load {load:.2f}: {node} has {load:.2f} times as much to do as it can"
    yield f"  events: {report.events}"
    times = ", ".join(f"{k} {seconds(v)}" for k, v in scenario.service.seconds.items())
    how = {
        ServiceDistribution.CONSTANT: "always the same",
        ServiceDistribution.EXPONENTIAL: "exponential",
        ServiceDistribution.MEASURED: "drawn from what the matcher took here, event by event",
    }[scenario.service.distribution]
    yield f"  processing times: {times}; {how}"
    if scenario.costs is not None:
        yield from _micro_batches(scenario.costs, report.costs)
        return
    timed = {
        scenario.application.operators[str(s.operator)].node for s in scenario.service.seconds
    }
    untimed = [name for name in scenario.application.nodes if name not in timed]
    if untimed:
        yield f"  {', '.join(untimed)}: no processing times, so taken to be fast enough"


def _micro_batches(costs: Mapping[str, Costs], origin: str) -> Iterator[str]:
    """Say what micro-batches cost, once for nodes that are alike."""
    by_costs: dict[Costs, list[str]] = {}
    for name, each in costs.items():
        by_costs.setdefault(each, []).append(name)
    for each, names in by_costs.items():
        yield (
            f"  micro-batches of {', '.join(names)}, {origin}: {seconds(each.fixed)}, and "
            f"{seconds(each.reading)} to read an event, {seconds(each.carrying)} to carry one "
            "that is kept"
        )


def _nodes(report: SimulationReport) -> Iterator[str]:
    yield "nodes: busy time per second, and the time that an event spends there"
    header = "node asked busy limit mean queueing processing p95 p99 bound"
    rows = [header.split()]
    verdicts = []
    for name in report.scenario.application.nodes:
        latency = report.outcome.latency.get(name)
        row = _node(report, name)
        if row["bound"] is not None and row["shed"] and latency is None:
            verdicts.append(f"  {name} MISSES its bound: all {row['shed']:,} events were shed")
        if latency is None or not latency.processing:
            continue
        limit, bound = row["limit"], row["bound"]
        spent = (row["mean"], row["queueing"], row["processing"], row["p95"], row["p99"])
        rows.append(
            [
                name,
                f"{row['asked']:.1%}",
                f"{row['busy']:.1%}",
                "-" if limit is None else f"{limit:.1%}",
                *map(seconds, spent),
                "-" if bound is None else seconds(bound),
            ]
        )
        if bound is not None:
            verdicts += _verdict(report, name, latency)
    yield from align_columns(rows, margin=2)
    yield from verdicts


def _verdict(report: SimulationReport, name: str, latency: LatencySummary) -> Iterator[str]:
    """Say whether a node keeps its bound, and what of its events that is said of."""
    row = _node(report, name)
    bound, percentile = row["bound"], row["percentile"]
    keeps, over = latency.mean <= bound, ""
    if percentile is not None:
        keeps = latency.over_share <= 1 - percentile / 100
        over = f": {latency.over_share:.1%} of the events took longer"
    relevant = latency.events + row["shed"]
    shed = f"; {row['shed'] / relevant:.1%} of the relevant events were shed"
    if row["not_admitted"]:
        shed += f", and {row['not_admitted'] / relevant:.1%} were not admitted"
    if row["empty_intervals"]:
        number = sum(each.node == name for each in report.outcome.nodes)
        shed += f"; {row['empty_intervals']:,} of {number:,} intervals kept nothing"
    verb = "keeps" if keeps else "MISSES"
    kind = bound_kind(percentile)
    yield f"  {name} {verb} its bound of {seconds(bound)} {kind}{over}{shed}"
    exempt = exempt_patterns(report.scenario.application).get(name, ())
    if exempt and report.scenario.costs is None:  # a micro-batch ends for all of its events
        names = ", ".join(map(str, exempt))
        share = latency.exempt_over / max(1, latency.exempt)
        yield (
            f"  exempt at {name}, for protected closures: {names}; {share:.1%} of "
            f"{latency.exempt:,} events took longer than the bound"
        )


def _events(report: SimulationReport) -> Iterator[str]:
    yield "events: each is one of processed, shed, unused, late, duplicate or expired"
    names = ("arrived", "processed", "shed", "unused", "late", "duplicates", "expired")
    rows = [["operator", *names]]
    for name, counts in report.outcome.simulation.counts.items():
        rows.append([name, *(f"{getattr(counts, count):,}" for count in names)])
    yield from align_columns(rows, margin=2)


def _sinks(report: SimulationReport) -> Iterator[str]:
    yield "results, against those without shedding and with unlimited time"
    rows = [["sink", "results", "unshed", "kept", *_MEASURES]]
    for name, recall in report.recall.items():
        kept = recall.results / recall.unshed if recall.unshed else None
        shares = [kept, *(getattr(recall, measure) for measure in _MEASURES.values())]
        texts = ("-" if share is None else f"{share:.1%}" for share in shares)
        rows.append([name, f"{recall.results:,}", f"{recall.unshed:,}", *texts])
    yield from align_columns(rows, margin=2)
    yield "  recall and precision: of the same events; or (half) of at least half of them"


def _sample(report: SimulationReport) -> Iterator[str]:
    estimates = report.outcome.simulation.estimates
    if not estimates:
        return
    percent = 100 * report.scenario.application.unshed_sample
    yield f"unshed sample of {percent:.3g} % of the keys, with 95 % intervals"
    header = ["sink", "keys", "recall", "from", "to", "true rate", "from", "to"]
    rows, unknown = [[*header, "heavy hitters", "their work", "results"]], []
    for name, estimate in estimates.items():
        if estimate.recall is None or estimate.rate is None:
            unknown.append(f"  {name}: not known; {estimate.unknown}")
            continue
        shares = [f"{each:.1%}" for each in astuple(estimate.recall)]
        rates = [f"{each:,.3g}/s" for each in astuple(estimate.rate)]
        heavy = [f"{estimate.heavy_hitters:,}", f"{estimate.heavy_work:.1%}"]
        results = f"{estimate.heavy_results:,}"
        rows.append([name, f"{estimate.keys:,}", *shares, *rates, *heavy, results])
    if len(rows) > 1:
        yield from align_columns(rows, margin=2)
        yield "  of all keys but heavy hitters, which are counted by themselves"
    yield from unknown


def _plans(report: SimulationReport) -> Iterator[str]:
    decisions = report.outcome.decisions
    if not decisions:
        return
    plans = [decision for decision in decisions if decision.plan is not None]
    began = report.outcome.simulation.intervals[0].start
    yield f"plans: {len(plans)} in {len(decisions)} observations"
    for decision in plans[:_MAX_PLANS]:
        yield f"  at {decision.time - began:,.0f} s: {decision.reason}"
    if plans[_MAX_PLANS:]:
        yield f"  and {len(plans) - _MAX_PLANS} more"
    for name, state in _states(decisions).items():
        if name in report.unshed.demand:
            yield f"  {name} at the end: {state}"


def _states(decisions: Sequence[Decision]) -> Mapping[str, object]:
    return decisions[-1].health if decisions else {}


def _sink(recall: Recall) -> dict[str, Any]:
    measures = {name: getattr(recall, name) for name in _MEASURES.values()}
    return {"results": recall.results, "unshed": recall.unshed, **measures}


def _node(report: SimulationReport, name: str) -> dict[str, Any]:
    rows = [row for row in report.outcome.nodes if row.node == name]
    latency = report.outcome.latency.get(name)
    while_fed = rows[:-1]
    unshed = sum(
        i.busy.get(name, 0.0) + i.reading.get(name, 0.0)
        for i in report.unshed.simulation.intervals
    )
    return {
        "asked": unshed / report.scenario.duration,
        "busy": _mean(while_fed, "busy"),
        "limit": None if rows[0].limit is None else _mean(while_fed, "limit"),
        "bound": rows[0].bound,
        "percentile": rows[0].percentile,
        "pressure": _mean(while_fed, "pressure"),
        "shed": sum(row.shed for row in rows),
        "not_admitted": sum(row.not_admitted for row in rows),
        "empty_intervals": sum(row.shed > 0 and not row.processed for row in while_fed),
        **(asdict(latency) if latency else {}),
    }


def _mean(rows: Iterable[NodeRow], what: str) -> float:
    """Average over time."""
    pairs = [(getattr(row, what) or 0.0, row.length) for row in rows]
    total = sum(length for _, length in pairs)
    return sum(value * length for value, length in pairs) / total if total else 0.0


def seconds(amount: float) -> str:
    """Write a time with three digits and the unit that fits.

    Example:
        >>> seconds(0.00415), seconds(3), seconds(600)
        ('4.15 ms', '3 s', '10 min')
    """
    for unit, size in (("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if amount >= size and (unit != "min" or amount >= 2 * size):
            return f"{amount / size:.3g} {unit}"
    return f"{amount / 1e-6:.3g} us" if amount else "0 s"
