"""How a run is now: its nodes, what flows between them, its sinks, and what is kept."""

from collections.abc import Iterator, Mapping
from typing import Any

from shedlight.page.log_follower import LogView, RecentBatches
from shedlight.report.format import sanitize
from shedlight.runlog.aggregate import STATUSES, NodeTotals, RunTotals
from shedlight.runlog.records import DecisionRecord, MicroBatchRecord, RunHeader

STARTING = "STARTING"
"""The state of a node that has had no micro-batch since the run began."""
MOST_KEEPS = 200
"""How many shares are told."""
_LATENCIES = ("mean", "p50", "p95", "p99")
_ALL, _NONE = 1 - 1e-6, 1e-6


def run_status(seen: LogView, clock: float, *, live: bool) -> dict[str, Any]:
    """Say how a run is.

    Args:
        seen: What was read of its log.
        clock: Now, in seconds since 1970.
        live: Whether it is under way.
    """
    tally = seen.tally
    nodes = {name: _node(seen, name, one) for name, one in tally.nodes.items()}
    plans = [w.batches[-1].plan for w in seen.windows.values() if w.batches]
    keeps = sorted(_keeps(tally), key=_shed_most)
    left_out = max(0, len(keeps) - MOST_KEEPS)
    return {
        "time": seen.latest,
        "live": live,
        "stale_seconds": None if seen.latest is None else max(0.0, clock - seen.latest),
        "state": worst(one["state"] for one in nodes.values()),
        "bottleneck": _bottleneck(nodes),
        "plan": max((one for one in plans if one is not None), default=None),
        "nodes": nodes,
        "edges": list(_edges(seen, tally.header)) if tally.header else [],
        "sinks": _sinks(seen, tally.header) if tally.header else {},
        "keeps": keeps[:MOST_KEEPS],
        "more": left_out + (tally.decision.omitted_shares if tally.decision else 0),
    }


def worst(states: Iterator[str]) -> str:
    """Find the worst of some states; nothing is worse than to have no node at all."""
    order = (STARTING, *STATUSES)
    return max(states, key=order.index, default=STARTING)


def _bottleneck(nodes: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Find the node that sheds, or should, and has most to do for what it may."""
    fine = {"OK", STARTING}
    found = {n: one["load"] or 0.0 for n, one in nodes.items() if one["state"] not in fine}
    return max(found, key=lambda name: found[name]) if found else None


def _node(seen: LogView, name: str, node: NodeTotals) -> dict[str, Any]:
    window, last = seen.window(name), node.last
    header = seen.tally.header
    timed = header is None or header.timed
    latency = last.latency if last is not None and timed else {}
    mean = latency.get("mean")
    offered = window.rate(_of_use)
    shed = window.rate(lambda one: one.shed)
    return {
        "state": _state(node),
        "remedy": sanitize(node.advice) if last is not None else "",
        "load": node.load,
        "bound": node.bound,
        "headroom": None if node.bound is None or mean is None else node.bound - mean,
        "latency": {one: latency[one] for one in _LATENCIES if one in latency},
        "rate": window.rate(lambda one: one.events),
        "kept": window.rate(lambda one: one.kept),
        "shed_share": min(1.0, shed / offered) if offered else 0.0,
        "batch_seconds": last.seconds if last is not None else None,
        "lag": last.lag if last is not None else None,
        "partial_matches": sum(one.partial_matches for one in last.patterns.values())
        if last
        else 0,
        "state_bytes": last.state_bytes if last is not None else 0,
        "pressure": last.pressure if last is not None else None,
    }


def _of_use(batch: MicroBatchRecord) -> int:
    return batch.events if batch.relevant_events is None else batch.relevant_events


def _state(node: NodeTotals) -> str:
    if node.last is None:
        return STARTING
    return node.status if node.status in STATUSES else "OK"


def _edges(seen: LogView, header: RunHeader) -> Iterator[dict[str, Any]]:
    for name, one in header.operators.items():
        window = seen.window(one.node)
        shed = _shed_at(window, name)
        for stream in one.inputs:
            rate = _arriving(seen, header, name, stream)
            yield _edge(_from(stream, header), name, stream, rate, shed)
    for sink, stream in header.sinks.items():
        yield _edge(_from(stream, header), sink, stream, _found(seen, header, stream), 0.0)


def _edge(start: str, end: str, stream: str, rate: float, shed: float) -> dict[str, Any]:
    return {"from": start, "to": end, "stream": stream, "rate": rate, "shed": shed}


def _from(stream: str, header: RunHeader) -> str:
    operator = stream.partition(".")[0]
    return stream if stream in header.sources else operator


def _arriving(seen: LogView, header: RunHeader, operator: str, stream: str) -> float:
    """Say how fast a stream comes to an operator; within a node it is what is found."""
    window = seen.window(header.operators[operator].node)
    if any(stream in one.arrived.get(operator, {}) for one in window.batches):
        return window.rate(lambda one: one.arrived.get(operator, {}).get(stream, 0))
    return _found(seen, header, stream)


def _found(seen: LogView, header: RunHeader, stream: str) -> float:
    """Say how many complex events of a pattern there are in a second."""
    placed = header.operators.get(stream.partition(".")[0])
    if placed is None:
        return 0.0
    return seen.window(placed.node).rate(
        lambda one: one.patterns[stream].matches if stream in one.patterns else 0
    )


def _shed_at(window: RecentBatches, operator: str) -> float:
    """Say which share an operator's patterns shed of what they have a use for."""
    offered = kept = 0
    for batch in window.batches:
        for name, one in batch.patterns.items():
            if name.partition(".")[0] == operator and one.offered is not None:
                offered, kept = offered + one.offered, kept + one.kept
    return min(1.0, max(0.0, 1 - kept / offered)) if offered else 0.0


def _sinks(seen: LogView, header: RunHeader) -> dict[str, dict[str, Any]]:
    decision = seen.tally.decision
    predicted = decision.sinks if decision is not None else {}
    return {
        name: {
            "input": stream,
            "weight": seen.tally.weights.get(name, 1.0),
            "predicted": predicted.get(name),
            "observed": _found(seen, header, stream) if seen.windows else None,
        }
        for name, stream in header.sinks.items()
    }


def _shed_most(row: Mapping[str, Any]) -> tuple[float, float, str, str]:
    return (
        -(row["rate"] or 0.0) * (1 - row["share"]),
        row["share"],
        row["pattern"],
        row["type"],
    )


def _keeps(tally: RunTotals) -> Iterator[dict[str, Any]]:
    decision = tally.decision or DecisionRecord(time=0.0)
    placed = {} if tally.header is None else tally.header.operators
    for pattern, shares in decision.shares.items():
        one = placed.get(pattern.partition(".")[0])
        node = "" if one is None else one.node
        rates = decision.rates.get(pattern, {})
        for label, share in shares.items():
            yield {
                "pattern": pattern,
                "type": sanitize(label),
                "rate": rates.get(label),
                "share": share,
                "price": tally.prices.get(node),
                "reason": _reason(share, sanitize(node, 60)),
            }


def _reason(share: float, node: str) -> str:
    """Say why a share is what it is."""
    if share >= _ALL:
        return "all of it is worth its time"
    where = f"node {node}" if node else "its node"
    if share <= _NONE:
        return f"other types bring more at the sinks for the time they take at {where}"
    return f"as much as fits within the limit of {where}"
