"""Results of the experiment on strata as lines of text."""

from collections.abc import Iterator, Sequence

from experiments.strata import KeyShedder, StrataGroup, StrataRow, group_rows
from shedlight.text_table import align_columns

_SHEDDERS = (KeyShedder.GLOBAL, KeyShedder.LOCAL, KeyShedder.RANDOM, KeyShedder.HASH)
_HEADER = (
    *("data set", "load", *(each.value for each in _SHEDDERS)),
    *("0.9 / load", "global / random", "global / hash", "busy / limit", "after / before"),
)


def strata_lines(rows: Sequence[StrataRow]) -> Iterator[str]:
    """Write what is left of the results by shedder, and what strata bring over a hash."""
    groups = list(group_rows(list(rows)))
    seeds = len({row.seed for row in rows})
    yield f"Results left, in % of those without shedding (means of {seeds} seeds); results of"
    yield "`global` over those of others, of a hash of the key at equal work; its busy time"
    yield "(least to most); and its results after a switch of phases over those before"
    yield ""
    yield from align_columns([_HEADER, *(_cells(*group) for group in groups)])
    yield ""
    for other in (KeyShedder.LOCAL, KeyShedder.RANDOM):
        ratios = [ratio for *_, each in groups if (ratio := each.over(other)) is not None]
        if ratios:
            yield f"`global` over `{other.value}`: at least {min(ratios):.3f}"
    least = min(group.over_hash for *_, group in groups)
    yield f"`global` over a hash at equal work: at least {least:.3f}"
    least = min(group.busy[0] for *_, group in groups)
    yield f"busy time of `global` over its limit: at least {least:.3f}"


def _cells(data: str, load: float, group: StrataGroup) -> tuple[str, ...]:
    left = [group.left(each) for each in _SHEDDERS]
    return (
        data,
        f"{load:g}",
        *("" if each is None else f"{100 * each:.1f}" for each in left),
        f"{min(100.0, 90 / load):.1f}",
        f"{group.over(KeyShedder.RANDOM) or 0.0:.2f}",
        f"{group.over_hash:.2f}",
        f"{group.busy[0]:.2f} to {group.busy[1]:.2f}",
        "" if group.recovered is None else f"{group.recovered:.2f}",
    )
