"""A run in a few sentences: were the bounds kept, what was shed, why did plans change."""

from collections.abc import Iterator

from shedlight.graph.application import bound_kind
from shedlight.report.format import count, moment, offset, percent, sanitize, seconds
from shedlight.runlog.aggregate import NodeTotals, RunTotals, run_totals
from shedlight.runlog.follow import Run

_MAX_PLANS = 5
_MAX_SHARES = 4


def time_span(run: Run) -> tuple[float, float]:
    """Find when a run began and ended, in seconds since 1970.

    Without a header it began with the first micro-batch.
    """
    times = [record.time for record in run.records if record.time > 0]
    times += [batch.time - batch.seconds for batch in run.batches]
    return min(times, default=0.0), max(times, default=0.0)


def sentences(run: Run) -> list[str]:
    """Describe how a run went."""
    totals = run_totals(run.records)
    start, end = time_span(run)
    texts = [_describe_run(totals, start, end)]
    for name, node in totals.nodes.items():
        texts.append(f"Node {sanitize(name, 60)} {_describe_latency(node, totals, start)}.")
        if node.events:
            texts.append(f"Node {sanitize(name, 60)} {_describe_shedding(node)}.")
    texts += _describe_plans(run, totals, start)
    texts += _describe_rejects(run, totals)
    return texts


def _describe_run(totals: RunTotals, start: float, end: float) -> str:
    name = sanitize(totals.header.application, 60) if totals.header else ""
    batches = sum(node.batches for node in totals.nodes.values())
    matches = sum(pattern.matches for pattern in totals.patterns.values())
    again = f", started {totals.starts} times" if totals.starts > 1 else ""
    return (
        f"The run{f' of {name}' * bool(name)} took {seconds(end - start)} from {moment(start)}"
        f"{again}: {count(batches, 'micro-batch')} on {count(len(totals.nodes), 'node')}, "
        f"{count(matches, 'complex event')} found, {count(totals.decisions, 'decision')}."
    )


def _describe_latency(node: NodeTotals, totals: RunTotals, start: float) -> str:
    if node.mean_latency is None:
        if not totals.timed:
            return "was given what was there before it began: its latency says nothing"
        return "kept no event whose latency could be measured"
    mean = seconds(node.mean_latency)
    if node.bound is None:
        if totals.header is None:
            return f"had a mean latency of {mean}; the log does not say its bound"
        return f"has no bound; its mean latency was {mean}"
    verdict = "kept its bound" if node.keeps_bound else "did not keep its bound"
    bound = f"{seconds(node.bound)} {bound_kind(node.percentile)}"
    text = f"{verdict}: the mean latency was {mean}, the bound is {bound}"
    if node.percentile is not None:
        share = percent(node.over_share or 0.0)
        text += f", and about {share} of the kept events took longer"
    if node.over and node.worst is not None:
        worst, when = node.worst
        batches = count(node.timed_batches, "micro-batch")
        what = "a mean" if node.percentile is None else f"a p{node.percentile}"
        text += f"; {count(node.over)} of {batches} had {what} above it, at worst "
        text += f"{seconds(worst)} at {offset(when - start)}"
    if node.empty_batches:
        text += f"; {count(node.empty_batches, 'micro-batch')} kept nothing of what came"
    return text


def _describe_shedding(node: NodeTotals) -> str:
    text = f"kept {percent(node.kept / node.events)} of {count(node.events, 'event')}"
    if node.shed:
        what = "were shed" if node.exact else "were shed or relevant to no pattern"
        text += f"; {count(node.shed)} {what}"
    return text


def _describe_plans(run: Run, totals: RunTotals, start: float) -> Iterator[str]:
    changes = [decision for decision in run.decisions if decision.replanned]
    if not changes:
        yield "The plan never changed."
        return
    often = "once" if len(changes) == 1 else f"{count(len(changes))} times"
    shown = changes if len(changes) <= _MAX_PLANS else changes[: _MAX_PLANS - 1]
    more = len(changes) > len(shown)
    yield f"The plan changed {often}{f'; the first {len(shown)}:' if more else '.'}"
    for change in shown:
        yield f"At {offset(change.time - start)} the plan changed: {sanitize(change.reason)}."
    shares = totals.decision.shares if totals.decision is not None else {}
    rows = sorted((s, p, label) for p, types in shares.items() for label, s in types.items())
    least = [
        f"{sanitize(pattern, 60)} {percent(share)} of {sanitize(label, 60)}"
        for share, pattern, label in rows[:_MAX_SHARES]
        if share < 1
    ]
    if least:
        yield f"The last plan keeps least of: {', '.join(least)}."


def _describe_rejects(run: Run, totals: RunTotals) -> Iterator[str]:
    for name, number in totals.malformed.items():
        if number:
            yield f"Source {sanitize(name, 60)}: {count(number, 'malformed record')}."
    for name, number in totals.late.items():
        if number:
            yield f"At {sanitize(name, 60)}, {count(number, 'event')} came too late."
    if run.skipped:
        yield f"{count(run.skipped, 'line')} of the log could not be read."
