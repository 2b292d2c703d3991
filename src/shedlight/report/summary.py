"""The totals of a run as `shedlight run` prints them at its end, as text and as JSON."""

from typing import Any

from shedlight.graph.application import bound_kind
from shedlight.report.format import count
from shedlight.runlog.aggregate import NodeTotals, RunTotals


def summary_json(totals: RunTotals) -> dict[str, Any]:
    """Make the summary that `--json` prints."""
    attributes = "batches events kept mean_latency bound percentile over_share status advice"
    return {
        "nodes": {
            name: {attribute: getattr(node, attribute) for attribute in attributes.split()}
            for name, node in totals.nodes.items()
        },
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
        lines.append(f"found {count(pattern.matches)} of {name}")
    for name, number in totals.late.items():
        lines += [f"late at {name}: {count(number, 'event')}"] * bool(number)
    for name, number in totals.malformed.items():
        lines += [f"malformed in source {name}: {count(number, 'record')}"] * bool(number)
    if totals.plans:
        lines.append(f"{count(totals.plans, 'plan')}; last decision: {totals.reason}")
    return "\n".join(lines)


def _describe_node(node: NodeTotals) -> str:
    text = f"{count(node.events, 'event')} in {count(node.batches, 'micro-batch')}"
    if node.events:
        text += f", {node.kept / node.events:.0%} relevant and kept"
    if node.mean_latency is not None:
        text += f", mean latency {node.mean_latency:.2f} s"
        if node.bound is not None:
            text += f", bound {node.bound:g} s {bound_kind(node.percentile)}"
        if node.percentile is not None:
            text += f", {node.over_share or 0.0:.1%} took longer"
    return f"{text}; {node.status}"
