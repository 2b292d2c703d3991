"""The report of a run: one page of HTML that asks for nothing else.

What a log says is foreign text: all of it is escaped, and the page forbids itself scripts and
requests.
"""

from collections.abc import Iterable, Sequence
from importlib.resources import files

from shedlight.graph.application import bound_kind
from shedlight.report.charts import Chart, Line, draw_chart, status_class
from shedlight.report.format import count, escape, moment, offset, percent, seconds
from shedlight.report.narrative import sentences, time_span
from shedlight.runlog.aggregate import NodeTotals, RunTotals, run_totals
from shedlight.runlog.follow import Run
from shedlight.runlog.series import (
    NodeSeries,
    decision_entries,
    keep_share_rows,
    match_series,
    node_series,
)

MAX_ROWS = 500  # how many rows a table has at most

_MAX_LINES = 6
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_LATENCY_CLASSES = {"p99": "line2", "p95": "line1", "p50": "line0", "mean": "line5"}


def report_page(run: Run) -> str:
    """Write the report of a run, as HTML."""
    totals = run_totals(run.records)
    start, end = time_span(run)
    name = escape(totals.header.application if totals.header else "", 60) or "a run"
    summary = "".join(f"<li>{escape(text, 3000)}</li>\n" for text in sentences(run))
    body = [
        f"<h1>{name}</h1>\n<p>{moment(start)} to {moment(end)}; times count from there.</p>",
        f'<ul class="summary">{summary}</ul>',
        _section("Nodes", _node_table(totals)),
        *_chart_sections(run, totals, start, end),
        _section("Patterns", _pattern_table(totals)),
        _section("Keep shares", _keep_share_table(run, start)),
        _section("Decisions", _decision_table(run, start)),
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
    return f"<section><h2>{escape(title, 80)}</h2>\n{content}\n</section>"


def _chart_sections(run: Run, totals: RunTotals, start: float, end: float) -> list[str]:
    def section(name: str, charts: Iterable[Chart]) -> str:
        drawings = "".join(draw_chart(chart, start, end) for chart in charts)
        return _section(name, f'<div class="charts">{drawings}</div>')

    marks = tuple(decision.time for decision in run.decisions if decision.replanned)
    sections = [
        section(f"Node {name}", node_charts(series, totals.nodes[name], marks))
        for name, series in node_series(run.records).items()
    ]
    patterns = sorted(match_series(run.records).items(), key=lambda item: -item[1][-1][1])
    lines = tuple(
        Line(name, f"line{index}", points)
        for index, (name, points) in enumerate(patterns[:_MAX_LINES])
    )
    title = "Complex events found so far"
    if len(patterns) > _MAX_LINES:
        title += f", the {_MAX_LINES} patterns with most"
    matches = Chart(title=title, lines=lines, marks=marks)
    return [*sections, section("Complex events", [matches])]


def node_charts(series: NodeSeries, node: NodeTotals, marks: tuple[float, ...]) -> list[Chart]:
    """Choose what to draw of a node, with its bound and the times of new plans."""
    points = [(point, point.batch, point.batch.time) for point in series.points]
    latency = tuple(
        Line(name, look, [(time, point.latency.get(name)) for point, _, time in points])
        for name, look in _LATENCY_CLASSES.items()
    )
    limit = None if node.bound is None else (f"bound, {_bound(node)}", node.bound)
    rates = (
        Line("read", "line0", [(time, point.rate) for point, _, time in points]),
        Line("kept", "line2", [(time, point.kept_rate) for point, _, time in points]),
    )
    kept = [Line("kept", "line6", [(time, _percent(b.kept_share)) for _, b, time in points])]
    if any(batch.pressure is not None for _, batch, _ in points):
        pressure = [(time, _percent(batch.pressure)) for _, batch, time in points]
        kept.insert(0, Line("shares of the plan lowered to", "line4", pressure))
    busy = [(time, _percent(point.utilisation)) for point, _, time in points]
    load = [Line("share of the time in micro-batches", "line0", busy)]
    if series.loads:
        loads = [(time, _percent(value)) for time, value in series.loads]
        load.append(Line("busy time, of its limit", "line2", loads))
    took = Line("took", "line6", [(time, batch.seconds) for _, batch, time in points])
    return [
        Chart(
            title="Latency, s",
            lines=latency,
            limit=limit,
            marks=marks,
            statuses=tuple(series.statuses),
        ),
        Chart(title="Events per second", lines=rates, marks=marks),
        Chart(title="Events kept, %", lines=tuple(kept), top=100, marks=marks),
        Chart(
            title="Load, %",
            lines=tuple(load),
            limit=("limit", 100) if series.loads else None,
            top=100,
            marks=marks,
        ),
        Chart(title="Micro-batch, s", lines=(took,), marks=marks),
    ]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _node_table(totals: RunTotals) -> str:
    head = ("node", "status", "bound", "mean latency", "above", "events", "kept", "what to do")
    rows = [
        (
            escape(name, 80),
            _badge(node.status),
            _bound(node),
            "" if node.mean_latency is None else seconds(node.mean_latency),
            _over_bound(node),
            count(node.events),
            percent(node.kept / node.events) if node.events else "",
            _wide(escape(node.advice, 1000)),
        )
        for name, node in totals.nodes.items()
    ]
    return _table("Nodes", head, rows, numbers=(2, 3, 4, 5, 6))


def _bound(node: NodeTotals) -> str:
    if node.bound is None:
        return ""
    return f"{seconds(node.bound)} {bound_kind(node.percentile)}"


def _wide(text: str) -> str:
    return f'<div class="wide">{text}</div>' if text else ""


def _over_bound(node: NodeTotals) -> str:
    if node.bound is None or not node.timed_batches:
        return ""
    return f"{count(node.over)} of {count(node.timed_batches)}"


def _badge(status: str) -> str:
    return f'<span class="badge {status_class(status)}">{escape(status, 40)}</span>'


def _pattern_table(totals: RunTotals) -> str:
    head = ("pattern", "events given", "complex events", "matching took", "partial matches")
    rows = [
        (
            escape(name, 120),
            count(pattern.kept),
            count(pattern.matches),
            seconds(pattern.seconds),
            count(pattern.partial_matches),
        )
        for name, pattern in totals.patterns.items()
    ]
    return _table("Patterns", head, rows, numbers=(1, 2, 3, 4))


def _keep_share_table(run: Run, start: float) -> str:
    shares = keep_share_rows(run.decisions)
    if not shares:
        return "<p>No plan was made: every pattern keeps all relevant events.</p>"
    head = ("pattern", "type", "current", "share", "lowest", "highest", "changed at")
    rows = [
        (
            escape(row.pattern, 120),
            escape(row.type, 200),
            "not said" if row.current is None else percent(row.current),
            "" if row.current is None else _bar(row.current),
            percent(row.lowest),
            percent(row.highest),
            offset(row.changed - start),
        )
        for row in shares
    ]
    return _table("Keep shares", head, rows, numbers=(2, 4, 5, 6))


def _bar(share: float) -> str:
    width = 100 * min(1.0, max(0.0, share))
    return (
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="all" width="100" height="10"/>'
        f'<rect class="part" width="{width:.1f}" height="10"/></svg>'
    )


def _decision_table(run: Run, start: float) -> str:
    entries = decision_entries(run.decisions)
    if not entries:
        return "<p>There were none.</p>"
    rows = []
    for entry in entries[-MAX_ROWS:]:
        when = offset(entry.decision.time - start)
        what = ["<b>new plan</b>"] if entry.decision.replanned else []
        what += [f"{escape(n, 80)} {_badge(status)}" for n, status in entry.changes.items()]
        why = escape(entry.last.reason, 1000)
        for node in entry.changes:
            if advice := entry.decision.advice.get(node):
                why += f"<br>{escape(node, 80)}: {escape(advice, 1000)}"
        if entry.number > 1:
            when += f" to {offset(entry.last.time - start)}"
            why = f"{count(entry.number, 'decision')} that changed nothing, the last: {why}"
        rows.append((when, "<br>".join(what), _wide(why)))
    left = len(entries) - len(rows)
    note = f"<p>The first {count(left)} are left out.</p>" if left else ""
    return note + _table("Decisions", ("at", "what", "why"), rows)


def _table(
    label: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[int] = (),
) -> str:
    """Write a table of cells that are HTML already.

    Where it is narrow its rows are laid out as blocks (`report.css`), so each number carries
    the name of its column, and what is a row and a cell is said for those who listen.
    """

    def cell(column: int, content: str) -> str:
        if column in numbers:
            return f'<td role="cell" class="number" data-head="{head[column]}">{content}</td>'
        if column == 0:
            return f'<th role="rowheader" scope="row">{content}</th>'
        return f'<td role="cell">{content}</td>'

    classes = [" class=number" * (column in numbers) for column in range(len(head))]
    names = "".join(
        f'<th role="columnheader" scope="col"{look}>{name}</th>'
        for look, name in zip(classes, head, strict=True)
    )
    body = "\n".join(
        f'<tr role="row">{"".join(cell(*item) for item in enumerate(row))}</tr>'
        for row in rows[:MAX_ROWS]
    )
    left = len(rows) - MAX_ROWS
    note = f"<p>{count(left)} more are left out.</p>" if left > 0 else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f'<table role="table"><thead role="rowgroup"><tr role="row">{names}</tr></thead>\n'
        f'<tbody role="rowgroup">{body}</tbody></table></div>{note}'
    )
