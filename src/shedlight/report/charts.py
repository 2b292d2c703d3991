"""Charts as SVG: small, without fonts or colours of their own.

A line looks as its class says (`report.css`), so that the page decides for light and
dark; each line has a colour from the palette of Okabe and Ito and a dash of its own. A chart is
drawn on 440 x 220 units, about the width of a telephone, and is set side by side where there is
room. Where there are too many points, their mean is drawn, and their range around it.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import fmean

from shedlight.report.format import escape, offset, short
from shedlight.runlog.aggregate import STATUSES
from shedlight.runlog.series import split_evenly

WIDTH, HEIGHT = 440, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 430, 22, 192
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
_DAY = 86400
_MAX_POINTS = 200
_MAX_MARKS = 60

Points = Sequence[tuple[float, float | None]]
"""Times and values; None where there is no value and the line has a gap."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart: what it is, how it looks (a class), where it goes."""

    label: str
    look: str
    points: Points


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart over time."""

    title: str  # what it shows, with the unit
    lines: tuple[Line, ...]  # what is drawn, the most important last
    limit: tuple[str, float] | None = None  # a level that matters, with what it is
    top: float = 0.0  # the least that the axis goes up to
    marks: tuple[float, ...] = ()  # when the plan changed
    # when a node came to be in which status; drawn as a band on top
    statuses: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Frame:
    """From times and values to places in the picture."""

    start: float
    end: float
    top: float

    def x(self, time: float) -> float:
        share = (time - self.start) / (self.end - self.start)
        return _LEFT + min(1.0, max(0.0, share)) * (_RIGHT - _LEFT)

    def y(self, value: float) -> float:
        return _BOTTOM - min(1.0, max(0.0, value / self.top)) * (_BOTTOM - _TOP)


def draw_chart(chart: Chart, start: float, end: float) -> str:
    """Draw a chart as a figure of HTML, from one time to another."""
    values = [v for line in chart.lines for _, v in line.points if v is not None]
    levels = [chart.top, *values] + ([chart.limit[1] * 1.1] if chart.limit else [])
    step = nice_step(max(levels, default=0.0) or 1.0)
    top = step * math.ceil(max(*levels, step) / step - 1e-9)
    frame = _Frame(start, max(end, start + 1.0), top)
    shapes = [*_axes(frame, step), *_status_band(frame, chart.statuses)]
    if len(chart.marks) <= _MAX_MARKS:
        shapes += [_mark(frame.x(time)) for time in chart.marks]
    if chart.limit is not None:
        y = frame.y(chart.limit[1])
        shapes.append(
            f'<line class="limit" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
    for line in chart.lines:
        shapes += _curve(frame, line)
    if not values:
        shapes.append(
            f'<text x="{(_LEFT + _RIGHT) / 2}" y="112" class="mid">nothing yet</text>'
        )
    title = escape(chart.title)
    return (
        f'<figure><figcaption>{title}</figcaption>\n<svg viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{title}">\n'
        + "\n".join(shapes)
        + f"\n</svg>\n{_legend(chart)}"
        "</figure>"
    )


def nice_step(most: float, lines: int = 4) -> float:
    """Find a round step so that about so many of them reach a value.

    Example:
        >>> nice_step(17), nice_step(70_000), nice_step(1)
        (5.0, 20000.0, 0.25)
    """
    rough = max(most, 1e-6) / lines
    size = 10.0 ** math.floor(math.log10(rough))
    return next((s * size for s in (1.0, 2.0, 2.5, 5.0) if s * size >= rough), 10 * size)


def _axes(frame: _Frame, step: float) -> Iterator[str]:
    for number in range(round(frame.top / step) + 1):
        y = frame.y(number * step)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        label = short(float(f"{number * step:.6g}"))
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" class="end">{label}</text>'
    length = frame.end - frame.start
    ticks = next((s for s in _STEPS if length / s <= 6), 0)  # noqa: PLR2004
    ticks = ticks or _DAY * max(1, math.ceil(length / _DAY / 6))
    for number in range(int(length / ticks) + 1):
        x = frame.x(frame.start + number * ticks)
        label = offset(number * ticks)
        ends = f'y1="{_BOTTOM}" y2="{_BOTTOM + 4}"'
        yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" {ends}/>'
        yield f'<text x="{x:.1f}" y="{_BOTTOM + 18}" class="mid">{label}</text>'
    yield f'<line class="axis" x1="{_LEFT}" x2="{_RIGHT}" y1="{_BOTTOM}" y2="{_BOTTOM}"/>'


def _status_band(frame: _Frame, statuses: Sequence[tuple[float, str]]) -> Iterator[str]:
    """Draw the status of a node: the worse, the higher; the worst where it changed often."""
    worst: dict[int, str] = {}
    for (begun, status), (ended, _) in pairwise([*statuses, (frame.end, "")]):
        left = round(frame.x(begun))
        for x in range(left, max(left + 1, round(frame.x(ended)))):
            worst[x] = max(worst.get(x, ""), status, key=_rank)
    for status, columns in groupby(sorted(worst), key=lambda x: worst[x]):
        left, *others = columns
        height = 4 + 3 * max(0, _rank(status))
        yield (
            f'<rect class="{status_class(status)}" x="{left}" y="{16 - height}" '
            f'width="{1 + len(others)}" height="{height}">'
            f"<title>{escape(status)}</title></rect>"
        )


def _rank(status: str) -> int:
    return STATUSES.index(status) if status in STATUSES else -1


def status_class(status: str) -> str:
    """Name the CSS class of a status."""
    return f"status{_rank(status)}" if status in STATUSES else "status"


def _mark(x: float) -> str:
    return f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_BOTTOM}"/>'


def _curve(frame: _Frame, line: Line) -> Iterator[str]:
    for points in _connected(downsample(line.points)):
        middle = [f"{frame.x(p.time):.1f},{frame.y(p.mean):.1f}" for p in points]
        if any(p.least != p.most for p in points):
            above = [f"{frame.x(p.time):.1f},{frame.y(p.most):.1f}" for p in points]
            below = [f"{frame.x(p.time):.1f},{frame.y(p.least):.1f}" for p in points]
            around = " ".join(above + below[::-1])
            yield f'<polygon class="{line.look} around" points="{around}"/>'
        if len(middle) == 1:
            x, y = middle[0].split(",")
            yield f'<circle class="{line.look} dot" cx="{x}" cy="{y}" r="2.5"/>'
        else:
            yield f'<polyline class="{line.look}" points="{" ".join(middle)}"/>'


@dataclass(frozen=True, slots=True)
class Stretch:
    """Points that follow each other: when the first was, their mean and their range."""

    time: float
    mean: float
    least: float
    most: float


def downsample(points: Points) -> Iterator[Stretch | None]:
    """Put points together so that they fit a chart; None where there is no value."""
    for chunk in split_evenly(points, _MAX_POINTS):
        values = [value for _, value in chunk if value is not None]
        if values:
            yield Stretch(chunk[0][0], fmean(values), min(values), max(values))
        else:
            yield None


def _connected(points: Iterable[Stretch | None]) -> Iterator[list[Stretch]]:
    """Split a line at its gaps."""
    for known, line in groupby(points, key=lambda point: point is not None):
        if known:
            yield [point for point in line if point is not None]


def _legend(chart: Chart) -> str:
    """Name the lines, below the picture, where they can be wrapped."""
    swatch = '<svg viewBox="0 0 24 10" aria-hidden="true">{}</svg>'
    stroke = '<line class="{}" x1="1" x2="23" y1="5" y2="5"/>'
    items = [(stroke.format(line.look), line.label) for line in chart.lines]
    if chart.limit is not None:
        items.append((stroke.format("limit"), chart.limit[0]))
    if 0 < len(chart.marks) <= _MAX_MARKS:
        items.append(('<line class="mark" x1="12" x2="12" y1="0" y2="10"/>', "new plan"))
    for status in dict.fromkeys(status for _, status in chart.statuses):
        box = f'<rect class="{status_class(status)}" x="4" y="1" width="16" height="8"/>'
        items.append((box, status))
    entries = "".join(f"<li>{swatch.format(s)}{escape(label, 40)}</li>" for s, label in items)
    return f'<ul class="legend">{entries}</ul>'
