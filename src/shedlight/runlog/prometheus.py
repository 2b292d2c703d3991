"""A run as metrics for Prometheus.

Labels are names of nodes, patterns, operators and sources: as many as the application has.
Types are as many as the data has, so nothing is labelled with them unless asked for, and then
only with those that come most often; the others are one, `other`.
"""

from collections.abc import Callable, Iterator, Mapping

from shedlight.runlog.aggregate import STATES, NodeTotals, PatternTotals, RunTotals
from shedlight.runlog.exposition import Family, Sample
from shedlight.runlog.records import MicroBatchRecord

OTHER = "other"

_QUANTILES = {"p50": "0.5", "p95": "0.95", "p99": "0.99"}


_OF_NODE: tuple[tuple[str, str, str, Callable[[NodeTotals], float | None]], ...] = (
    ("shedlight_batches_total", "counter", "Micro-batches.", lambda node: node.batches),
    ("shedlight_events_total", "counter", "Events read.", lambda node: node.events),
    (
        "shedlight_events_kept_total",
        "counter",
        "Events that some pattern kept.",
        lambda node: node.kept,
    ),
    (
        "shedlight_events_shed_total",
        "counter",
        "Events that no pattern kept; with those of no use, unless the log tells them apart.",
        lambda node: node.shed,
    ),
    (
        "shedlight_batch_busy_seconds_total",
        "counter",
        "Time that micro-batches took.",
        lambda node: node.busy,
    ),
    (
        "shedlight_node_utilisation_ratio",
        "gauge",
        "Share of the time that the last micro-batch took.",
        lambda node: node.utilisation,
    ),
    (
        "shedlight_node_load_ratio",
        "gauge",
        "Busy time over its limit.",
        lambda node: node.load,
    ),
    (
        "shedlight_node_latency_bound_seconds",
        "gauge",
        "Mean time that an event may spend here.",
        lambda node: node.bound,
    ),
)

_OF_LAST: tuple[tuple[str, str, str, Callable[[MicroBatchRecord], float | None]], ...] = (
    (
        "shedlight_batch_duration_seconds",
        "gauge",
        "Time that the last micro-batch took.",
        lambda batch: batch.seconds,
    ),
    (
        "shedlight_last_batch_timestamp_seconds",
        "gauge",
        "When the last micro-batch ended.",
        lambda batch: batch.time,
    ),
    (
        "shedlight_node_kept_ratio",
        "gauge",
        "Share of the last micro-batch's events that was kept.",
        lambda batch: batch.kept / batch.events if batch.events else None,
    ),
    (
        "shedlight_node_pressure_ratio",
        "gauge",
        "To what the node lowered the shares of its plan by itself.",
        lambda batch: batch.pressure,
    ),
    (
        "shedlight_node_state_bytes",
        "gauge",
        "State of the groups that had something to do.",
        lambda batch: batch.state,
    ),
)

_OF_PATTERN: tuple[tuple[str, str, str, Callable[[PatternTotals], float]], ...] = (
    (
        "shedlight_pattern_matches_total",
        "counter",
        "Complex events found.",
        lambda pattern: pattern.found,
    ),
    (
        "shedlight_pattern_events_kept_total",
        "counter",
        "Events that the pattern was given.",
        lambda pattern: pattern.kept,
    ),
    (
        "shedlight_pattern_busy_seconds_total",
        "counter",
        "Time that matching took.",
        lambda pattern: pattern.seconds,
    ),
    (
        "shedlight_pattern_partial_matches",
        "gauge",
        "Partial matches in the groups that had something to do.",
        lambda pattern: pattern.partial_matches,
    ),
)


def families(tally: RunTotals, *, most_types: int = 0) -> tuple[Family, ...]:
    """Make metrics of what is known of a run.

    Args:
        tally: What is known.
        most_types: For how many types of each pattern to say what the plan keeps; the others
            are taken together. 0: for none.
    """
    found = [*_run(tally), *_nodes(tally.nodes), *_patterns(tally.patterns), *_sources(tally)]
    if most_types > 0:
        found.append(_types(tally, most_types))
    return tuple(found)


def _run(tally: RunTotals) -> Iterator[Family]:
    header, last = tally.header, tally.decision
    about = {} if header is None else {"application": header.application}
    versions = {} if header is None else {"version": header.version}
    yield _one("shedlight_run_info", "gauge", "What is run.", 1, about | versions)
    began = None if header is None else header.time
    yield _one("shedlight_run_start_time_seconds", "gauge", "When it began.", began)
    yield _one("shedlight_decisions_total", "counter", "Decisions made.", tally.decisions)
    yield _one(
        "shedlight_plan_changes_total",
        "counter",
        "Decisions that brought a new plan.",
        tally.plans,
    )
    yield _one(
        "shedlight_planning_seconds_total",
        "counter",
        "Time that decisions took.",
        tally.planning,
    )
    yield _one(
        "shedlight_last_decision_timestamp_seconds",
        "gauge",
        "When the last decision was made.",
        None if last is None else last.time,
    )


def _nodes(nodes: Mapping[str, NodeTotals]) -> Iterator[Family]:
    for name, kind, told, value in _OF_NODE:
        yield _by("node", name, kind, told, {n: value(one) for n, one in nodes.items()})
    for name, kind, told, of in _OF_LAST:
        last = {n: of(one.last) for n, one in nodes.items() if one.last is not None}
        yield _by("node", name, kind, told, last)
    yield _latencies(nodes)
    yield _states(nodes)


def _latencies(nodes: Mapping[str, NodeTotals]) -> Family:
    found = []
    for name, node in nodes.items():
        latency = node.last.latency if node.last is not None and node.timed else {}
        for key, quantile in _QUANTILES.items():
            if key in latency:
                found.append(Sample(latency[key], {"node": name, "quantile": quantile}))
        if node.timed:
            found.append(Sample(node.waited, {"node": name}, "_sum"))
            found.append(Sample(node.timed, {"node": name}, "_count"))
    told = "Time that kept events spent here; quantiles are of the last micro-batch."
    return Family("shedlight_node_latency_seconds", "summary", told, tuple(found))


def _states(nodes: Mapping[str, NodeTotals]) -> Family:
    found = [
        Sample(node.state == state, {"node": name, "state": state})
        for name, node in nodes.items()
        for state in STATES
    ]
    return Family("shedlight_node_state", "gauge", "1 for how the node is.", tuple(found))


def _patterns(patterns: Mapping[str, PatternTotals]) -> Iterator[Family]:
    for name, kind, told, value in _OF_PATTERN:
        yield _by("pattern", name, kind, told, {n: value(o) for n, o in patterns.items()})


def _sources(tally: RunTotals) -> Iterator[Family]:
    yield _by(
        "source",
        "shedlight_source_refused_total",
        "counter",
        "Records that were no events.",
        tally.refused,
    )
    yield _by(
        "operator",
        "shedlight_operator_late_events",
        "gauge",
        "Late events since the checkpoint was begun.",
        tally.late,
    )


def _types(tally: RunTotals, most: int) -> Family:
    found = []
    shares = {} if tally.decision is None else tally.decision.shares
    for pattern, kept in shares.items():
        seen = tally.patterns[pattern].types if pattern in tally.patterns else {}
        names = sorted(kept, key=lambda label: (-seen.get(label, 0), label))
        told = {label: kept[label] for label in names[:most] if label != OTHER}
        rest = [label for label in names if label not in told]
        if rest:
            weights = [seen.get(label, 0) for label in rest]
            if not any(weights):
                weights = [1] * len(rest)
            total = sum(w * kept[label] for w, label in zip(weights, rest, strict=True))
            told[OTHER] = total / sum(weights)
        found += [Sample(v, {"pattern": pattern, "type": label}) for label, v in told.items()]
    told_what = "Share of a type that the plan keeps, of those that come most often."
    return Family("shedlight_pattern_type_keep_ratio", "gauge", told_what, tuple(found))


def _one(
    name: str,
    kind: str,
    told: str,
    value: float | None,
    labels: Mapping[str, str] | None = None,
) -> Family:
    samples = () if value is None else (Sample(value, labels or {}),)
    return Family(name, kind, told, samples)


def _by(
    label: str, name: str, kind: str, told: str, values: Mapping[str, float | None]
) -> Family:
    samples = (Sample(v, {label: one}) for one, v in values.items() if v is not None)
    return Family(name, kind, told, tuple(samples))
