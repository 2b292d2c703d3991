"""The figure of the experiment on scalability, drawn from its file of results alone."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from experiments.figures.style import BLACK, GREY, Look, despine, new_figure, save
from experiments.results_file import read_results
from experiments.scalability import (
    REPORTED,
    ProgramForm,
    ReportedTime,
    TimedSolve,
    median_points,
)
from shedlight.errors import InputError

_REMARK = (
    "Lines join sizes with the same number of types. Stars are what the paper reports: its "
    "instances, solver\nand machine differ from these, so compare how times grow, not how "
    "high they are."
)


_LOOKS: Mapping[ProgramForm, Look] = MappingProxyType(
    {
        ProgramForm.PAPER: Look("the paper's program", "#D55E00", "s"),
        ProgramForm.PLAN: Look("a complete plan, from arrays to shares", "#009E73", "^"),
        ProgramForm.REDUCED: Look("the reduced program", "#0072B2", "o"),
    }
)


def draw_scalability(results: Path, image: Path) -> None:
    """Draw seconds against size, a panel per share of the queries that use a type.

    Args:
        results: What `python -m experiments scalability` wrote.
        image: Where to write the picture; its ending says in which form.

    Raises:
        InputError: The results cannot be read, or the picture cannot be written.
    """
    read = read_results(results, TimedSolve)
    points = median_points(read.rows)
    if not points or "time_limit" not in read.made_with:
        raise InputError(f"{results}: it must have rows, and on top a line '# time_limit: ...'")
    limit = float(read.made_with["time_limit"])
    shares = sorted({size.share for _, size in points})
    figure = new_figure(4.2 * len(shares) + 0.6, 6.2, dpi=150)
    panels = figure.subplots(1, len(shares), sharex=True, sharey=True, squeeze=False)[0]
    for panel, share in zip(panels, shares, strict=True):
        _draw_panel(panel, share, [one for one in points.values() if one.share == share], limit)
    panels[0].set_ylabel("seconds", fontsize=11)
    figure.suptitle("How long planning takes, by the size of the problem", fontsize=14)
    figure.legend(
        handles=_legend(limit),
        loc="outside lower center",
        ncols=3,
        frameon=False,
        title=_REMARK,
        title_fontsize=9,
    )
    save(figure, image)


def _draw_panel(panel: Axes, share: float, points: Sequence[TimedSolve], limit: float) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.margins(x=0.12, y=0.12)
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.yaxis.set_major_formatter("{x:g}")
    despine(panel)
    panel.set_title(f"each type is in {share:.0%} of the queries", fontsize=12)
    panel.set_xlabel("types x queries", fontsize=11)
    for types in sorted({one.types for one in points}):
        mine = sorted(
            (one for one in points if one.types == types), key=lambda one: one.queries
        )
        _name_types(panel, types, [one.queries for one in mine])
        for program, look in _LOOKS.items():
            _draw_line(panel, look, [one for one in mine if one.program is program], limit)
    for reported in REPORTED:
        if any(one.size == reported.size for one in points):
            _draw_reported(panel, reported)


def _draw_line(panel: Axes, look: Look, line: Sequence[TimedSolve], limit: float) -> None:
    """Draw the points of one number of types; those without an answer lie at the limit."""
    sizes = [one.types * one.queries for one in line]
    heights = [limit if one.seconds is None else one.seconds for one in line]
    panel.plot(sizes, heights, color=look.colour, linewidth=1.2, alpha=0.7)
    for one, size, height in zip(line, sizes, heights, strict=True):
        answered = one.seconds is not None
        panel.plot(
            size,
            height,
            linestyle="none",
            marker=look.marker,
            markersize=7,
            color=look.colour,
            markerfacecolor=look.colour if answered else "white",
        )
        if not answered:
            panel.annotate(
                "",
                (size, height * 2.4),
                (size, height * 1.15),
                arrowprops={"arrowstyle": "->", "color": look.colour},
            )


def _name_types(panel: Axes, types: int, queries: Sequence[int]) -> None:
    """Write at the bottom, below the lines of a number of types, which number it is."""
    panel.text(
        types * math.sqrt(min(queries) * max(queries)),
        0.02,
        f"{types:,} types",
        transform=panel.get_xaxis_transform(),
        ha="center",
        fontsize=9,
        color=GREY,
    )


def _draw_reported(panel: Axes, reported: ReportedTime) -> None:
    """Draw a star; less than its time is written below it, more above."""
    position = (reported.size.types * reported.size.queries, reported.seconds)
    panel.plot(*position, marker="*", markersize=13, color=BLACK)
    panel.annotate(
        reported.label,
        position,
        (0, 9 if reported.sign > 0 else -17),
        textcoords="offset points",
        ha="center",
        fontsize=9,
        color=BLACK,
    )


def _legend(limit: float) -> list[Line2D]:
    lines = [
        Line2D([], [], color=look.colour, marker=look.marker, markersize=7, label=look.label)
        for look in _LOOKS.values()
    ]
    hollow = Line2D(
        [],
        [],
        linestyle="none",
        marker="s",
        markersize=7,
        color=_LOOKS[ProgramForm.PAPER].colour,
        markerfacecolor="white",
        label=f"no answer within {limit:g} s, or skipped for that",
    )
    star = Line2D(
        [],
        [],
        linestyle="none",
        marker="*",
        markersize=12,
        color=BLACK,
        label="as the paper reports",
    )
    return [*lines, hollow, star]
