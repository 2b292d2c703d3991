"""The log record of a decision: of its shares, those of which most is shed."""

import time
from collections.abc import Mapping

from shedlight.control.controller import Decision, Memory
from shedlight.control.observation import offered_to
from shedlight.model.snapshot import ByType
from shedlight.runlog.records import MAX_NUMBER, DecisionRecord

MAX_SHARES = 50  # how many shares of a pattern are logged one by one
_MAX_ALL_SHARES = 500


def decision_record(decision: Decision, memory: Memory | None = None) -> DecisionRecord:
    """Make the log record of a decision, with rates of types if the memory is given."""
    plan = decision.plan
    mean = None if memory is None else memory.smoothed.mean
    most = min(MAX_SHARES, _MAX_ALL_SHARES // max(1, len(decision.shares)))
    shares: dict[str, dict[str, float]] = {}
    rates: dict[str, dict[str, float]] = {}
    for stream, pattern in decision.shares.items():
        offered = {} if mean is None else offered_to(mean, str(stream.operator))
        labels = _order_by_shed(pattern.shares, offered)[:most]
        shares[str(stream)] = {label: pattern.shares[label] for label in labels}
        rates[str(stream)] = _finite({label: offered.get(label) for label in labels})
    all_shares = sum(len(pattern.shares) for pattern in decision.shares.values())
    return DecisionRecord(
        time=decision.time or time.time(),
        reason=decision.reason,
        replanned=plan is not None,
        seconds=decision.seconds,
        loads=_finite(decision.loads),
        statuses={name: str(health.status) for name, health in decision.health.items()},
        advice={n: health.advice for n, health in decision.health.items() if health.advice},
        shares=shares,
        rates=rates,
        omitted_shares=all_shares - sum(map(len, shares.values())),
        sinks=_finite(decision.sinks),
        links=_finite(decision.links),
        prices={} if plan is None else _finite(plan.prices),
        watchers={} if plan is None else {str(w.stream): w.keep for w in plan.watchers},
    )


def _finite(numbers: Mapping[str, float | None]) -> dict[str, float]:
    """Leave out what is no number: a log has none of these."""
    known = {name: float(number) for name, number in numbers.items() if number is not None}
    return {name: number for name, number in known.items() if abs(number) <= MAX_NUMBER}


def _order_by_shed(shares: ByType, rates: ByType) -> list[str]:
    """Order types: those first of which most events are shed, then those that come often."""

    def key(label: str) -> tuple[float, float, float, str]:
        rate = rates.get(label, 0.0)
        return -rate * (1 - shares[label]), -rate, shares[label], label

    return sorted(shares, key=key)
