"""The totals of a run as `shedlight run` prints them at its end, as text and as JSON."""

from typing import Any

from shedlight.runlog.aggregate import NodeTotals, RunTotals


def summary_json(totals: RunTotals) -> dict[str, Any]:
    """Make the summary that `--json` prints."""
    nodes = {
        name: {
            "batches": node.batches,
            "events": node.events,
            "kept": node.kept,
            "mean_latency": node.mean_latency,
            "bound": node.bound,
            "status": node.status,
            "advice": node.advice,
        }
        for name, node in totals.nodes.items()
    }
    return {
        "nodes": nodes,
        "matches": {name: pattern.matches for name, pattern in totals.patterns.items()},
        "late": {name: number for name, number in totals.late.items() if number},
        "malformed": {name: number for name, number in totals.malformed.items() if number},
        "plans": totals.plans,
        "reason": totals.reason,
    }


def summary_text(totals: RunTotals) -> str:
    """Make the summary for people."""
    lines = []
    for name, node in totals.nodes.items():
        lines.append(f"node {name}: {_describe_node(node)}")
        lines += [f"  {line}" for line in node.advice.splitlines()]
    for name, pattern in totals.patterns.items():
        lines.append(f"found {pattern.matches:,} of {name}")
    for name, number in totals.late.items():
        lines += [f"late at {name}: {_plural(number, 'event')}"] * bool(number)
    for name, number in totals.malformed.items():
        lines += [f"malformed in source {name}: {_plural(number, 'record')}"] * bool(number)
    if totals.plans:
        lines.append(f"{_plural(totals.plans, 'plan')}; last decision: {totals.reason}")
    return "\n".join(lines)


def _describe_node(node: NodeTotals) -> str:
    text = f"{_plural(node.events, 'event')} in {_plural(node.batches, 'micro-batch', 'es')}"
    if node.events:
        text += f", {node.kept / node.events:.0%} relevant and kept"
    if node.mean_latency is not None:
        bound = "" if node.bound is None else f" of {node.bound:g} s"
        text += f", mean latency {node.mean_latency:.2f} s{bound}"
    return f"{text}; {node.status}"


def _plural(number: int, noun: str, ending: str = "s") -> str:
    return f"{number:,} {noun}{ending * (number != 1)}"
