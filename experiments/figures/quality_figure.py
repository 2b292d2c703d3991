"""Figures of the experiment on quality, drawn from its file of results alone."""

import math
from pathlib import Path

from matplotlib.axes import Axes

from experiments.figures.style import BLACK, LOOKS, despine, new_figure, save
from experiments.quality import GroupKey, QualityRow, SeedGroup, group_by_seed
from experiments.results_file import read_results
from shedlight.engines.simulator.shedders import Shedder
from shedlight.errors import InputError

_SHOWN = (Shedder.GLOBAL, Shedder.LOCAL, Shedder.UTILITY, Shedder.RANDOM)
_LABELS = (
    "results, % of those without shedding",
    "recall of sink1, %: the same events;\nhollow: half of them",
    "recall of sink2, %: the same events;\nhollow: half of them",
)


def draw_quality(results: Path, image: Path) -> None:
    """Draw what `local` loses against `global`, and what and which are left by each shedder.

    Args:
        results: What `python -m experiments quality` wrote.
        image: Where to write the picture; its ending says in which form.

    Raises:
        InputError: The results cannot be read, or the picture cannot be written.
    """
    rows = read_results(results, QualityRow).rows
    if not rows:
        raise InputError(f"{results}: it must have rows")
    groups = group_by_seed(rows)
    data = list(dict.fromkeys(row.data for row in rows))
    loads = sorted({row.load for row in rows})
    figure = new_figure(max(2.1 * len(data), 8.0), 12.4)
    above, below = figure.subfigures(2, 1, height_ratios=(1.0, 2.9), squeeze=False)[:, 0]
    _draw_loss(above.subplots(), groups, data, loads)
    panels = below.subplots(3, len(data), sharex=True, sharey="row", squeeze=False)
    for column, name in zip(panels.T, data, strict=True):
        column[0].set_title(name, fontsize=10)
        _draw_shares(column[0], groups, (name, "results", ()), loads)
        for sink, panel in zip("12", column[1:], strict=True):
            overlap = (f"recall{sink}_by_overlap",)
            _draw_shares(panel, groups, (name, f"recall{sink}", overlap), loads)
        column[-1].set_xticks(loads, [f"{load:g}" for load in loads], fontsize=8)
        column[-1].set_xlabel("load / capacity", fontsize=9)
    for panel, label in zip(panels[:, 0], _LABELS, strict=True):
        panel.set_ylim(bottom=0)
        panel.set_ylabel(label)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    below.legend(handles, labels, loc="outside lower center", ncols=len(_SHOWN), frameon=False)
    save(figure, image)


def _draw_loss(
    panel: Axes, groups: dict[GroupKey, SeedGroup], data: list[str], loads: list[float]
) -> None:
    """Draw the paper's figure: bars per data set and load, and how far seeds are apart."""
    width = 0.8 / len(loads)
    look = LOOKS["local"]
    for i, name in enumerate(data):
        for j, load in enumerate(loads):
            loss = groups[name, load, Shedder.LOCAL, True].spread(lambda row: row.loss)
            position = i + (j - (len(loads) - 1) / 2) * width
            off = [[100 * (loss.mean - loss.minimum)], [100 * (loss.maximum - loss.mean)]]
            panel.bar(
                position,
                100 * loss.mean,
                width * 0.9,
                color=look.colour,
                alpha=(j + 1) / len(loads),
                label=None if i else f"{load:g} times the capacity",
            )
            panel.errorbar(position, 100 * loss.mean, off, color=BLACK, capsize=2, linewidth=1)
    panel.axhline(0, color=BLACK, linewidth=0.8)
    panel.legend(frameon=False, fontsize=8, ncols=2)
    panel.set_xticks(range(len(data)), data)
    panel.set_ylabel("results lost by local\nagainst global, %")
    panel.set_title(
        "Relative loss of local against global shedding: mean over seeds, least to most; "
        "below 0, local has more",
        fontsize=10,
    )
    despine(panel)


def _draw_shares(
    panel: Axes,
    groups: dict[GroupKey, SeedGroup],
    what: tuple[str, str, tuple[str, ...]],
    loads: list[float],
) -> None:
    """Draw a share by each shedder: data set, column, and a column for thin lines."""
    name, column, thin = what
    for shedder in _SHOWN:
        look = LOOKS[shedder.value]
        mine = [groups[name, load, shedder, True] for load in loads]
        for each in (column, *thin):
            is_thin = each in thin
            panel.plot(
                loads,
                [_percent(group, each) for group in mine],
                color=look.colour,
                marker=look.marker,
                markerfacecolor="white" if is_thin else look.colour,
                markersize=5,
                linewidth=0.9 if is_thin else 1.3,
                linestyle=":" if is_thin else "-",
                label=None if is_thin else look.label,
            )
    despine(panel)


def _percent(group: SeedGroup, column: str) -> float:
    """Compute the mean of a share over seeds, in %; NaN if no seed has one."""
    if column == "results":
        return 100 * group.spread(lambda r: r.results / r.unshed if r.unshed else 1.0).mean
    mean = group.mean(column)
    return math.nan if mean is None else 100 * mean
