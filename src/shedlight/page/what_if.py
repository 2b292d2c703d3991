"""What-if and apply: the questions and wishes of the page, for the run that it is of."""

import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from shedlight.control.override import Override
from shedlight.control.planning_input import PlanningInput, read_planning_input
from shedlight.control.what_if import Forecast, what_if
from shedlight.engines.spark.control.override_store import planning_input_path, store_override
from shedlight.errors import InputError, PlanError, ShedlightError, known_names
from shedlight.page.responses import RefusedError
from shedlight.page.run_view import RunView
from shedlight.page.schemas import Changes, Question
from shedlight.report.format import count, percent, sanitize
from shedlight.shedding.shares import Shares

MOST_CHANGES = 100
"""How many shares are told that would be others."""
_MOST_BYTES = 16 << 20
_NOTICED = 1e-4
_WAIT = 2.0
"""How many seconds a question waits for those before it."""


class Planner:
    """Answers questions about the situation of a run, one at a time.

    Args:
        log: The log of the run.
    """

    def __init__(self, log: Path) -> None:
        self._path = planning_input_path(log)
        self._lock = threading.Lock()

    def answer(self, question: Question) -> dict[str, Any]:
        """Say what would come of other bounds, weights or loads.

        Raises:
            RefusedError: It names something that is not there, or nothing can be planned.
        """
        if not self._lock.acquire(timeout=_WAIT):
            raise RefusedError(429, "plans are being made for others; ask again in a moment")
        try:
            situation = self._situation()
            wish = Override(question.bounds, question.weights)
            application = situation.application
            check_names(wish, application.nodes, application.sinks)
            found = what_if(situation, wish, question.load)
            return answer_of(situation, found)
        except PlanError as error:
            raise RefusedError(422, str(error)) from error
        except ShedlightError as error:
            raise RefusedError(409, str(error)) from error
        finally:
            self._lock.release()

    def _situation(self) -> PlanningInput:
        try:
            with self._path.open("rb") as file:
                data = file.read(_MOST_BYTES)
        except OSError as error:
            raise RefusedError(
                409,
                "the run has not left what a plan is made from: that comes with its first "
                "decision, and only a run with a bound and the global or local shedder decides",
            ) from error
        if not data:
            raise RefusedError(
                409, "the run has too many types to plan for here; use `shedlight plan`"
            )
        return read_planning_input(data.decode("utf-8", "replace"))


def answer_of(situation: PlanningInput, found: Forecast) -> dict[str, Any]:
    """Write what was found out."""
    changes = sorted(
        _changes(situation.shares, found.shares),
        key=lambda row: (-abs(row["after"] - _before(row)), row["pattern"], row["type"]),
    )
    nodes = {
        name: {
            "load": _number(found.loads.get(name)),
            "state": str(one.status),
            "remedy": sanitize(one.advice, 1000),
            "bound": found.application.nodes[name].bound,
        }
        for name, one in found.health.items()
    }
    feasible = all(one["state"] != "INFEASIBLE" for one in nodes.values()) and not found.failure
    return {
        "seconds": found.seconds,
        "nodes": nodes,
        "sinks": {
            name: {
                "now": _number(found.now.get(name)),
                "then": _number(found.then.get(name)) if feasible else None,
            }
            for name in found.application.sinks
        },
        "changes": changes[:MOST_CHANGES],
        "feasible": feasible,
        "words": sanitize(_words(found, len(changes), feasible=feasible), 1000),
    }


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _before(row: dict[str, Any]) -> float:
    return 1.0 if row["before"] is None else float(row["before"])


def _changes(before: Shares, after: Shares) -> Iterator[dict[str, Any]]:
    """List the shares that would be others; what no plan speaks of is kept."""
    for stream, shares in after.items():
        known = before[stream].shares if stream in before else {}
        for label, share in shares.shares.items():
            if abs(share - known.get(label, 1.0)) > _NOTICED:
                yield {
                    "pattern": str(stream),
                    "type": sanitize(label),
                    "before": known.get(label),
                    "after": share,
                }


def _words(found: Forecast, changes: int, *, feasible: bool) -> str:
    if found.failure:
        return f"there would be no plan: {found.failure}"
    if not feasible:
        bad = [name for name, one in found.health.items() if str(one.status) == "INFEASIBLE"]
        nodes = f"node{'s' * (len(bad) > 1)} {', '.join(bad)}"
        return f"{nodes} could not keep the bound, whatever is shed"
    told = []
    if found.plan is not None and found.plan.keeps_incumbent:
        told.append("the plan in force would stay")
    elif changes:
        told.append(f"{count(changes, 'share')} would change")
    else:
        told.append("nothing would be kept otherwise")
    now, then = _worth(found, found.now), _worth(found, found.then)
    if now > 0 and abs(then / now - 1) > _NOTICED:
        more = "more" if then > now else "less"
        told.append(f"the sinks would get {percent(abs(then / now - 1))} {more}, weighted")
    else:
        told.append("the sinks would get as much as now")
    return "; ".join(told)


def _worth(found: Forecast, rates: Mapping[str, float]) -> float:
    sinks = found.application.sinks.items()
    return float(sum(sink.weight * rates.get(name, 0.0) for name, sink in sinks))


def apply(watch: RunView, changes: Changes) -> dict[str, Any]:
    """Leave a wish for the run.

    Raises:
        RefusedError: The run is over, or has no such node or sink.
    """
    watch.refresh()
    checkpoint = watch.place.checkpoint
    if checkpoint is None or not watch.can_apply:
        raise RefusedError(
            409,
            "nothing can be changed: the run is over, only its log is here, or it has not "
            "decided anything yet",
        )
    wish = Override(changes.bounds, changes.weights)
    if not wish:
        raise RefusedError(422, "the body names no bound and no weight; name at least one")
    _check(watch, wish)
    try:
        store_override(checkpoint, wish)
    except InputError as error:
        raise RefusedError(409, str(error)) from error
    return {
        "applied": True,
        "words": sanitize(
            f"left for the run: {wish}; it plans for it at its next decision", 1000
        ),
    }


def _check(watch: RunView, wish: Override) -> None:
    """See that what is wished for is there, as far as the log says."""
    tally = watch.seen.tally
    check_names(wish, tally.nodes, tally.weights)
    for name in wish.bounds:
        if tally.nodes[name].bound is None:
            raise RefusedError(
                422, f"node {name!r} has no bound and cannot be given one while it runs"
            )


def check_names(wish: Override, nodes: Collection[str], sinks: Collection[str]) -> None:
    """See that what is wished for is there.

    Raises:
        RefusedError: It is not.
    """
    asked = (("node", wish.bounds, nodes), ("sink", wish.weights, sinks))
    for what, names, known in asked:
        for name in names:
            if name not in known:
                hint = known_names(name[:60], known)
                raise RefusedError(404, f"there is no {what} {name[:60]!r}; {hint}")
