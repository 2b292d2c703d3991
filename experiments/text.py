"""Results as lines of text: tables, and a summary below."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from experiments.latency import IntervalRow, Method, SteadyStateRow, limit_deviation
from experiments.quality import QualityRow, SeedGroup, Spread, data_and_loads, group_by_seed
from shedlight.engines.simulator.shedders import Shedder
from shedlight.text_table import align_columns

_SHARES = (Shedder.GLOBAL, Shedder.LOCAL, Shedder.UTILITY, Shedder.RANDOM)
RECALLS = ("recall{}", "precision{}", "recall{}_by_overlap", "precision{}_by_overlap")
"""The columns of rows that compare results, by the number of a sink."""


def quality_lines(rows: Sequence[QualityRow]) -> Iterator[str]:
    """Write what is left of the results, which, and how the global shedder kept the bound."""
    groups = group_by_seed(rows)
    seeds = len({row.seed for row in rows})
    yield f"Results left, in % of those without shedding (means of {seeds} seeds), and the part"
    yield "of the results of `global` that `local` loses: mean (least to most)"
    yield ""
    yield from align_columns([_RESULTS_HEADER, *_result_rows(rows, groups)])
    yield ""
    yield "Results by sink, in % of those without shedding: how many there are (kept), and how"
    yield "many of the same (recall); in % of those there are, how many of those (precision)."
    yield "The same: of the same events; or (half) with half of the events of both in common"
    yield ""
    yield from align_columns([_RECALL_HEADER, *_recall_rows(rows, groups)], left=4)
    yield ""
    yield f"The bottleneck under `global`; the bound is {rows[0].bound:g} s on average"
    yield ""
    yield from align_columns([_LATENCY_HEADER, *_latency_rows(rows, groups)])
    yield from _below(rows, groups)


_Groups = dict[tuple[str, float, Shedder, bool], SeedGroup]
_RESULTS_HEADER = (
    *("data set", "load", "unshed", *(one.value for one in _SHARES)),
    "local loses, %",
)
_RECALL_HEADER = (
    *("data set", "load", "shedder", "sink", "unshed", "results", "kept"),
    *("recall", "precision", "recall (half)", "precision (half)"),
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


def _result_rows(rows: Sequence[QualityRow], groups: _Groups) -> Iterator[tuple[str, ...]]:
    for data, load in data_and_loads(rows):
        by_shedder = {one: groups[data, load, one, True] for one in _SHARES}
        unshed = groups[data, load, Shedder.NONE, True].spread(lambda row: row.results).mean
        left = [one.spread(_left).mean for one in by_shedder.values()]
        yield (
            data,
            f"{load:g}",
            f"{unshed:,.0f}",
            *(f"{100 * one:.1f}" for one in left),
            _percents(by_shedder[Shedder.LOCAL].spread(lambda row: row.loss)),
        )


def _recall_rows(rows: Sequence[QualityRow], groups: _Groups) -> Iterator[tuple[str, ...]]:
    for data, load in data_and_loads(rows):
        for shedder, sink in product(_SHARES, "12"):
            group = groups[data, load, shedder, True]
            unshed, results = group.mean(f"unshed{sink}"), group.mean(f"sink{sink}")
            shares = (
                results / unshed if unshed and results is not None else None,
                *(group.mean(column.format(sink)) for column in RECALLS),
            )
            yield (
                data,
                f"{load:g}",
                shedder.value,
                f"sink{sink}",
                f"{unshed or 0:,.0f}",
                f"{results or 0:,.0f}",
                *("-" if share is None else f"{100 * share:.1f}" for share in shares),
            )


def _latency_rows(rows: Sequence[QualityRow], groups: _Groups) -> Iterator[tuple[str, ...]]:
    for data, load in data_and_loads(rows):
        mine = groups[data, load, Shedder.GLOBAL, True]
        unpressed = groups[data, load, Shedder.GLOBAL, False]
        unshed = groups[data, load, Shedder.NONE, True]
        lost = mine.spread(lambda row: (row.lost_to_pressure or 0) / max(row.unshed, 1)).mean
        yield (
            data,
            f"{load:g}",
            f"{mine.spread(lambda row: row.busy).mean:.2f}",
            f"{mine.spread(_latency).mean:.3f}",
            f"{mine.spread(lambda row: row.latency_95).mean:.3f}",
            f"{mine.spread(lambda row: row.over).mean:.0%}",
            f"{unpressed.spread(_latency).mean:.3f}",
            f"{100 * lost:.1f} %",
            f"{mine.spread(lambda row: row.replans).mean:.1f}",
            f"{unshed.spread(_latency).mean:.1f}",
        )


def _below(rows: Sequence[QualityRow], groups: _Groups) -> Iterator[str]:
    """Name where the global shedder has fewer results than another, on average."""
    for other in _SHARES[1:]:
        where = [
            f"{data} at {load:g} ({100 * loss.mean:+.1f} %)"
            for data, load in data_and_loads(rows)
            for loss in [groups[data, load, other, True].spread(lambda row: row.loss)]
            if loss.mean < -_NOISE
        ]
        yield ""
        if where:
            yield f"`global` has fewer results than `{other.value}` on {', '.join(where)}"
        else:
            yield f"`global` has at least as many results as `{other.value}` on all, within 1 %"


_NOISE = 0.01


def timeline_lines(rows: Sequence[IntervalRow]) -> Iterator[str]:
    """Write how far busy time was off its limit, and latency over the bound."""
    runs: dict[tuple[str, Method, int], list[IntervalRow]] = {}
    for row in rows:
        runs.setdefault((row.data, row.method, row.seed), []).append(row)
    settings = list(dict.fromkeys((data, method) for data, method, _ in runs))
    table = [_TIMELINE_HEADER]
    for setting in settings:
        mine = [run for key, run in runs.items() if key[:2] == setting]
        off = _spread([limit_deviation(run) for run in mine])
        busy = _spread([_mean(row.busy / row.limit for row in run) for run in mine])
        waits = [row.latency or 0.0 for run in mine for row in run]
        table.append(
            (
                setting[0],
                setting[1].value,
                f"{off.mean:.1f} ({off.minimum:.1f} to {off.maximum:.1f})",
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
    yield from align_columns(table, left=2)


_TIMELINE_HEADER = (
    *("data set", "shedder", "off the limit, busy s", "busy / limit", "latency, s", "most, s"),
    *("over the bound", "plans"),
)


def steady_state_lines(rows: Sequence[SteadyStateRow]) -> Iterator[str]:
    """Write which latency the limit of the paper and ours lead to."""
    groups: dict[tuple[float, Method], list[SteadyStateRow]] = {}
    for row in rows:
        groups.setdefault((row.load, row.method), []).append(row)
    table = [_STEADY_STATE_HEADER]
    for (load, method), mine in groups.items():
        latency = _spread([row.latency for row in mine])
        table.append(
            (
                _NAMES[method],
                f"{load:g}",
                f"{_mean(row.kept for row in mine):.2f}",
                f"{_mean(row.busy for row in mine):.3f}",
                _seconds(_mean(row.promised for row in mine)),
                _seconds(_mean(row.expected for row in mine)),
                f"{latency.mean:.3f} ({latency.minimum:.3f} to {latency.maximum:.3f})",
            )
        )
    yield f"A stationary stream and a bound of {rows[0].bound:g} s, without pressure"
    yield ""
    yield from align_columns(table)


_NAMES = {
    Method.PAPER_KNOWN: "the paper's limit, exactly",
    Method.PAPER: "the paper's limit and rule",
    Method.LOCAL: "ours",
}
_STEADY_STATE_HEADER = (
    *("limit", "load", "kept", "busy", "k s / (1 - rho), s", "s / (1 - rho), s"),
    "measured, s",
)


def _left(row: QualityRow) -> float:
    return row.results / row.unshed if row.unshed else 1.0


def _latency(row: QualityRow) -> float:
    return row.latency


def _percents(spread: Spread) -> str:
    parts = (f"{100 * value:.1f}" for value in (spread.mean, spread.minimum, spread.maximum))
    return "{} ({} to {})".format(*parts)


def _seconds(value: float) -> str:
    """Write seconds; a node that is always busy has no mean."""
    return f"{value:.3f}" if math.isfinite(value) else "-"


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def _spread(values: Sequence[float]) -> Spread:
    return Spread(_mean(values), min(values), max(values))
