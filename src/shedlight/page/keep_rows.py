"""What each pattern keeps of each type and why: now, and at any moment of the run."""

from collections.abc import Iterator, Mapping

from shedlight.page import schemas
from shedlight.page.errors import RequestError
from shedlight.page.run_view import RunView
from shedlight.report.format import moment, sanitize
from shedlight.runlog.records import DecisionRecord, OperatorRecord, RunHeader

MAX_KEEP_ROWS = 200  # how many keep shares are answered
_ALL, _NONE = 1 - 1e-6, 1e-6


def keep_rows_of(
    header: RunHeader | None, decision: DecisionRecord | None, prices: Mapping[str, float]
) -> tuple[list[schemas.KeepRow], int]:
    """List what is kept by a decision, most shed volume first; and how many are left out."""
    decision = decision or DecisionRecord(time=0)
    rows = sorted(_keep_rows(header or RunHeader(time=0), decision, prices), key=_order_by_shed)
    omitted = max(0, len(rows) - MAX_KEEP_ROWS) + decision.omitted_shares
    return rows[:MAX_KEEP_ROWS], omitted


def plan_answer(view: RunView, time: float) -> schemas.PlanAnswer:
    """Answer what was decided last at a time.

    Raises:
        RequestError: Nothing had been decided by then, or it is too long ago.
    """
    view.refresh()
    earlier = [each for each in view.decisions if each.time <= time]
    if not earlier:
        if not view.decisions:
            raise RequestError(404, "nothing has been decided yet; ask again in a moment")
        first = moment(view.decisions[0].time)
        raise RequestError(
            404, f"the first decision that is known is of {first}; ask from then on"
        )
    decision = earlier[-1]
    prices = next((each.prices for each in reversed(earlier) if each.replanned), {})
    rows, omitted = keep_rows_of(view.totals.header, decision, prices)
    return schemas.PlanAnswer(
        time=decision.time,
        reason=sanitize(decision.reason, 1000),
        replanned=decision.replanned,
        seconds=decision.seconds,
        loads=decision.loads,
        statuses={name: sanitize(text, 60) for name, text in decision.statuses.items()},
        advice={name: sanitize(text, 1000) for name, text in decision.advice.items()},
        keep_rows=rows,
        omitted_rows=omitted,
    )


def _order_by_shed(row: schemas.KeepRow) -> tuple[float, float, str, str]:
    return -(row.rate or 0.0) * (1 - row.share), row.share, row.pattern, row.type


def _keep_rows(
    header: RunHeader, decision: DecisionRecord, prices: Mapping[str, float]
) -> Iterator[schemas.KeepRow]:
    operators = header.operators
    closures = _closure_reasons(header, decision)
    for pattern, shares in decision.shares.items():
        node = operators.get(pattern.partition(".")[0], OperatorRecord()).node
        rates = decision.rates.get(pattern, {})
        for label, share in shares.items():
            yield schemas.KeepRow(
                pattern=pattern,
                type=sanitize(label),
                rate=rates.get(label),
                share=share,
                price=prices.get(node),
                reason=closures.get(pattern) or _explain_share(share, sanitize(node, 60)),
            )


def _closure_reasons(header: RunHeader, decision: DecisionRecord) -> Mapping[str, str]:
    """Say of patterns why they are kept alike or whole, or off: what watchers need."""
    least = {
        name: min(shares.values(), default=1.0) for name, shares in decision.shares.items()
    }
    most = {name: max(shares.values(), default=1.0) for name, shares in decision.shares.items()}
    reasons: dict[str, str] = {}
    for watcher, closure in header.closures.items():
        name, streams = sanitize(watcher, 100), (watcher, *closure.members)
        if closure.key:
            key = sanitize(closure.key, 60)
            shared = f"the same {key} are kept in all that {name} watches, as many as fit"
            reasons |= dict.fromkeys(streams, shared)
        elif most.get(watcher, 1.0) <= _NONE:
            reasons[watcher] = (
                "off, for what it watches cannot all be kept, or others bring more"
            )
        elif all(least.get(stream, 1.0) >= _ALL for stream in closure.members):
            whole = f"kept whole, for {name} watches it"
            reasons |= dict.fromkeys(closure.members, whole)
    return reasons


def _explain_share(share: float, node: str) -> str:
    """Say why a keep share is what it is."""
    if share >= _ALL:
        return "all of it is worth its time"
    where = f"node {node}" if node else "its node"
    if share <= _NONE:
        return f"other types bring more at the sinks for the time they take at {where}"
    return f"as much as fits within the limit of {where}"
