"""The totals of a run as metrics for Prometheus.

Labels are names of nodes, patterns, operators and sources: as many as the application has.
Types are as many as the data has, so nothing is labelled with them unless asked for, and then
only with those that arrive most often; the others are one, `other`.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from shedlight.runlog.aggregate import (
    LATENCY_BUCKETS,
    STATUSES,
    NodeTotals,
    PatternTotals,
    RunTotals,
)
from shedlight.runlog.records import MicroBatchRecord

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
OTHER = "other"

_NODE_METRICS: Mapping[str, tuple[str, Callable[[NodeTotals], float | None]]] = {
    "shedlight_micro_batches_total": ("Micro-batches.", lambda node: node.batches),
    "shedlight_events_total": ("Events read.", lambda node: node.events),
    "shedlight_events_kept_total": ("Events that some pattern kept.", lambda node: node.kept),
    "shedlight_events_shed_total": (
        "Events that no pattern kept; with irrelevant ones, unless the log tells them apart.",
        lambda node: node.shed,
    ),
    "shedlight_node_busy_seconds_total": (
        "Time that micro-batches took.",
        lambda node: node.busy,
    ),
    "shedlight_node_utilisation_ratio": (
        "Share of the time that the last micro-batch took.",
        lambda node: node.utilisation,
    ),
    "shedlight_node_load_ratio": ("Busy time over its limit.", lambda node: node.load),
    "shedlight_node_latency_bound_seconds": (
        "Mean time that an event may spend here.",
        lambda node: node.bound,
    ),
}

_LAST_BATCH_METRICS: Mapping[str, tuple[str, Callable[[MicroBatchRecord], float | None]]] = {
    "shedlight_last_micro_batch_duration_seconds": (
        "Time that the last micro-batch took.",
        lambda batch: batch.seconds,
    ),
    "shedlight_last_micro_batch_timestamp_seconds": (
        "When the last micro-batch ended.",
        lambda batch: batch.time,
    ),
    "shedlight_node_kept_ratio": (
        "Share of the last micro-batch's events that was kept.",
        lambda batch: batch.kept / batch.events if batch.events else None,
    ),
    "shedlight_node_pressure_ratio": (
        "Factor by which the node lowered all shares of its plan.",
        lambda batch: batch.pressure,
    ),
    "shedlight_node_state_bytes": (
        "State of the shards that had something to do.",
        lambda batch: batch.state_bytes,
    ),
}

_PATTERN_METRICS: Mapping[str, tuple[str, Callable[[PatternTotals], float]]] = {
    "shedlight_pattern_matches_total": (
        "Complex events found.",
        lambda pattern: pattern.matches,
    ),
    "shedlight_pattern_events_kept_total": (
        "Events that the pattern was given.",
        lambda pattern: pattern.kept,
    ),
    "shedlight_pattern_busy_seconds_total": (
        "Time that matching took.",
        lambda pattern: pattern.seconds,
    ),
    "shedlight_pattern_partial_matches": (
        "Partial matches in the shards that had something to do.",
        lambda pattern: pattern.partial_matches,
    ),
}


class RunCollector(Collector):
    """Collects the metrics of a run.

    Args:
        totals: The totals of the run.
        max_types: For how many types of each pattern to give the keep share; the others are
            taken together. 0: for none.
    """

    def __init__(self, totals: RunTotals, *, max_types: int = 0) -> None:
        self._totals, self._max_types = totals, max_types

    def collect(self) -> Iterator[Metric]:
        """Give all metrics as they are now."""
        totals = self._totals
        yield from _run_metrics(totals)
        for name, (text, value) in _NODE_METRICS.items():
            yield _family(name, text, "node", {n: value(o) for n, o in totals.nodes.items()})
        last = {name: node.last for name, node in totals.nodes.items() if node.last is not None}
        for name, (text, of_batch) in _LAST_BATCH_METRICS.items():
            yield _family(name, text, "node", {n: of_batch(o) for n, o in last.items()})
        yield _latency(totals.nodes)
        yield _statuses(totals.nodes)
        for name, (text, of) in _PATTERN_METRICS.items():
            yield _family(name, text, "pattern", {n: of(o) for n, o in totals.patterns.items()})
        text = "Records that were malformed."
        yield _family(
            "shedlight_source_malformed_records_total", text, "source", totals.malformed
        )
        text = "Late events since the checkpoint was begun."
        yield _family("shedlight_operator_late_events_total", text, "operator", totals.late)
        if self._max_types > 0:
            yield _keep_shares(totals, self._max_types)


def metrics_text(totals: RunTotals, *, max_types: int = 0) -> bytes:
    """Write the metrics of a run in Prometheus' text format, of `CONTENT_TYPE`."""
    return generate_latest(RunCollector(totals, max_types=max_types))


def _family(
    name: str, text: str, label: str, values: Mapping[str, float | None]
) -> CounterMetricFamily | GaugeMetricFamily:
    """Make a metric with one label; what ends in `_total` is a counter."""
    make = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = make(name, text, labels=[label])
    for labelled, value in values.items():
        if value is not None:
            family.add_metric([labelled], value)
    return family


def _run_metrics(totals: RunTotals) -> Iterator[Metric]:
    header, last = totals.header, totals.decision
    info = GaugeMetricFamily(
        "shedlight_run_info", "What is run.", labels=["application", "version"]
    )
    if header is not None:
        info.add_metric([header.application, header.version], 1)
    yield info
    yield GaugeMetricFamily(
        "shedlight_run_start_time_seconds",
        "When it was started.",
        header.time if header else None,
    )
    yield CounterMetricFamily("shedlight_decisions_total", "Decisions made.", totals.decisions)
    yield CounterMetricFamily(
        "shedlight_plan_changes_total", "Decisions that brought a new plan.", totals.plans
    )
    yield CounterMetricFamily(
        "shedlight_planning_seconds_total", "Time that decisions took.", totals.planning
    )
    yield GaugeMetricFamily(
        "shedlight_last_decision_timestamp_seconds",
        "When the last decision was made.",
        last.time if last else None,
    )


def _latency(nodes: Mapping[str, NodeTotals]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(
        "shedlight_node_latency_seconds",
        "Time that kept events spent here; counted by the quantiles of each micro-batch.",
        labels=["node"],
    )
    limits = [*map(str, map(float, LATENCY_BUCKETS)), "+Inf"]
    for name, node in nodes.items():
        if node.timed:
            buckets = list(zip(limits, accumulate(node.buckets), strict=True))
            family.add_metric([name], buckets, node.waited)
    return family


def _statuses(nodes: Mapping[str, NodeTotals]) -> GaugeMetricFamily:
    """Give 1 for the status of a node and 0 for all others, so that none goes stale as 1."""
    family = GaugeMetricFamily(
        "shedlight_node_status", "1 for the status of the node.", labels=["node", "status"]
    )
    for name, node in nodes.items():
        for status in STATUSES:
            family.add_metric([name, status], node.status == status)
    return family


def _keep_shares(totals: RunTotals, most: int) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "shedlight_pattern_type_keep_ratio",
        "Share of a type that the plan keeps, of those that arrive most often.",
        labels=["pattern", "type"],
    )
    all_shares = {} if totals.decision is None else totals.decision.shares
    for pattern, shares in all_shares.items():
        counts = totals.patterns[pattern].types if pattern in totals.patterns else {}
        labels = sorted(shares, key=lambda label: (-counts.get(label, 0), label))
        shown = {label: shares[label] for label in labels[:most] if label != OTHER}
        others = [label for label in labels if label not in shown]
        if others:
            weights = [counts.get(label, 0) for label in others]
            if not any(weights):
                weights = [1] * len(others)
            total = sum(w * shares[label] for w, label in zip(weights, others, strict=True))
            shown[OTHER] = total / sum(weights)
        for label, share in shown.items():
            family.add_metric([pattern, label], share)
    return family
