"""Results as lines of text: a table of aligned columns, and what there is to say about it."""

import math
from collections.abc import Iterable, Iterator, Sequence

from experiments.latency import Moment, Rest, Way, deviation
from experiments.quality import Cell, QualityRow, Spread, cells, data_and_loads
from shedlight.engines.simulator.shedders import Shedder

_SHARES = (Shedder.GLOBAL, Shedder.LOCAL, Shedder.UTILITY, Shedder.RANDOM)


def aligned(rows: Sequence[Sequence[str]], names: int = 0) -> Iterator[str]:
    """Align the columns of a table: the first few, which are names, to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = [
            cell.ljust(width) if number < names else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()


def quality_lines(rows: Sequence[QualityRow]) -> Iterator[str]:
    """Say what is left of the results, and how the bound was kept by the global shedder."""
    found = cells(rows)
    seeds = len({row.seed for row in rows})
    yield f"Results left, in % of those without shedding (means of {seeds} seeds), and the part"
    yield "of the results of `global` that `local` loses: mean (least to most)"
    yield ""
    yield from aligned([_RESULTS_HEADER, *_result_rows(rows, found)], names=1)
    yield ""
    yield f"The bottleneck under `global`; the bound is {rows[0].bound:g} s on average"
    yield ""
    yield from aligned([_LATENCY_HEADER, *_latency_rows(rows, found)], names=1)
    yield from _below(rows, found)


_Cells = dict[tuple[str, float, Shedder, bool], Cell]
_RESULTS_HEADER = (
    *("data set", "load", "unshed", *(one.value for one in _SHARES)),
    "local loses, %",
)
_LATENCY_HEADER = (
    *(
        "data set",
        "load",
        "busy / limit",
        "latency, s",
        "95 %, s",
        "over",
        "without pressure, s",
    ),
    *("lost to pressure", "plans", "unshed latency, s"),
)


def _result_rows(rows: Sequence[QualityRow], found: _Cells) -> Iterator[tuple[str, ...]]:
    for data, load in data_and_loads(rows):
        mine = {one: found[data, load, one, True] for one in _SHARES}
        unshed = found[data, load, Shedder.NONE, True].spread(lambda row: row.results).mean
        left = [one.spread(_left).mean for one in mine.values()]
        yield (
            data,
            f"{load:g}",
            f"{unshed:,.0f}",
            *(f"{100 * one:.1f}" for one in left),
            _percents(mine[Shedder.LOCAL].spread(lambda row: row.loss)),
        )


def _latency_rows(rows: Sequence[QualityRow], found: _Cells) -> Iterator[tuple[str, ...]]:
    for data, load in data_and_loads(rows):
        mine = found[data, load, Shedder.GLOBAL, True]
        alone = found[data, load, Shedder.GLOBAL, False]
        unshed = found[data, load, Shedder.NONE, True]
        lost = mine.spread(lambda row: (row.lost_to_pressure or 0) / max(row.unshed, 1)).mean
        yield (
            data,
            f"{load:g}",
            f"{mine.spread(lambda row: row.busy).mean:.2f}",
            f"{mine.spread(_latency).mean:.3f}",
            f"{mine.spread(lambda row: row.latency_95).mean:.3f}",
            f"{mine.spread(lambda row: row.over).mean:.0%}",
            f"{alone.spread(_latency).mean:.3f}",
            f"{100 * lost:.1f} %",
            f"{mine.spread(lambda row: row.replans).mean:.1f}",
            f"{unshed.spread(_latency).mean:.1f}",
        )


def _below(rows: Sequence[QualityRow], found: _Cells) -> Iterator[str]:
    """Name where the global shedder has fewer results than another, on average."""
    for other in _SHARES[1:]:
        where = [
            f"{data} at {load:g} ({100 * loss.mean:+.1f} %)"
            for data, load in data_and_loads(rows)
            for loss in [found[data, load, other, True].spread(lambda row: row.loss)]
            if loss.mean < -_NOISE
        ]
        yield ""
        if where:
            yield f"`global` has fewer results than `{other.value}` on {', '.join(where)}"
        else:
            yield f"`global` has at least as many results as `{other.value}` on all, within 1 %"


_NOISE = 0.01


def course_lines(rows: Sequence[Moment]) -> Iterator[str]:
    """Say how far busy time was off its limit, and latency over the bound."""
    runs: dict[tuple[str, Way, int], list[Moment]] = {}
    for row in rows:
        runs.setdefault((row.data, row.way, row.seed), []).append(row)
    kinds = list(dict.fromkeys((data, way) for data, way, _ in runs))
    table = [_COURSE_HEADER]
    for kind in kinds:
        mine = [run for key, run in runs.items() if key[:2] == kind]
        off = _spread([deviation(run) for run in mine])
        busy = _spread([_mean(row.busy / row.limit for row in run) for run in mine])
        waits = [row.latency or 0.0 for run in mine for row in run]
        table.append(
            (
                kind[0],
                kind[1].value,
                f"{off.mean:.1f} ({off.least:.1f} to {off.most:.1f})",
                f"{busy.mean:.2f}",
                f"{_mean(waits):.2f}",
                f"{max(waits):.1f}",
                f"{_mean(float(wait > rows[0].bound) for wait in waits):.0%}",
                f"{_mean(float(run[0].replans) for run in mine):.1f}",
            )
        )
    seconds = max(row.time for row in rows) + 1
    yield f"Over {seconds:.0f} s, with a bound of {rows[0].bound:g} s on average"
    yield ""
    yield from aligned(table, names=2)


_COURSE_HEADER = (
    *("data set", "shedder", "off the limit, busy s", "busy / limit", "latency, s", "most, s"),
    *("over the bound", "plans"),
)


def rest_lines(rows: Sequence[Rest]) -> Iterator[str]:
    """Say what the limits of the paper and ours make of a bound."""
    groups: dict[tuple[float, Way], list[Rest]] = {}
    for row in rows:
        groups.setdefault((row.load, row.way), []).append(row)
    table = [_REST_HEADER]
    for (load, way), mine in groups.items():
        latency = _spread([row.latency for row in mine])
        table.append(
            (
                _NAMES[way],
                f"{load:g}",
                f"{_mean(row.kept for row in mine):.2f}",
                f"{_mean(row.busy for row in mine):.3f}",
                _seconds(_mean(row.promised for row in mine)),
                _seconds(_mean(row.expected for row in mine)),
                f"{latency.mean:.3f} ({latency.least:.3f} to {latency.most:.3f})",
            )
        )
    yield f"A stationary stream and a bound of {rows[0].bound:g} s, without pressure"
    yield ""
    yield from aligned(table, names=1)


_NAMES = {
    Way.PAPER_KNOWN: "the paper's limit, exactly",
    Way.PAPER: "the paper's limit and rule",
    Way.LOCAL: "ours",
}
_REST_HEADER = (
    *("limit", "load", "kept", "busy", "k s / (1 - rho), s", "s / (1 - rho), s"),
    "measured, s",
)


def _left(row: QualityRow) -> float:
    return row.results / row.unshed if row.unshed else 1.0


def _latency(row: QualityRow) -> float:
    return row.latency


def _percents(spread: Spread) -> str:
    parts = (f"{100 * value:.1f}" for value in (spread.mean, spread.least, spread.most))
    return "{} ({} to {})".format(*parts)


def _seconds(value: float) -> str:
    """Write seconds; a node that is always busy has no mean."""
    return f"{value:.3f}" if math.isfinite(value) else "-"


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def _spread(values: Sequence[float]) -> Spread:
    return Spread(_mean(values), min(values), max(values))
