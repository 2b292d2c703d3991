"""Trial of the ways to shed strata of keys, on whole histories of a sample of keys.

| way              | what is kept                                                         |
|------------------|----------------------------------------------------------------------|
| whole keys       | all of some keys; strata that yield most for their work come first   |
| types and events | what can go on with a partial match, a share of what can only open  |
| openers only     | of open keys all, or what can go on; of others a share of openers    |

All of them may spend what the plan gives to the strata, counted in events of the history. The
way that finds most is taken; another than whole keys if it finds 3 % more at least. Heavy
hitters are no part of it: they stay as they were planned.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from shedlight.errors import CapError
from shedlight.language.ast.pattern import WindowUnit
from shedlight.matching.jit import Array
from shedlight.model.arrays import Flags, Floats
from shedlight.model.model import Model, OperatorModel, PatternModel, SheddingWay
from shedlight.model.sampled.key_history import (
    HistoryRun,
    KeyHistory,
    merge_batches,
    run_by_open_keys,
    run_history,
)
from shedlight.model.sampled.runner import Runner, build_runner
from shedlight.model.strata import StratumPlan
from shedlight.model.stratum_split import REST

_MIN_RESULTS = 50  # with fewer in a history nothing is tried
_MIN_GAIN = 1.03  # how much better another way than whole keys must be
_STEPS = 6  # how often the share of openers is halved in search of the greatest that fits
_NEARLY_ALL = 0.999
_LITTLE = 0.01  # with less than this share of the work there is nothing to spend
_BATCHES_PER_WINDOW = 10  # with more a trial takes longer and says the same
_MIN_BATCHES_PER_WINDOW = 2

ShareOf = Callable[[float], Floats]  # the share of each type, for a share of openers


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """What came of a trial."""

    plans: tuple[StratumPlan, ...]  # what is kept of each stratum
    found: Mapping[SheddingWay, float]  # the share of all results that each way found
    chosen: SheddingWay  # the way that is taken

    def __str__(self) -> str:
        ways = sorted(self.found.items(), key=lambda each: -each[1])
        tried = "; ".join(f"{way.value}: {share:.0%}" for way, share in ways)
        return f"{self.chosen.value} ({tried})"


@dataclass(frozen=True, slots=True, eq=False)
class _Rule:
    """What is kept of events for a share of openers."""

    way: SheddingWay
    of_open: ShareOf  # of keys that are open
    of_others: ShareOf


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """A rule with the greatest share of openers that fits."""

    rule: _Rule
    openers: float
    whole: Flags  # the strata that are kept whole
    run: HistoryRun
    results: int


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """A history as a pattern sees it."""

    history: KeyHistory  # of events that it can use
    runner: Runner
    counted: Flags  # which events count: those after the first window
    since: int
    work: Array  # events that count [stratum, type]
    results: Array  # by stratum, if nothing is shed

    def run(self, rule: _Rule, openers: float, whole: Flags) -> HistoryRun:
        """Match what a rule keeps."""
        history = self.history
        of_open, of_others = rule.of_open(openers), rule.of_others(openers)
        spared = whole[history.strata]

        def admit(here: slice, is_open: Array) -> Array:
            types = history.types[here]
            share = np.where(is_open, of_open[types], of_others[types])
            return np.asarray(spared[here] | (history.chance[here] < share))

        if rule.way is SheddingWay.OPENERS:
            return run_by_open_keys(history, self.runner, admit)
        everything = slice(0, len(history.time))
        kept = admit(everything, np.zeros(len(history.time), np.bool_))
        return run_history(history, self.runner, kept)

    def count(self, run: HistoryRun) -> tuple[int, int]:
        """Count the events that a run kept and what it found, after the first window."""
        return int((run.kept & self.counted).sum()), int((run.times >= self.since).sum())


def can_try(model: Model, pattern: PatternModel) -> bool:
    """Whether types say all of a pattern, and only sinks read what it finds.

    An operator that reads it may need several results of one key, which whole keys leave
    together.
    """
    text = pattern.pattern
    if text is None or text.within is None or text.conditions or text.reuse:
        return False
    is_read = any(pattern.stream in each.feeds for each in model.operators.values())
    return text.within.unit is WindowUnit.TIME and not (is_read or pattern.protected.any())


def try_ways(
    operator: OperatorModel,
    pattern: PatternModel,
    plans: tuple[StratumPlan, ...],
    history: KeyHistory,
    trials: int = 1,
) -> Trial | None:
    """Find the best way to shed the strata of a history for what a plan spends on them.

    None if the history says too little, or nothing of them is shed, or nothing is spent. With
    more trials for a plan each takes less time: open keys are known later in them.
    """
    batches = max(_MIN_BATCHES_PER_WINDOW, _BATCHES_PER_WINDOW // trials)
    sample = _sample(operator, pattern, history, batches)
    if sample is None:
        return None
    budget = _planned_work(sample, pattern, plans)
    if not _LITTLE <= budget / sample.work.sum() < _NEARLY_ALL:
        return None
    shares = _whole_keys(sample, budget)
    total = float(sample.results.sum())
    found = {SheddingWay.WHOLE_KEYS: float(shares @ sample.results) / total}
    best: _Candidate | None = None
    for candidate in _candidates(sample, _rules(pattern, sample.runner), shares, budget):
        way, value = candidate.rule.way, candidate.results / total
        found[way] = max(value, found.get(way, 0.0))
        if best is None or candidate.results > best.results:
            best = candidate
    least = _MIN_GAIN * found[SheddingWay.WHOLE_KEYS] * total
    way = SheddingWay.WHOLE_KEYS
    if best is None or best.results < least:
        chosen = {
            name: _keep_whole(pattern, float(share))
            for name, share in zip(history.names, shares, strict=True)
        }
    else:
        way, chosen = best.rule.way, dict(_chosen(sample, pattern, best))
    tried = tuple(
        replace(chosen[each.name], name=each.name, rate=each.rate)
        if each.name in chosen
        else each
        for each in plans
    )
    return Trial(tried, found, way)


def _sample(
    operator: OperatorModel, pattern: PatternModel, history: KeyHistory, batches: int
) -> _Sample | None:
    """See a history as a pattern does, in batches per window; None: it is too short."""
    text = pattern.pattern
    if text is None or text.within is None or not len(history.time):
        return None
    numbers = {label: number for number, label in enumerate(operator.types)}
    known = np.array([numbers.get(label, -1) for label in history.labels], np.int32)
    types = known[history.types]
    mine = history.select(np.isin(types, pattern.demand.uses))
    mine = replace(mine, types=known[mine.types])
    window = text.within.length
    if not len(mine.time) or mine.time[-1] - mine.time[0] < 2 * window:
        return None
    try:
        runner = build_runner(operator, pattern)
    except CapError:
        return None
    since = int(mine.time[0]) + window
    counted = mine.time >= since
    shape = len(history.names), len(operator.types)
    cells = mine.strata[counted] * shape[1] + mine.types[counted]
    work = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    run = run_history(mine, runner, np.ones(len(mine.time), np.bool_))
    late = run.times >= since
    strata = _strata_at(mine, run.keys[late], run.times[late])
    results = np.bincount(strata, minlength=shape[0])
    if results.sum() < _MIN_RESULTS:
        return None
    mine = merge_batches(mine, window // batches)
    return _Sample(mine, runner, counted, since, work, results)


def _strata_at(history: KeyHistory, keys: Array, times: Array) -> Array:
    """Say of which stratum keys were at some times, at which they had events."""
    names, numbers = np.unique(history.keys[:, 0], return_inverse=True)
    first = int(history.time[0])
    span = int(history.time[-1]) - first + 1
    places = numbers * span + (history.time - first)
    order = np.argsort(places, kind="stable")
    wanted = np.searchsorted(names, keys) * span + (times - first)
    rows = np.searchsorted(places[order], wanted, side="right") - 1
    return np.asarray(history.strata[order[np.maximum(rows, 0)]])


def _planned_work(
    sample: _Sample, pattern: PatternModel, plans: tuple[StratumPlan, ...]
) -> float:
    """Count the events of a history that a plan keeps."""
    by_name = {each.name: each.keep for each in plans}
    work = sample.work[:, pattern.demand.uses]
    return sum(
        float(work[i] @ by_name.get(name, by_name[REST]))
        for i, name in enumerate(sample.history.names)
    )


def _whole_keys(sample: _Sample, budget: float) -> Floats:
    """Give strata what they can take, those first that yield most."""
    work = sample.work.sum(1).astype(np.float64)
    yields = (sample.results + 1.0) / (work + work.sum() / max(1.0, sample.results.sum()))
    shares = np.zeros(len(work))
    for stratum in np.argsort(-yields, kind="stable"):
        shares[stratum] = min(1.0, budget / work[stratum]) if work[stratum] else 1.0
        budget = max(0.0, budget - work[stratum])
    return shares


def _rules(pattern: PatternModel, runner: Runner) -> Iterator[_Rule]:
    """List the rules: a share of what opens partial matches, and all that goes on with them."""
    opens, advances = _roles(pattern, runner)

    def by_role(openers: float) -> Floats:
        return np.where(advances, 1.0, openers)

    def only_openers(openers: float) -> Floats:
        return np.where(opens, openers, 0.0)

    yield _Rule(SheddingWay.EVENTS, by_role, by_role)
    yield _Rule(SheddingWay.OPENERS, by_role, only_openers)
    yield _Rule(SheddingWay.OPENERS, lambda _: np.ones(len(opens)), only_openers)


def _roles(pattern: PatternModel, runner: Runner) -> tuple[Flags, Flags]:
    """Say which types can open a partial match, and which can go on with one."""
    regions = runner.matcher.automaton.regions
    first = {element for states in regions for element, _ in states[0].edges}
    later = {e for states in regions for state in states[1:] for e, _ in state.edges}
    if len(regions) > 1:  # a partial match that one of them opened goes on with another
        later |= first
    roles = []
    for elements in (first, later):
        flags = np.zeros(len(runner.symbols), np.bool_)
        for element in elements:
            flags[pattern.accepts[element]] = True
        roles.append(flags)
    return roles[0], roles[1]


def _candidates(
    sample: _Sample, rules: Iterator[_Rule], shares: Floats, budget: float
) -> Iterator[_Candidate]:
    """Try each rule on all strata, and on those that whole keys do not keep whole."""
    none, whole = np.zeros(len(shares), np.bool_), (shares >= 1) & (sample.work.sum(1) > 0)
    for rule in rules:
        for spared in (none, whole) if whole.any() else (none,):
            candidate = _fit(sample, rule, spared, budget)
            if candidate is not None:
                yield candidate


def _fit(sample: _Sample, rule: _Rule, whole: Flags, budget: float) -> _Candidate | None:
    """Find the greatest share of openers that fits; None: even without any it is too much."""
    low, high, best = 0.0, 1.0, None
    openers = 0.0
    for _ in range(_STEPS + 1):
        run = sample.run(rule, openers, whole)
        work, results = sample.count(run)
        if work <= budget:
            low, best = openers, _Candidate(rule, openers, whole, run, results)
        elif best is None:
            return None
        else:
            high = openers
        openers = (low + high) / 2
    return best


def _keep_whole(pattern: PatternModel, share: float) -> StratumPlan:
    keep = np.full(len(pattern.demand.uses), share)
    return StratumPlan("", SheddingWay.WHOLE_KEYS, keep, 0.0)


def _chosen(
    sample: _Sample, pattern: PatternModel, best: _Candidate
) -> Iterator[tuple[str, StratumPlan]]:
    """Say what a candidate keeps of each stratum of a history."""
    history, uses = sample.history, pattern.demand.uses
    of_open = best.rule.of_open(best.openers)[uses]
    of_others = best.rule.of_others(best.openers)[uses]
    size = sample.work.shape[1]
    rows = np.flatnonzero(best.run.kept & sample.counted)
    cells = history.strata[rows] * size + history.types[rows]
    kept = np.bincount(cells, minlength=sample.work.size).reshape(sample.work.shape)
    for i, name in enumerate(history.names):
        if best.whole[i]:
            yield name, _keep_whole(pattern, 1.0)
        elif best.rule.way is SheddingWay.EVENTS:
            yield name, StratumPlan("", best.rule.way, of_others, 0.0)
        else:
            mean = (kept[i][uses] + of_others) / (sample.work[i][uses] + 1.0)
            yield name, StratumPlan("", best.rule.way, mean, 0.0, of_open, of_others)
