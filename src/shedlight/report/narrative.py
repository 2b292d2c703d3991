"""A run in a few sentences: were the bounds kept, what was shed, why did plans change."""

from collections.abc import Iterator

from shedlight.report.format import count, moment, offset, percent, sanitize, seconds
from shedlight.runlog.aggregate import NodeTotals, RunTotals, run_totals
from shedlight.runlog.follow import Run

_MOST_PLANS = 5
_MOST_SHARES = 4


def extent_of(run: Run) -> tuple[float, float]:
    """Say when a run began and ended, in seconds since 1970.

    Without a header it began with the first micro-batch.
    """
    times = [one.time for one in run.records if one.time > 0]
    times += [one.time - one.seconds for one in run.batches]
    return min(times, default=0.0), max(times, default=0.0)


def sentences(run: Run) -> list[str]:
    """Say how a run went."""
    totals = run_totals(run.records)
    start, end = extent_of(run)
    found = [_what(run, totals, start, end)]
    for name, node in totals.nodes.items():
        found.append(f"Node {sanitize(name, 60)} {_bound(node, totals, start)}.")
        if node.events:
            found.append(f"Node {sanitize(name, 60)} {_kept(node)}.")
    found += _plans(run, totals, start)
    found += _oddities(run, totals)
    return found


def _what(run: Run, totals: RunTotals, start: float, end: float) -> str:
    name = sanitize(totals.header.application, 60) if totals.header else ""
    batches = sum(node.batches for node in totals.nodes.values())
    matches = sum(one.matches for one in totals.patterns.values())
    again = f", started {totals.starts} times" if totals.starts > 1 else ""
    return (
        f"The run{f' of {name}' * bool(name)} took {seconds(end - start)} from {moment(start)}"
        f"{again}: {count(batches, 'micro-batch')} on {count(len(totals.nodes), 'node')}, "
        f"{count(matches, 'complex event')} found, "
        f"{count(len(run.decisions), 'decision')}."
    )


def _bound(node: NodeTotals, totals: RunTotals, start: float) -> str:
    if node.mean_latency is None:
        if totals.header is not None and not totals.header.timed:
            return "was given what was there before it began: its latency says nothing"
        return "kept no event whose latency could be measured"
    mean = seconds(node.mean_latency)
    if node.bound is None:
        if totals.header is None:
            return f"had a mean latency of {mean}; the log does not say its bound"
        return f"has no bound; its mean latency was {mean}"
    verdict = "kept its bound" if node.mean_latency <= node.bound else "did not keep its bound"
    text = f"{verdict}: the mean latency was {mean}, the bound is {seconds(node.bound)}"
    if node.over and node.worst is not None:
        worst, when = node.worst
        of = count(node.timed_batches, "micro-batch")
        text += f"; {count(node.over)} of {of} had a mean above it, at worst {seconds(worst)}"
        text += f" at {offset(when - start)}"
    return text


def _kept(node: NodeTotals) -> str:
    text = f"kept {percent(node.kept / node.events)} of {count(node.events, 'event')}"
    if node.shed:
        what = "were shed" if node.exact else "were shed or of no use to any pattern"
        text += f"; {count(node.shed)} {what}"
    return text


def _plans(run: Run, totals: RunTotals, start: float) -> Iterator[str]:
    changes = [one for one in run.decisions if one.replanned]
    if not changes:
        yield "The plan never changed."
        return
    often = "once" if len(changes) == 1 else f"{count(len(changes))} times"
    shown = changes if len(changes) <= _MOST_PLANS else changes[: _MOST_PLANS - 1]
    more = len(changes) > len(shown)
    yield f"The plan changed {often}{f'; the first {len(shown)}:' if more else '.'}"
    for one in shown:
        yield f"At {offset(one.time - start)} the plan changed: {sanitize(one.reason)}."
    last = totals.decision.shares if totals.decision is not None else {}
    shares = sorted((s, p, label) for p, one in last.items() for label, s in one.items())
    least = [one for one in shares if one[0] < 1][:_MOST_SHARES]
    if least:
        told = [
            f"{sanitize(p, 60)} {percent(s)} of {sanitize(label, 60)}" for s, p, label in least
        ]
        yield "The last plan keeps least of: " + ", ".join(told) + "."


def _oddities(run: Run, totals: RunTotals) -> Iterator[str]:
    for name, number in totals.malformed.items():
        if number:
            yield f"Source {sanitize(name, 60)}: {count(number, 'malformed record')}."
    for name, number in totals.late.items():
        if number:
            yield f"At {sanitize(name, 60)}, {count(number, 'event')} came too late."
    if run.skipped:
        yield f"{count(run.skipped, 'line')} of the log could not be read."
