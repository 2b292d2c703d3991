"""Totals of a run for the web UI: what there was in all, and how each node and sink fared."""

from shedlight.page import schemas
from shedlight.page.run_view import RunView
from shedlight.report.format import count, percent, sanitize
from shedlight.runlog.aggregate import NodeTotals


def totals_answer(view: RunView) -> schemas.TotalsAnswer:
    """Answer the totals of a run since its log begins."""
    view.refresh()
    totals = view.totals
    header = totals.header
    return schemas.TotalsAnswer(
        began=view.first,
        ended=view.latest,
        live=view.live,
        starts=totals.starts,
        decisions=totals.decisions,
        plans=totals.plans,
        nodes={name: _node(node) for name, node in totals.nodes.items()},
        patterns={
            name: schemas.PatternTotalsAnswer(
                kept=pattern.kept,
                complex_events=pattern.matches,
                seconds=pattern.seconds,
                partial_matches=None
                if header is not None and header.simulated
                else pattern.partial_matches,
            )
            for name, pattern in totals.patterns.items()
        },
        sinks={
            name: schemas.SinkTotalsAnswer(
                input=stream,
                complex_events=totals.patterns[stream].matches
                if stream in totals.patterns
                else 0,
                unshed_sample=totals.unshed_sample.get(name),
            )
            for name, stream in (header.sinks.items() if header else ())
        },
        late={name: number for name, number in totals.late.items() if number},
        malformed={name: number for name, number in totals.malformed.items() if number},
        summary=sanitize(_summarize(view), 1000),
    )


def _node(node: NodeTotals) -> schemas.NodeTotalsAnswer:
    return schemas.NodeTotalsAnswer(
        bound=node.bound,
        percentile=node.percentile,
        status=node.status,
        batches=node.batches,
        events=node.events,
        kept=node.kept,
        shed=node.shed,
        irrelevant=node.irrelevant,
        mean_latency=node.mean_latency,
        over_share=node.over_share,
        keeps_bound=node.keeps_bound,
        worst=node.worst[0] if node.worst else None,
        worst_time=node.worst[1] if node.worst else None,
    )


def _summarize(view: RunView) -> str:
    """Say in a sentence or three how the run was."""
    totals = view.totals
    if not any(node.batches for node in totals.nodes.values()):
        return "No micro-batch has ended, so there is nothing to add up."
    events = sum(node.events for node in totals.nodes.values())
    shed = sum(node.shed for node in totals.nodes.values())
    relevant = shed + sum(node.kept for node in totals.nodes.values())
    known = all(node.exact for node in totals.nodes.values())
    found = sum(pattern.matches for pattern in totals.patterns.values())
    text = f"{count(events, 'event')} read, {count(found, 'complex event')} found"
    if shed:
        of = "relevant events" if known else "events, irrelevant ones among them,"
        text += f"; {percent(shed / relevant)} of the {of} shed"
    elif relevant:
        text += "; nothing shed"
    if not totals.timed:
        return f"{text}. The events were there before, so there is no latency to speak of."
    bounded = {n: node for n, node in totals.nodes.items() if node.bound and node.timed}
    broken = sorted(name for name, node in bounded.items() if not node.keeps_bound)
    if broken:
        return f"{text}. Over its bound, taken over the whole run: {', '.join(broken)}."
    return f"{text}. All bounds held, taken over the whole run." if bounded else f"{text}."
