"""The report of a run: one page of HTML that asks for nothing else.

What a log says is foreign text: all of it is escaped, and the page forbids itself scripts and
requests.
"""

from collections.abc import Iterable, Sequence
from importlib.resources import files

from shedlight.report.charts import Chart, Line, drawn, status_class
from shedlight.report.format import count, escaped, moment, offset, percent, seconds
from shedlight.report.narrative import extent_of, sentences
from shedlight.runlog.aggregate import NodeTotals, RunTotals, run_totals
from shedlight.runlog.follow import Run
from shedlight.runlog.series import (
    LATENCIES,
    NodeSeries,
    decision_log,
    match_series,
    node_series,
    share_table,
)

MOST_ROWS = 500
"""How many rows a table has at most."""

_MOST_LINES = 6
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report_page(run: Run) -> str:
    """Write the report of a run, as HTML."""
    totals = run_totals(run.records)
    start, end = extent_of(run)
    name = escaped(totals.header.application if totals.header else "", 60) or "a run"
    told = "".join(f"<li>{escaped(one, 3000)}</li>\n" for one in sentences(run))
    body = [
        f"<h1>{name}</h1>\n<p>{moment(start)} to {moment(end)}; times count from there.</p>",
        f'<ul class="summary">{told}</ul>',
        _section("Nodes", _nodes(totals)),
        *_figures(run, start, end),
        _section("Patterns", _patterns(totals)),
        _section("What is kept", _shares(run, start)),
        _section("Decisions", _decisions(run, start)),
    ]
    style = files("shedlight.report").joinpath("report.css").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Shedlight: {name}</title>\n<style>\n{style}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escaped(title, 80)}</h2>\n{content}\n</section>"


def _figures(run: Run, start: float, end: float) -> list[str]:
    marks = tuple(one.time for one in run.decisions if one.replanned)
    found = []
    for name, series in node_series(run.records).items():
        charts = [drawn(one, start, end) for one in node_charts(series, marks)]
        found.append(_section(f"Node {name}", f'<div class="charts">{"".join(charts)}</div>'))
    lines = sorted(match_series(run.records).items(), key=lambda one: -one[1][-1][1])
    shown = tuple(
        Line(name, f"line{place}", points)
        for place, (name, points) in enumerate(lines[:_MOST_LINES])
    )
    title = "Complex events found so far"
    if len(lines) > _MOST_LINES:
        title += f", the {_MOST_LINES} patterns with most"
    chart = drawn(Chart(title=title, lines=shown, marks=marks), start, end)
    return [*found, _section("Complex events", f'<div class="charts">{chart}</div>')]


def node_charts(series: NodeSeries, marks: tuple[float, ...]) -> list[Chart]:
    """Say what to draw of a node."""
    points = series.points
    looks = dict(zip(LATENCIES, ("line5", "line0", "line1", "line2"), strict=True))
    latency = tuple(
        Line(name, looks[name], [(one.time, one.latency.get(name)) for one in points])
        for name in ("p99", "p95", "p50", "mean")
    )
    bound = series.bound
    limit = None if bound is None else (f"bound of the mean, {seconds(bound)}", bound)
    rates = (
        Line("read", "line0", [(one.time, one.rate) for one in points]),
        Line("kept", "line2", [(one.time, one.kept_rate) for one in points]),
    )
    share = [(p.time, None if p.share is None else 100 * p.share) for p in points]
    used = [(p.time, None if p.utilisation is None else 100 * p.utilisation) for p in points]
    kept = [Line("kept", "line6", share)]
    if any(p.pressure is not None for p in points):
        lowered = [(p.time, None if p.pressure is None else 100 * p.pressure) for p in points]
        kept.insert(0, Line("shares of the plan lowered to", "line4", lowered))
    load = [(time, 100 * one) for time, one in series.loads]
    busy = [Line("share of the time in micro-batches", "line0", used)]
    if load:
        busy.append(Line("busy time, of its limit", "line2", load))
    batch = [(one.time, one.seconds) for one in points]
    return [
        Chart(
            title="Latency, s",
            lines=latency,
            limit=limit,
            marks=marks,
            statuses=series.statuses,
        ),
        Chart(title="Events per second", lines=rates, marks=marks),
        Chart(title="Events kept, %", lines=tuple(kept), top=100, marks=marks),
        Chart(
            title="Load, %",
            lines=tuple(busy),
            limit=("limit", 100) if load else None,
            top=100,
            marks=marks,
        ),
        Chart(title="Micro-batch, s", lines=(Line("took", "line6", batch),), marks=marks),
    ]


def _nodes(totals: RunTotals) -> str:
    head = ("node", "status", "bound", "mean latency", "above", "events", "kept", "what to do")
    rows = [
        (
            escaped(name, 80),
            _badge(node.status),
            "" if node.bound is None else seconds(node.bound),
            "" if node.mean_latency is None else seconds(node.mean_latency),
            _over(node),
            count(node.events),
            percent(node.kept / node.events) if node.events else "",
            _wide(escaped(node.advice, 1000)),
        )
        for name, node in totals.nodes.items()
    ]
    return _table("Nodes", head, rows, numbers=(2, 3, 4, 5, 6))


def _wide(text: str) -> str:
    return f'<div class="wide">{text}</div>' if text else ""


def _over(node: NodeTotals) -> str:
    if node.bound is None or not node.timed_batches:
        return ""
    return f"{count(node.over)} of {count(node.timed_batches)}"


def _badge(status: str) -> str:
    return f'<span class="badge {status_class(status)}">{escaped(status, 40)}</span>'


def _patterns(totals: RunTotals) -> str:
    head = ("pattern", "events given", "complex events", "matching took", "partial matches")
    rows = [
        (
            escaped(name, 120),
            count(one.kept),
            count(one.matches),
            seconds(one.seconds),
            count(one.partial_matches),
        )
        for name, one in totals.patterns.items()
    ]
    return _table("Patterns", head, rows, numbers=(1, 2, 3, 4))


def _shares(run: Run, start: float) -> str:
    found = share_table(run.decisions)
    if not found:
        return "<p>No plan was made: every pattern keeps all that it has a use for.</p>"
    head = ("pattern", "type", "kept now", "share", "least", "most", "changed at")
    rows = [
        (
            escaped(one.pattern, 120),
            escaped(one.type, 200),
            "not said" if one.now is None else percent(one.now),
            "" if one.now is None else _bar(one.now),
            percent(one.least),
            percent(one.most),
            offset(one.changed - start),
        )
        for one in found
    ]
    return _table("What is kept", head, rows, numbers=(2, 4, 5, 6))


def _bar(share: float) -> str:
    width = 100 * min(1.0, max(0.0, share))
    return (
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="all" width="100" height="10"/>'
        f'<rect class="part" width="{width:.1f}" height="10"/></svg>'
    )


def _decisions(run: Run, start: float) -> str:
    entries = decision_log(run.decisions)
    if not entries:
        return "<p>There were none.</p>"
    rows = []
    for one in entries[-MOST_ROWS:]:
        when = offset(one.decision.time - start)
        if one.number > 1:
            when += f" to {offset(one.last.time - start)}"
        news = [f"{escaped(n, 80)} {_badge(status)}" for n, status in one.news.items()]
        what = ["<b>new plan</b>"] if one.decision.replanned else []
        why = escaped(one.last.reason, 1000)
        for node in one.news:
            if node in one.decision.advice:
                why += f"<br>{escaped(node, 80)}: {escaped(one.decision.advice[node], 1000)}"
        if one.number > 1:
            why = f"{count(one.number, 'decision')} that changed nothing, the last: {why}"
        rows.append((when, "<br>".join(what + news), _wide(why)))
    left = len(entries) - len(rows)
    note = f"<p>The first {count(left)} are left out.</p>" if left else ""
    return note + _table("Decisions", ("at", "what", "why"), rows)


def _table(
    label: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Sequence[int] = (),
) -> str:
    """Write a table of cells that are HTML already.

    Where it is narrow its rows are laid out as blocks (`report.css`), so each number carries
    the name of its column, and what is a row and a cell is said for those who listen.
    """

    def cell(place: int, content: str) -> str:
        if place in numbers:
            return f'<td role="cell" class="number" data-head="{head[place]}">{content}</td>'
        if place == 0:
            return f'<th role="rowheader" scope="row">{content}</th>'
        return f'<td role="cell">{content}</td>'

    def line(cells: Sequence[str]) -> str:
        return f'<tr role="row">{"".join(cell(*one) for one in enumerate(cells))}</tr>'

    looks = ['class="number"' if place in numbers else "" for place in range(len(head))]
    names = "".join(
        f'<th role="columnheader" scope="col" {look}>{name}</th>'
        for look, name in zip(looks, head, strict=True)
    )
    every = list(rows)
    body = "\n".join(line(row) for row in every[:MOST_ROWS])
    left = len(every) - MOST_ROWS
    note = f"<p>{count(left)} more are left out.</p>" if left > 0 else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f'<table role="table"><thead role="rowgroup"><tr role="row">{names}</tr></thead>\n'
        f'<tbody role="rowgroup">{body}</tbody></table></div>{note}'
    )
