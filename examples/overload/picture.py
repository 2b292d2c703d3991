"""The picture of the demo: latencies against the bound, and what each sink got."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shedlight.engines.simulator.recall import Recall

if TYPE_CHECKING:
    from demo import Outcome
    from matplotlib.axes import Axes

WAYS = {"none": "sheds nothing", "local": "each node for itself", "global": "for the sinks"}
COLOURS = {"none": "#d55e00", "local": "#cc79a7", "global": "#0072b2"}
MARKERS = {"none": "s", "local": "^", "global": "o"}


def draw(
    outcomes: "Mapping[str, Outcome]",
    recalls: Mapping[str, Mapping[str, Recall]],
    bound: float,
    path: Path,
) -> None:
    """Draw latencies against the bound, and what each sink got."""
    import matplotlib as mpl  # noqa: PLC0415  # slow to import

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    sinks = list(next(iter(recalls.values())))
    figure, (left, *right) = plt.subplots(
        1, 1 + len(sinks), figsize=(11, 3.8), layout="constrained", width_ratios=(2, 1, 1)
    )
    _draw_latencies(left, outcomes, bound)
    for axes, sink in zip(right, sinks, strict=True):
        _draw_results(axes, sink, {way: of_sinks[sink] for way, of_sinks in recalls.items()})
    top = max(axes.get_ylim()[1] for axes in right)
    for axes in right:
        axes.set_ylim(0, 1.3 * top)  # room for the legend
    right[0].set_ylabel("% of all results without shedding")
    right[0].legend(frameon=False, fontsize=8, loc="upper left")
    for axes in (left, *right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_latencies(axes: "Axes", outcomes: "Mapping[str, Outcome]", bound: float) -> None:
    open_end: dict[str, Any] = {"linestyle": ":", "markerfacecolor": "white"}
    for way, one in outcomes.items():
        times, latencies = zip(*one.points, strict=True) if one.points else ((), ())
        style: dict[str, Any] = {"color": COLOURS[way], "marker": MARKERS[way], "markersize": 4}
        axes.plot(times, latencies, label=f"{way}: {WAYS[way]}", **style)
        if one.waiting is not None:
            ahead = zip(*one.points[-1:], one.waiting, strict=True)
            axes.plot(*ahead, markevery=[-1], **style, **open_end)
    if any(one.waiting is not None for one in outcomes.values()):
        axes.plot(
            [], [], color="grey", marker="o", label="still waiting at the end", **open_end
        )
    axes.axhline(bound, color="black", linestyle="--", linewidth=1)
    axes.annotate(f"bound {bound:g} s", (0, bound), (4, 4), textcoords="offset points")
    axes.set_xlabel("time, s")
    axes.set_ylabel("mean latency of a micro-batch, s")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, 0.95))


def _draw_results(axes: "Axes", sink: str, recalls: Mapping[str, Recall]) -> None:
    """Draw three bars for each way: how many results, and how many of them are the same."""
    kinds: dict[str, Callable[[Recall], float]] = {
        "results": lambda one: one.results / one.unshed if one.unshed else 0.0,
        "recall, half the same": lambda one: one.recall_by_overlap or 0.0,
        "recall, the same": lambda one: one.recall or 0.0,
    }
    for number, (label, share) in enumerate(kinds.items()):
        shade = 1 - 0.35 * number
        for place, (way, one) in enumerate(recalls.items()):
            bar = axes.bar(
                place + 0.27 * (number - 1),
                100 * share(one),
                0.25,
                color=COLOURS[way],
                alpha=shade,
            )
            axes.bar_label(bar, [f"{100 * share(one):.0f}"], fontsize=7)
        axes.bar(0, 0, color="grey", alpha=shade, label=label)
    axes.set_xticks(
        range(len(recalls)),
        [f"{way}\n{one.results:,}" for way, one in recalls.items()],
        fontsize=8,
    )
    every = next(iter(recalls.values())).unshed
    axes.set_title(f"{sink}: {every:,} without shedding", fontsize=9)
