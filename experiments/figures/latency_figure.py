"""Figures of the experiment on latency, drawn from its files of results alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from experiments.figures.style import BLACK, GREY, LOOKS, despine, new_figure, save
from experiments.latency import IntervalRow, Method, SteadyStateRow, limit_deviation
from experiments.results_file import read_results
from shedlight.errors import InputError

_MAX_BUSY_SHOWN = 4.5
_LIMIT: Mapping[str, Any] = {"color": BLACK, "linestyle": "--", "linewidth": 1.0}


def draw_timelines(results: Path, image: Path) -> None:
    """Draw busy time and latency over time for one seed, and how far off the limit all are.

    Args:
        results: What `python -m experiments latency` wrote.
        image: Where to write the picture; its ending says in which form.

    Raises:
        InputError: The results cannot be read, or the picture cannot be written.
    """
    rows = read_results(results, IntervalRow).rows
    if not rows:
        raise InputError(f"{results}: it must have rows")
    data = list(dict.fromkeys(row.data for row in rows))
    seed = rows[0].seed
    figure = new_figure(13.0, 3.6 * len(data) + 0.6)
    panels = figure.subplots(len(data), 3, squeeze=False, width_ratios=(1.2, 1.2, 0.8))
    for line, name in zip(panels, data, strict=True):
        mine = [row for row in rows if row.data == name]
        first = [row for row in mine if row.seed == seed]
        _draw_busy(line[0], name, first)
        _draw_latency(line[1], name, first)
        _draw_deviation(line[2], name, mine)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    save(figure, image)


def draw_steady_state(results: Path, image: Path) -> None:
    """Draw the latency in steady state against the load, by the paper's limit and by ours.

    Raises:
        InputError: The results cannot be read, or the picture cannot be written.
    """
    rows = read_results(results, SteadyStateRow).rows
    if not rows:
        raise InputError(f"{results}: it must have rows")
    figure = new_figure(8.0, 5.0)
    panel = figure.subplots()
    labels = {
        Method.PAPER_KNOWN: ("the paper's limit, exactly kept", "#D55E00", "s"),
        Method.PAPER: ("the paper's limit and rule", "#E69F00", "v"),
        Method.LOCAL: ("ours: M/G/1, at 0.9 of the limit", "#0072B2", "o"),
    }
    loads = sorted({row.load for row in rows})
    for method, (label, colour, marker) in labels.items():
        mine = [
            [row for row in rows if row.method is method and row.load == load] for load in loads
        ]
        means = [sum(row.latency for row in group) / len(group) for group in mine]
        panel.plot(loads, means, color=colour, marker=marker, label=label)
        for load, group in zip(loads, mine, strict=True):
            panel.vlines(
                load,
                min(row.latency for row in group),
                max(row.latency for row in group),
                color=colour,
                linewidth=1,
            )
    known = [row for row in rows if row.method is Method.PAPER_KNOWN]
    expected = {row.load: row.bound / row.kept for row in known}
    panel.plot(
        loads,
        [expected[load] for load in loads],
        color=GREY,
        linestyle=":",
        marker="_",
        markersize=14,
        label="bound / kept share: what M/M/1 gives if shed events do not count",
    )
    panel.axhline(rows[0].bound, **_LIMIT, label=f"bound, {rows[0].bound:g} s")
    panel.set_yscale("log")
    panel.yaxis.set_major_formatter("{x:g}")
    panel.set_xlabel("load / capacity")
    panel.set_ylabel("mean latency of processed events, s")
    panel.set_title("A stationary stream, without pressure: mean over seeds, least to most")
    panel.set_xticks(loads, [f"{load:g}" for load in loads])
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    despine(panel)
    save(figure, image)


def _methods(rows: Sequence[IntervalRow]) -> list[Method]:
    return list(dict.fromkeys(row.method for row in rows))


def _draw_busy(panel: Axes, name: str, rows: Sequence[IntervalRow]) -> None:
    for method in _methods(rows):
        look = LOOKS[method.value]
        mine = [row for row in rows if row.method is method]
        panel.plot(
            [row.time for row in mine],
            [row.busy for row in mine],
            color=look.colour,
            linestyle=look.line,
            linewidth=1.3,
            label=look.label,
        )
    limits = [row for row in rows if row.method is Method.GLOBAL]
    panel.plot(
        [row.time for row in limits],
        [row.limit for row in limits],
        **_LIMIT,
        label="limit, bound",
    )
    panel.set_ylim(0, _MAX_BUSY_SHOWN)
    _titled(panel, f"{name}: busy seconds per second (cut at {_MAX_BUSY_SHOWN:g})")


def _draw_latency(panel: Axes, name: str, rows: Sequence[IntervalRow]) -> None:
    for method in _methods(rows):
        mine = [row for row in rows if row.method is method and row.latency is not None]
        panel.plot(
            [row.time for row in mine],
            [row.latency or 0.0 for row in mine],
            color=LOOKS[method.value].colour,
            linestyle=LOOKS[method.value].line,
            linewidth=1.3,
        )
    panel.axhline(rows[0].bound, **_LIMIT)
    panel.set_yscale("log")
    panel.yaxis.set_major_formatter("{x:g}")
    _titled(panel, f"{name}: mean latency, seconds")


def _draw_deviation(panel: Axes, name: str, rows: Sequence[IntervalRow]) -> None:
    seeds = sorted({row.seed for row in rows})
    methods = _methods(rows)
    for position, method in enumerate(methods):
        off = [
            limit_deviation([row for row in rows if row.method is method and row.seed == seed])
            for seed in seeds
        ]
        mean = sum(off) / len(off)
        panel.bar(position, mean, 0.6, color=LOOKS[method.value].colour)
        panel.errorbar(
            position, mean, [[mean - min(off)], [max(off) - mean]], color=BLACK, capsize=3
        )
        panel.annotate(f"{mean:.0f}", (position + 0.08, mean), fontsize=8, va="bottom")
    panel.set_xticks(range(len(methods)), [method.value for method in methods])
    panel.set_title(f"{name}: off the limit in all,\nbusy seconds", fontsize=10)
    despine(panel)


def _titled(panel: Axes, title: str) -> None:
    panel.set_title(title, fontsize=10)
    panel.set_xlabel("seconds", fontsize=9)
    despine(panel)
