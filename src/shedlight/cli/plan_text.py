"""A plan as text and as JSON: keep shares, rates before and after, busy time."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from shedlight.graph.application import bound_kind
from shedlight.graph.channels import format_data_rate
from shedlight.model.latency import LatencyModel, Target
from shedlight.model.link import LinkLoad
from shedlight.model.load import NodeLoad
from shedlight.model.model import Model, OperatorModel, PatternModel
from shedlight.planning.plan import Plan
from shedlight.text_table import align_columns

MAX_TYPES = 12  # how many types of a pattern are listed
_MAX_NUMBER = 24  # a column that is wider has lists in it, which align left

_NAMES = {
    LatencyModel.MM1: "M/M/1",
    LatencyModel.MG1: "M/G/1",
    LatencyModel.MICRO_BATCH: "micro-batch",
}


def as_json(model: Model, plan: Plan) -> dict[str, Any]:
    """Convert a plan to values of JSON."""
    return {
        "status": "optimal",
        "planned": list(plan.nodes),
        "stays": plan.keeps_incumbent,
        "keep": {
            operator.name: {
                pattern.stream.name: _keep_shares(operator, pattern, plan)
                for pattern in operator.patterns
            }
            for operator in model.operators.values()
        },
        "rates": {str(stream): rate for stream, rate in plan.rates.outputs.items()},
        "rates_before": {str(s): rate for s, rate in plan.unshed_rates.outputs.items()},
        "sinks": dict(plan.rates.sinks),
        "sinks_before": dict(plan.unshed_rates.sinks),
        "objective": plan.objective,
        "busy": {
            name: {"predicted": load.busy, "limit": load.busy_limit}
            for name, load in plan.loads.items()
        },
        "links": {
            name: {
                "unshed": plan.unshed_links[name].rate,
                "predicted": load.rate,
                "limit": load.limit,
            }
            for name, load in plan.links.items()
        },
        "prices": dict(plan.prices),
        "watchers": {
            str(watcher.stream): {
                "keep": watcher.keep,
                "key": watcher.key or None,
                "reason": watcher.reason,
            }
            for watcher in plan.watchers
        },
        "strata": _strata(model, plan),
        "solve_seconds": plan.seconds,
    }


def _strata(model: Model, plan: Plan) -> dict[str, Any]:
    """Say what patterns keep of each stratum, in which way; empty if there are no strata."""
    by_operator: dict[str, Any] = {}
    for stream, strata in plan.strata.items():
        operator, pattern = model.operators[str(stream.operator)], model.patterns[stream]
        labels = [operator.types[number] for number in pattern.demand.uses]
        by_operator.setdefault(operator.name, {})[stream.name] = {
            each.name: {
                "way": each.way.value,
                "rate": each.rate,
                "keep": dict(zip(labels, each.keep.tolist(), strict=True)),
            }
            for each in strata
        }
    return by_operator


def _keep_shares(
    operator: OperatorModel, pattern: PatternModel, plan: Plan
) -> dict[str, float]:
    shares = plan.keep.get(pattern.stream, np.ones(len(pattern.demand.uses)))
    labels = (operator.types[number] for number in pattern.demand.uses)
    return dict(zip(labels, shares.tolist(), strict=True))


def as_text(model: Model, plan: Plan, target: Target) -> str:
    """Write a plan as tables."""
    sections = (
        [_headline(model, plan, target)],
        _sinks(model, plan),
        _busy(plan),
        _links(plan),
        _keep_table(model, plan),
        _watchers(plan),
        _flows(model, plan),
    )
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines)


def _headline(model: Model, plan: Plan, target: Target) -> str:
    took = f"solved in {plan.seconds * 1e3:.1f} ms"
    if not plan.loads:
        return "no node has both a bound and known processing times: everything is kept"
    if not plan.nodes:
        return f"everything fits within the bounds and is kept; {took}"
    nodes = [model.nodes[name] for name in plan.nodes]
    bounds = ", ".join(
        f"{node.name} (bound {node.bound:g} s {bound_kind(node.percentile)})" for node in nodes
    )
    stays = "; the active plan stays" if plan.keeps_incumbent else ""
    return (
        f"optimal plan for {bounds} by {_NAMES[target.latency]} at {target.aim:.0%} of the "
        f"limit; {took}{stays}"
    )


def _busy(plan: Plan) -> Iterator[str]:
    if not plan.loads:
        return
    rows = [["node", "unshed", "planned", "limit", "one more ms/s brings"]]
    for name, load in plan.loads.items():
        rows.append(
            [
                name,
                f"{plan.unshed_loads[name].busy:.1%}",
                f"{load.busy:.1%}",
                f"{load.busy_limit:.1%}",
                _price(plan, name, load),
            ]
        )
    yield "busy time"
    yield from align_columns(rows, margin=2)


def _links(plan: Plan) -> Iterator[str]:
    if not plan.links:
        return
    rows = [["link", "unshed", "planned", "limit", "one more kB/s brings"]]
    for name, load in plan.links.items():
        rates = (plan.unshed_links[name].rate, load.rate, load.limit)
        rows.append([name, *map(format_data_rate, rates), _price(plan, name, load)])
    yield "links"
    yield from align_columns(rows, margin=2)


def _price(plan: Plan, name: str, load: NodeLoad | LinkLoad) -> str:
    price = plan.prices.get(name, 0.0)
    if price > 0:
        return f"{price:.4g} events/s"
    return "nothing" if plan.nodes or load.fits else ""


def _keep_table(model: Model, plan: Plan) -> Iterator[str]:
    if not plan.nodes:
        return
    yield "kept shares"
    rows = []
    for operator in model.operators.values():
        if operator.node not in plan.nodes:
            continue
        for pattern in operator.patterns:
            shares = _keep_shares(operator, pattern, plan)
            rows.append([str(pattern.stream), _list_shares(shares, by_key=bool(pattern.key))])
    is_list = max(len(shares) for _, shares in rows) > _MAX_NUMBER
    yield from align_columns(rows, left=2 if is_list else 1, margin=2)


def _list_shares(shares: Mapping[str, float], *, by_key: bool) -> str:
    values = list(shares.values())
    if by_key and values:
        return f"{values[0]:.1%} of all keys"
    texts = [f"{label} {share:.1%}" for label, share in list(shares.items())[:MAX_TYPES]]
    others = values[MAX_TYPES:]
    if others:
        texts.append(f"and {len(others):,} more types, {np.mean(others):.1%} on average")
    return ", ".join(texts)


def _watchers(plan: Plan) -> Iterator[str]:
    if not plan.nodes or not plan.watchers:
        return
    yield "protected closures"
    rows = [[str(each.stream), each.state, each.reason] for each in plan.watchers]
    yield from align_columns(rows, left=3, margin=2)


def _flows(model: Model, plan: Plan) -> Iterator[str]:
    yield "events/s"
    rows = [["edge", "before", "after", "kept"]]
    for operator in model.operators.values():
        for name, arriving in operator.sources.items():
            total = float(arriving.sum()) + operator.unused.get(name, 0.0)
            rows.append([f"{name} -> {operator.name}", _rate(total), _rate(total), ""])
        for stream in operator.feeds:
            rates = [r.outputs[stream] for r in (plan.unshed_rates, plan.rates)]
            rows.append([f"{stream} -> {operator.name}", *map(_rate, rates), ""])
        for stream in (pattern.stream for pattern in operator.patterns):
            taken = (float(r.kept[stream].sum()) for r in (plan.unshed_rates, plan.rates))
            rows.append([f"  {stream} takes", *_change(*taken)])
            emitted = (r.outputs[stream] for r in (plan.unshed_rates, plan.rates))
            rows.append([f"  {stream} emits", *_change(*emitted)])
    yield from align_columns(rows, margin=2)


def _sinks(model: Model, plan: Plan) -> Iterator[str]:
    rows = [["sink", "weight", "before", "after", "kept"]]
    for sink in model.sinks.values():
        change = _change(plan.unshed_rates.sinks[sink.name], plan.rates.sinks[sink.name])
        rows.append([sink.name, f"{sink.weight:g}", *change])
    yield f"sinks, objective {plan.objective:.6g}"
    yield from align_columns(rows, margin=2)


def _rate(rate: float) -> str:
    return f"{rate:,.2f}"


def _change(before: float, after: float) -> list[str]:
    """Write two rates, and the share of the first that is left."""
    return [_rate(before), _rate(after), f"{after / before:.1%}" if before > 0 else "-"]
