"""The figure of a simulation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from shedlight.engines.event_files import written_whole
from shedlight.engines.simulator.scenario_run import NodeRow, ScenarioResult, SinkRow
from shedlight.graph.application import bound_kind

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Of Okabe and Ito: people with any colour vision can tell them apart."""
_DASHES = ("-", "--", "-.", ":")


def draw_simulation(outcome: ScenarioResult, title: str, image: Path) -> None:
    """Draw latency against the bound, busy time against the limit, and results per sink."""
    figure = Figure(figsize=(9.0, 8.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    latency, busy, results = figure.subplots(3, 1, sharex=True)
    names = dict.fromkeys(row.node for row in outcome.nodes if row.bound is not None)
    for number, name in enumerate(names):
        _draw_node(latency, busy, [row for row in outcome.nodes if row.node == name], number)
    for number, name in enumerate(dict.fromkeys(row.sink for row in outcome.sinks)):
        _draw_sink(results, [row for row in outcome.sinks if row.sink == name], number)
    _title(latency, "latency: mean time of the events that arrived in an interval", "seconds")
    _title(busy, "busy time: work that was taken on", "busy seconds per second")
    _title(results, "results", "per second")
    results.set_xlabel("virtual time, seconds")
    figure.suptitle(title)
    with written_whole(image) as unfinished:
        figure.savefig(unfinished, format="png", metadata={"Software": None})


def _draw_node(latency: Axes, busy: Axes, rows: Sequence[NodeRow], number: int) -> None:
    name, line = rows[0].node, _line(number)
    level: dict[str, Any] = {"color": line["color"], "linewidth": 2.2, "alpha": 0.5}
    times = [row.start + row.length / 2 for row in rows if row.latency is not None]
    spent = [row.latency for row in rows if row.latency is not None]
    queued = [row.queueing for row in rows if row.queueing is not None]
    latency.plot(times, spent, label=name, **line)
    queueing = f"{name}, queueing"
    latency.fill_between(times, queued, color=line["color"], alpha=0.15, label=queueing)
    if rows[0].bound is not None:
        bound = f"bound {bound_kind(rows[0].percentile)}"
        latency.axhline(rows[0].bound, label=f"{name}, {bound}", **level)
    fed = rows[:-1]
    middles = [row.start + row.length / 2 for row in fed]
    busy.plot(middles, [row.busy for row in fed], label=name, **line)
    busy.plot(middles, [row.limit or 0.0 for row in fed], label=f"{name}, limit", **level)


def _draw_sink(panel: Axes, rows: Sequence[SinkRow], number: int) -> None:
    fed = [row for row in rows[:-1] if row.length]
    times = [row.start + row.length / 2 for row in fed]
    rates = [row.results / row.length for row in fed]
    panel.plot(times, rates, label=rows[0].sink, **_line(number))


def _line(number: int) -> dict[str, Any]:
    """Say how a line looks."""
    colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)]
    return {"color": colour, "linestyle": dash, "linewidth": 1.3}


def _title(panel: Axes, title: str, unit: str) -> None:
    panel.set_title(title, fontsize=11, loc="left")
    panel.set_ylabel(unit)
    panel.set_ylim(bottom=0)
    panel.grid(visible=True, color="#DDDDDD", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
