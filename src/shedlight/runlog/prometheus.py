"""The totals of a run as metrics for Prometheus.

Labels are names of nodes, patterns, operators, sources and sinks, as many as the application
has. Types are as many as the data has, so nothing is labelled with them unless asked for, and
then only with those that arrive most often; the others are one, `other`.
"""

from collections.abc import Iterable, Iterator, Mapping
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
    STARTING,
    STATUSES,
    NodeTotals,
    RunTotals,
)
from shedlight.runlog.records import RunHeader

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
OTHER = "other"

_RUN_METRICS = (
    ("shedlight_decisions_total", "Decisions made.", "decisions"),
    ("shedlight_plan_changes_total", "Decisions that brought a new plan.", "plans"),
    ("shedlight_planning_seconds_total", "Time that decisions took.", "planning"),
    ("shedlight_run_start_time_seconds", "When it was started.", "start_time"),
    ("shedlight_last_decision_timestamp_seconds", "When it last decided.", "decision_time"),
)
_NODE_METRICS = (
    ("shedlight_micro_batches_total", "Micro-batches.", "batches"),
    ("shedlight_events_total", "Events read.", "events"),
    ("shedlight_events_kept_total", "Events that some pattern kept.", "kept"),
    (
        "shedlight_events_shed_total",
        "Relevant events that no pattern kept; with irrelevant ones if the log mixes them.",
        "shed",
    ),
    (
        "shedlight_events_irrelevant_total",
        "Events that no pattern can take; missing if the log does not tell them apart.",
        "irrelevant",
    ),
    ("shedlight_node_busy_seconds_total", "Time that micro-batches took.", "busy"),
    ("shedlight_node_utilisation_ratio", "Busy share of the last micro-batch.", "utilisation"),
    ("shedlight_node_load_ratio", "Busy time over its limit.", "load"),
    (
        "shedlight_events_over_bound_total",
        "Kept events that took longer than the bound, by the quantiles of each micro-batch.",
        "events_over",
    ),
    (
        "shedlight_node_over_bound_allowed_ratio",
        "Share of events that may, where the bound is of a percentile.",
        "allowed_over",
    ),
)
_LAST_BATCH_METRICS = (
    ("shedlight_last_micro_batch_duration_seconds", "Time that it took.", "seconds"),
    ("shedlight_last_micro_batch_timestamp_seconds", "When it ended.", "time"),
    ("shedlight_node_kept_ratio", "Kept share of the last micro-batch.", "kept_share"),
    ("shedlight_node_pressure_ratio", "Factor that lowered all shares.", "pressure"),
    ("shedlight_node_state_bytes", "State of the shards that were not idle.", "state_bytes"),
)
_PATTERN_METRICS = (
    ("shedlight_pattern_matches_total", "Complex events found.", "matches"),
    ("shedlight_pattern_events_kept_total", "Events that the pattern was given.", "kept"),
    ("shedlight_pattern_busy_seconds_total", "Time that matching took.", "seconds"),
    (
        "shedlight_pattern_partial_matches",
        "Partial matches in the shards that were not idle.",
        "partial_matches",
    ),
    (
        "shedlight_pattern_partial_matches_cancelled_total",
        "Partial matches cancelled, for something that they depend on was shed.",
        "cancelled",
    ),
)

_SAMPLE_METRICS = (
    ("shedlight_sink_sample_keys", "Keys of the unshed sample with results.", "keys"),
    ("shedlight_sink_recall_ratio", "Results left by shedding, estimated.", "recall"),
    ("shedlight_sink_recall_low_ratio", "Its 95 % interval: from.", "recall_low"),
    ("shedlight_sink_recall_high_ratio", "Its 95 % interval: to.", "recall_high"),
    ("shedlight_sink_unshed_rate", "Results per second without shedding, estimated.", "rate"),
    ("shedlight_sink_unshed_rate_low", "Its 95 % interval: from.", "rate_low"),
    ("shedlight_sink_unshed_rate_high", "Its 95 % interval: to.", "rate_high"),
    ("shedlight_sink_heavy_hitters", "Keys that are no part of these.", "heavy_hitters"),
)


class RunCollector(Collector):
    """Collects the metrics of a run; keep shares of at most so many types per pattern."""

    def __init__(self, totals: RunTotals, *, max_types: int = 0) -> None:
        self._totals, self._max_types = totals, max_types

    def collect(self) -> Iterator[Metric]:
        """Give all metrics as they are now."""
        totals = self._totals
        yield _run_info(totals.header)
        yield from _families(_RUN_METRICS, None, {"": totals})
        yield from _families(_NODE_METRICS, "node", totals.nodes)
        last = {name: node.last for name, node in totals.nodes.items() if node.last}
        yield from _families(_LAST_BATCH_METRICS, "node", last)
        yield _latency(totals.nodes)
        yield _bounds(totals.nodes)
        yield _statuses(totals.nodes)
        yield from _families(_PATTERN_METRICS, "pattern", totals.patterns)
        yield from _families(_SAMPLE_METRICS, "sink", totals.unshed_sample)
        name, text = "shedlight_source_malformed_records_total", "Malformed records."
        yield _family(name, text, "source", totals.malformed)
        name, text = "shedlight_operator_late_events_total", "Late events of the checkpoint."
        yield _family(name, text, "operator", totals.late)
        if self._max_types > 0:
            yield _keep_shares(totals, self._max_types)


def metrics_text(totals: RunTotals, *, max_types: int = 0) -> bytes:
    """Write the metrics of a run in Prometheus' text format, of `CONTENT_TYPE`."""
    return generate_latest(RunCollector(totals, max_types=max_types))


def _families(
    metrics: Iterable[tuple[str, str, str]], label: str | None, objects: Mapping[str, object]
) -> Iterator[Metric]:
    """Make metrics of attributes of objects."""
    for name, text, attribute in metrics:
        values = {key: getattr(value, attribute) for key, value in objects.items()}
        yield _family(name, text, label, values)


def _family(
    name: str, text: str, label: str | None, values: Mapping[str, float | None]
) -> Metric:
    """Make a metric with at most one label; what ends in `_total` is a counter."""
    make = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = make(name, text, labels=[] if label is None else [label])
    for key, value in values.items():
        if value is not None:
            family.add_metric([] if label is None else [key], value)
    return family


def _run_info(header: RunHeader | None) -> Metric:
    labels = ["application", "version"]
    family = GaugeMetricFamily("shedlight_run_info", "What is run.", labels=labels)
    if header is not None:
        family.add_metric([header.application, header.version], 1)
    return family


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


def _bounds(nodes: Mapping[str, NodeTotals]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "shedlight_node_latency_bound_seconds",
        "Bound of the latency: of its mean, or of a percentile.",
        labels=["node", "of"],
    )
    for name, node in nodes.items():
        if node.bound is not None:
            of = "mean" if node.percentile is None else f"p{node.percentile}"
            family.add_metric([name, of], node.bound)
    return family


def _statuses(nodes: Mapping[str, NodeTotals]) -> GaugeMetricFamily:
    """Give 1 for the status of a node and 0 for all others, so that none goes stale as 1."""
    family = GaugeMetricFamily(
        "shedlight_node_status", "1 for the status of the node.", labels=["node", "status"]
    )
    for name, node in nodes.items():
        for status in (STARTING, *STATUSES):
            family.add_metric([name, status], node.current_status == status)
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
