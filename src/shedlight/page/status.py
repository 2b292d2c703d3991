"""Answers about a run: what is run, its status and its decisions."""

from collections.abc import Iterable, Iterator, Mapping

from shedlight.page import schemas
from shedlight.page.keep_rows import keep_rows_of
from shedlight.page.run_view import RecentBatches, RunView
from shedlight.page.series import last_point
from shedlight.report.format import percent, sanitize
from shedlight.runlog.aggregate import (
    STARTING,
    STATUSES,
    NodeTotals,
    RunTotals,
    held_latency,
)
from shedlight.runlog.records import (
    DecisionSummary,
    MicroBatchRecord,
    RunHeader,
    SampleRecord,
)
from shedlight.runlog.series import LATENCIES

_SHED_SEEN = 0.005  # a share that is shed and worth speaking of
_FULL = 1.005  # a load that is more than 100 %, as it is written
_IDLE = 0.85  # a load below which a node that sheds could do more


def run_answer(view: RunView) -> schemas.RunAnswer:
    """Answer what is run; what the log does not say is empty."""
    view.refresh()
    totals = view.totals
    header = totals.header or RunHeader(time=0)
    return schemas.RunAnswer(
        application=sanitize(header.application, 100),
        version=sanitize(header.version, 100),
        started=header.time if totals.header else None,
        timed=header.timed,
        simulated=header.simulated,
        live=view.live,
        can_apply=view.can_apply,
        can_ask_why=view.paths.application is not None,
        nodes={
            name: schemas.NodeAnswer(bound=node.bound, percentile=node.percentile)
            for name, node in totals.nodes.items()
        },
        sources=header.sources,
        operators=header.operators,
        sinks={
            name: schemas.SinkAnswer(input=stream, weight=totals.weights.get(name, 1.0))
            for name, stream in header.sinks.items()
        },
        closures=header.closures,
    )


def status_answer(view: RunView) -> schemas.StatusAnswer:
    """Answer the status of a run."""
    view.refresh()
    totals = view.totals
    nodes = {name: _node_status(view, name, node) for name, node in totals.nodes.items()}
    plans = [w.batches[-1].plan for w in view.windows.values() if w.batches]
    keep_rows, omitted = keep_rows_of(totals.header, totals.decision, totals.prices)
    return schemas.StatusAnswer(
        time=view.latest,
        live=view.live,
        stale_seconds=None if view.latest is None else max(0.0, view.clock() - view.latest),
        status=worst_status(node.status for node in nodes.values()),
        bottleneck=_find_bottleneck(nodes),
        shed_share=_shed_share(view, totals.header),
        plan=max((plan for plan in plans if plan is not None), default=None),
        nodes=nodes,
        edges=list(_edges(view, totals.header)) if totals.header else [],
        sinks=_sink_statuses(view, totals.header) if totals.header else {},
        keep_rows=keep_rows,
        omitted_rows=omitted,
    )


def decision_answers(view: RunView, limit: int) -> list[DecisionSummary]:
    """Answer the latest decisions, newest first."""
    view.refresh()
    return [
        DecisionSummary(
            time=decision.time,
            reason=sanitize(decision.reason, 1000),
            replanned=decision.replanned,
            seconds=decision.seconds,
            loads=decision.loads,
            statuses={name: sanitize(text, 60) for name, text in decision.statuses.items()},
        )
        for decision in list(view.decisions)[: -limit - 1 : -1]
    ]


def worst_status(statuses: Iterable[str]) -> str:
    """Find the worst status; nothing is worse than to have no node at all."""
    return max(statuses, key=(STARTING, *STATUSES).index, default=STARTING)


def _shed_share(view: RunView, header: RunHeader | None) -> float:
    """Measure the share of relevant events that are shed at the nodes that read sources."""
    operators = header.operators.values() if header else ()
    sources = set(header.sources) if header else set()
    windows = [
        view.window(node)
        for node in {each.node for each in operators if sources & set(each.inputs)}
    ]
    offered = sum(window.rate(lambda batch: batch.offered) for window in windows)
    shed = sum(window.rate(lambda batch: batch.shed) for window in windows)
    return min(1.0, shed / offered) if offered else 0.0


def _find_bottleneck(nodes: Mapping[str, schemas.NodeStatusAnswer]) -> str | None:
    """Find the node that sheds, or should, and is busiest for what it may be."""
    loads = {n: o.load or 0.0 for n, o in nodes.items() if o.status not in {"OK", STARTING}}
    return max(loads, key=lambda name: loads[name]) if loads else None


def _node_status(view: RunView, name: str, node: NodeTotals) -> schemas.NodeStatusAnswer:
    window, last = view.window(name), node.last
    latency = last.latency if last is not None and view.totals.timed else {}
    mean = latency.get("mean")
    offered = window.rate(lambda batch: batch.offered)
    shed = window.rate(lambda batch: batch.shed)
    simulated = view.totals.header is not None and view.totals.header.simulated
    known = node.status if node.status in STATUSES else "OK"
    return schemas.NodeStatusAnswer(
        status=STARTING if last is None else known,
        advice="" if last is None else sanitize(node.advice),
        load=node.load,
        bound=node.bound,
        percentile=node.percentile,
        headroom=None
        if node.bound is None or mean is None
        else node.bound - held_latency(latency, node.percentile, mean),
        latency={key: latency[key] for key in LATENCIES if key in latency},
        rate=window.rate(lambda batch: batch.events),
        kept_rate=window.rate(lambda batch: batch.kept),
        shed_share=min(1.0, shed / offered) if offered else 0.0,
        batch_seconds=last.seconds if last else None,
        lag=last.lag if last else None,
        partial_matches=None if simulated else _partial_matches(last),
        state_bytes=None if simulated else last.state_bytes if last else 0,
        pressure=last.pressure if last else None,
        point=last_point(view, name),
        explanation=_explanation(node, window, min(1.0, shed / offered) if offered else 0.0),
    )


def _partial_matches(batch: MicroBatchRecord | None) -> int:
    return sum(p.partial_matches for p in batch.patterns.values()) if batch else 0


def _explanation(node: NodeTotals, window: RecentBatches, shed: float) -> str:
    """Say how what is shed at a node with a bound and its load go together."""
    if node.bound is None or not window.batches:
        return ""
    exact = all(batch.relevant_events is not None for batch in window.batches)
    what = "relevant events" if exact else "events, irrelevant ones among them"
    return explain_load(node.load, shed, window.batches[-1].pressure, what)


def explain_load(load: float | None, shed: float, pressure: float | None, what: str) -> str:
    """Say how much is shed and how busy what is kept makes the node, in one sentence.

    The two do not add up to a whole: shed events cost nothing but their reading.

    Example:
        >>> explain_load(0.49, 0.97, 0.6, "relevant events").partition(";")[0]
        'no pattern keeps 97% of the relevant events'
        >>> explain_load(0.7, 0.0, None, "events")
        'nothing is shed; this takes 70% of the time that the bound allows'
    """
    if load is None:
        return ""
    if shed < _SHED_SEEN:
        return f"nothing is shed; this takes {percent(load)} of the time that the bound allows"
    text = (
        f"no pattern keeps {percent(shed)} of the {what}; matching the other "
        f"{percent(1 - shed)} takes {percent(load)} of the time that the bound allows"
    )
    if load > _FULL:
        return f"{text}, more than there is"
    if load >= _IDLE:
        return text
    if pressure is not None and pressure < 1 - _SHED_SEEN:
        return (
            f"{text}; it could do more, but until the backlog is worked off all shares are "
            f"lowered to {percent(pressure)}"
        )
    return f"{text}; there is room, so that the next plan may keep more"


def _edges(view: RunView, header: RunHeader) -> Iterator[schemas.EdgeAnswer]:
    def edge(target: str, stream: str, rate: float, shed_share: float) -> schemas.EdgeAnswer:
        origin = stream if stream in header.sources else stream.partition(".")[0]
        return schemas.EdgeAnswer(
            origin=origin, target=target, stream=stream, rate=rate, shed_share=shed_share
        )

    for name, operator in header.operators.items():
        shed_share = _operator_shed_share(view.window(operator.node), name)
        for stream in operator.inputs:
            yield edge(name, stream, _arrival_rate(view, header, name, stream), shed_share)
    for sink, stream in header.sinks.items():
        yield edge(sink, stream, _match_rate(view, header, stream), 0.0)


def _arrival_rate(view: RunView, header: RunHeader, operator: str, stream: str) -> float:
    """Measure how fast a stream arrives at an operator; within a node it is what is found."""
    window = view.window(header.operators[operator].node)
    if any(stream in batch.arrived.get(operator, {}) for batch in window.batches):
        return window.rate(lambda batch: batch.arrived.get(operator, {}).get(stream, 0))
    return _match_rate(view, header, stream)


def _match_rate(view: RunView, header: RunHeader, stream: str) -> float:
    """Measure how many complex events of a pattern there are in a second."""
    operator = header.operators.get(stream.partition(".")[0])
    if operator is None:
        return 0.0
    return view.window(operator.node).rate(
        lambda batch: batch.patterns[stream].matches if stream in batch.patterns else 0
    )


def _operator_shed_share(window: RecentBatches, operator: str) -> float:
    """Measure which share of their relevant events an operator's patterns shed."""
    offered = kept = 0
    for batch in window.batches:
        for name, pattern in batch.patterns.items():
            if name.partition(".")[0] == operator and pattern.offered is not None:
                offered, kept = offered + pattern.offered, kept + pattern.kept
    return min(1.0, max(0.0, 1 - kept / offered)) if offered else 0.0


def _sink_statuses(view: RunView, header: RunHeader) -> dict[str, schemas.SinkStatusAnswer]:
    decision = view.totals.decision
    predicted = decision.sinks if decision is not None else {}
    return {
        name: schemas.SinkStatusAnswer(
            input=stream,
            weight=view.totals.weights.get(name, 1.0),
            predicted=predicted.get(name),
            observed=_match_rate(view, header, stream) if view.windows else None,
            unshed_sample=_sample(view.totals, name),
        )
        for name, stream in header.sinks.items()
    }


def _sample(totals: RunTotals, sink: str) -> SampleRecord | None:
    said = totals.unshed_sample.get(sink)
    return said and said.model_copy(update={"unknown": sanitize(said.unknown)})
