"""The totals of a run as `shedlight run` prints them at its end, as text and as JSON."""

from typing import Any

from shedlight.graph.application import bound_kind
from shedlight.report.format import count
from shedlight.runlog.aggregate import NodeTotals, RunTotals
from shedlight.runlog.records import SampleRecord


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
        "unshed_sample": {
            name: sample.model_dump() for name, sample in totals.unshed_sample.items()
        },
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
    for name, sample in totals.unshed_sample.items():
        lines.append(f"sink {name}: {describe_sample(sample)}")
    for name, number in totals.late.items():
        lines += [f"late at {name}: {count(number, 'event')}"] * bool(number)
    for name, number in totals.malformed.items():
        lines += [f"malformed in source {name}: {count(number, 'record')}"] * bool(number)
    if totals.plans:
        lines.append(f"{count(totals.plans, 'plan')}; last decision: {totals.reason}")
    return "\n".join(lines)


def describe_sample(sample: SampleRecord) -> str:
    """Say what the unshed sample says of a sink.

    Example:
        >>> describe_sample(SampleRecord(unknown="P has no PARTITION BY"))
        'results without shedding not known; P has no PARTITION BY'
    """
    recall = (sample.recall, sample.recall_low, sample.recall_high)
    rates = (sample.rate, sample.rate_low, sample.rate_high)
    shares = [f"{each:.0%}" for each in recall if each is not None]
    numbers = [_rate(each) for each in rates if each is not None]
    if not len(shares) == len(numbers) == len(recall):
        return f"results without shedding not known; {sample.unknown}"
    text = (
        f"{shares[0]} of the results without shedding ({shares[1]} to {shares[2]}), which are "
        f"{numbers[0]} per second ({numbers[1]} to {numbers[2]}); by "
        f"{count(sample.keys, 'key')} of the unshed sample"
    )
    if sample.heavy_hitters:
        text += (
            f"; without {count(sample.heavy_hitters, 'heavy hitter')} with "
            f"{sample.heavy_work:.0%} of the work and {count(sample.heavy_results, 'result')}"
        )
    return text


def _rate(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"  # noqa: PLR2004


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
