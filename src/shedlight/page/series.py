"""A node over time: its latency, rates, kept shares and load, as curves to be drawn."""

from collections.abc import Callable

from shedlight.errors import known_names
from shedlight.page import schemas
from shedlight.page.errors import RequestError
from shedlight.page.run_view import RunView
from shedlight.report.format import sanitize
from shedlight.runlog.series import NodePoint, NodeSeries, merge_points, split_evenly

MAX_CURVE_POINTS = 600  # how many points a curve has at most

CURVES: dict[str, Callable[[NodePoint], float | None]] = {
    "mean": lambda point: point.mean,
    "p50": lambda point: point.p50,
    "p95": lambda point: point.p95,
    "p99": lambda point: point.p99,
    "rate": lambda point: point.rate,
    "kept_rate": lambda point: point.kept_rate,
    "kept": lambda point: point.kept,
    "pressure": lambda point: point.pressure,
    "busy": lambda point: point.busy,
    "load": lambda point: point.load,
    "took": lambda point: point.took,
}
"""What is drawn of a node, by its name in `SeriesAnswer` and `PointAnswer`."""


def series_answer(
    view: RunView, node: str, seconds: float, most: int = MAX_CURVE_POINTS
) -> schemas.SeriesAnswer:
    """Answer how a node was in the last seconds of what the log has of it.

    Raises:
        RequestError: There is no such node.
    """
    view.refresh()
    totals = view.totals.nodes.get(node)
    if totals is None:
        hint = known_names(node, list(view.totals.nodes))
        raise RequestError(404, f"there is no node {node[:60]!r}; {hint}")
    series = view.series.get(node) or NodeSeries()
    since = series.points[-1].time - seconds if series.points else 0.0
    recent = [point for point in series.points if point.time >= since]
    points = [merge_points(chunk) for chunk in split_evenly(recent, most)]
    return schemas.SeriesAnswer.model_validate(
        {
            "node": node,
            "bound": totals.bound,
            "percentile": totals.percentile,
            "time": [point.time for point in points],
            "statuses": [
                (time, sanitize(status, 60))
                for (time, status), end in _with_ends(series.statuses)
                if end >= since
            ],
            "plans": [d.time for d in view.decisions if d.replanned and d.time >= since],
        }
        | {name: [_tidy(value(p)) for p in points] for name, value in CURVES.items()}
    )


def last_point(view: RunView, node: str) -> schemas.PointAnswer | None:
    """Give the last point of a node, if it had a micro-batch."""
    series = view.series.get(node)
    if series is None or not series.points:
        return None
    point = series.points[-1]
    values = {name: _tidy(value(point)) for name, value in CURVES.items()}
    return schemas.PointAnswer.model_validate({"time": point.time, **values})


def _with_ends(
    statuses: list[tuple[float, str]],
) -> list[tuple[tuple[float, str], float]]:
    """Add to each status when the next one began."""
    ends = [time for time, _ in statuses[1:]]
    return list(zip(statuses, [*ends, float("inf")], strict=True)) if statuses else []


def _tidy(value: float | None) -> float | None:
    """Round to five digits: nobody sees more of a curve."""
    return None if value is None else float(f"{value:.5g}")
