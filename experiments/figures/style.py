"""The style of the figures: each shedder has the same colour and marker in all of them.

Colours are from the palette of Okabe and Ito, which people with any colour vision can tell
apart; the markers differ as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from shedlight.engines.event_files import cannot_write_error

GREY = "#555555"
BLACK = "#000000"


@dataclass(frozen=True, slots=True)
class Look:
    """A name, a colour, a form of markers and one of lines."""

    label: str
    colour: str
    marker: str
    line: str | tuple[int, tuple[int, int]] = "-"


LOOKS: Mapping[str, Look] = MappingProxyType(
    {
        "global": Look("global", "#0072B2", "o"),
        "local": Look("local", "#D55E00", "s", "-."),
        "utility": Look("by utility", "#CC79A7", "D"),
        "random": Look("random", "#009E73", "^"),
        "none": Look("no shedding", GREY, "x", (0, (1, 1))),
        "paper": Look("global, by the paper's limit and rule", "#E69F00", "v", (0, (3, 1))),
    }
)


def new_figure(width: float, height: float, dpi: int = 110) -> Figure:
    """Make an empty figure of so many inches."""
    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def despine(panel: Axes) -> None:
    """Draw a panel with a light grid, and without the lines at the top and on the right."""
    panel.grid(visible=True, which="major", color="#DDDDDD", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, image: Path) -> None:
    """Write a figure.

    Raises:
        InputError: It cannot be written.
    """
    try:
        figure.savefig(image)
    except OSError as error:
        raise cannot_write_error(image, error) from error
