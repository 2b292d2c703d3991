"""Figures of the experiment on quality, drawn from its file of results alone."""

from pathlib import Path

from matplotlib.axes import Axes

from experiments.figures.style import BLACK, LOOKS, despine, new_figure, save
from experiments.quality import GroupKey, QualityRow, SeedGroup, group_by_seed
from experiments.results_file import read_results
from shedlight.engines.simulator.shedders import Shedder
from shedlight.errors import InputError

_SHOWN = (Shedder.GLOBAL, Shedder.LOCAL, Shedder.UTILITY, Shedder.RANDOM)


def draw_quality(results: Path, image: Path) -> None:
    """Draw what `local` loses against `global`, and what is left by each shedder.

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
    figure = new_figure(max(2.1 * len(data), 8.0), 7.6)
    above, below = figure.subfigures(2, 1, height_ratios=(1.0, 1.15), squeeze=False)[:, 0]
    _draw_loss(above.subplots(), groups, data, loads)
    panels = below.subplots(1, len(data), sharey=True, squeeze=False)[0]
    for panel, name in zip(panels, data, strict=True):
        _draw_left(panel, groups, name, loads)
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel("results, % of those without shedding")
    handles, labels = panels[0].get_legend_handles_labels()
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


def _draw_left(
    panel: Axes, groups: dict[GroupKey, SeedGroup], name: str, loads: list[float]
) -> None:
    for shedder in _SHOWN:
        look = LOOKS[shedder.value]
        left = [
            groups[name, load, shedder, True].spread(
                lambda row: row.results / row.unshed if row.unshed else 1.0
            )
            for load in loads
        ]
        panel.plot(
            loads,
            [100 * one.mean for one in left],
            color=look.colour,
            marker=look.marker,
            markersize=5,
            linewidth=1.3,
            label=look.label,
        )
    panel.set_xticks(loads, [f"{load:g}" for load in loads], fontsize=8)
    panel.set_title(name, fontsize=10)
    panel.set_xlabel("load / capacity", fontsize=9)
    despine(panel)
