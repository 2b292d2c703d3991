"""What-if and apply: forecasts for a run, and overrides of its bounds and weights."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from shedlight.control.override import Override, unknown_name
from shedlight.control.planning_input import (
    PlanningInput,
    planning_input_path,
    read_planning_input,
)
from shedlight.control.what_if import Forecast, what_if
from shedlight.engines.spark.control.override_store import store_override
from shedlight.errors import InputError, PlanError, ShedlightError
from shedlight.page import schemas
from shedlight.page.errors import RequestError
from shedlight.page.run_view import RunView
from shedlight.report.format import count, percent, sanitize
from shedlight.shedding.shares import Shares

MAX_CHANGES = 100  # how many keep shares are answered that would be others
_MAX_PLANNING_INPUT_BYTES = 16 << 20
_MIN_CHANGE = 1e-4
_MAX_WAIT_S = 2.0  # how many seconds a question waits for those before it
_MAX_QUESTIONS = 4  # how many may wait; each takes a thread
_PAUSE = 2.0  # for how many times as long as a plan took none is made: the run has work to do
_TOO_MANY_QUESTIONS = "plans are being made for others; ask again in a moment"


class Forecaster:
    """Answers what-if questions about a run from its planning input, one at a time."""

    def __init__(self, log: Path) -> None:
        self._path = planning_input_path(log)
        self._lock = threading.Lock()
        self._free_at = 0.0
        self._places = threading.BoundedSemaphore(_MAX_QUESTIONS)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Have a place for a question; too many are an error at once."""
        if not self._places.acquire(blocking=False):
            raise RequestError(429, _TOO_MANY_QUESTIONS)
        try:
            yield
        finally:
            self._places.release()

    def answer(self, request: schemas.WhatIfRequest) -> schemas.WhatIfAnswer:
        """Answer what would come of other bounds, weights or loads."""
        if not self._lock.acquire(timeout=_MAX_WAIT_S):
            raise RequestError(429, _TOO_MANY_QUESTIONS)
        time.sleep(max(0.0, min(_MAX_WAIT_S, self._free_at - time.monotonic())))
        start = time.monotonic()
        try:
            planning_input = self._read_planning_input()
            override = Override(request.bounds, request.weights)
            application = planning_input.application
            if problem := unknown_name(override, application.nodes, application.sinks):
                raise RequestError(404, problem)
            forecast = what_if(planning_input, override, request.load)
            return forecast_answer(planning_input.shares, forecast)
        except PlanError as error:
            raise RequestError(422, str(error)) from error
        except ShedlightError as error:
            raise RequestError(409, str(error)) from error
        finally:
            end = time.monotonic()
            self._free_at = end + _PAUSE * (end - start)
            self._lock.release()

    def _read_planning_input(self) -> PlanningInput:
        try:
            with self._path.open("rb") as file:
                data = file.read(_MAX_PLANNING_INPUT_BYTES)
        except OSError as error:
            raise RequestError(
                409,
                "the run has not written what a plan is made from: that comes with its first "
                "decision, and only a run with a bound and the global or local shedder decides",
            ) from error
        return read_planning_input(data.decode("utf-8", "replace"))


def forecast_answer(active: Shares, forecast: Forecast) -> schemas.WhatIfAnswer:
    """Make the answer of a forecast, given the active keep shares."""
    changes = sorted(_share_changes(active, forecast.shares), key=_order_by_change)
    feasible = not forecast.failure and not _infeasible_nodes(forecast)
    return schemas.WhatIfAnswer(
        seconds=forecast.seconds,
        nodes={
            name: schemas.NodeForecast(
                load=forecast.loads.get(name),
                status=str(health.status),
                advice=sanitize(health.advice, 1000),
                bound=forecast.application.nodes[name].bound,
                percentile=forecast.application.nodes[name].percentile,
            )
            for name, health in forecast.health.items()
        },
        sinks={
            name: schemas.SinkForecast(
                current=forecast.current_sinks.get(name),
                forecast=forecast.forecast_sinks.get(name) if feasible else None,
            )
            for name in forecast.application.sinks
        },
        changes=changes[:MAX_CHANGES],
        feasible=feasible,
        summary=sanitize(_summarize(forecast, len(changes)), 1000),
    )


def _share_changes(before: Shares, after: Shares) -> Iterator[schemas.ShareChange]:
    """List the keep shares that would be others; what no plan has is kept."""
    for stream, shares in after.items():
        known = before[stream].shares if stream in before else {}
        for label, share in shares.shares.items():
            if abs(share - known.get(label, 1.0)) > _MIN_CHANGE:
                yield schemas.ShareChange(
                    pattern=str(stream),
                    type=sanitize(label),
                    before=known.get(label),
                    after=share,
                )


def _order_by_change(row: schemas.ShareChange) -> tuple[float, str, str]:
    before = 1.0 if row.before is None else row.before
    return -abs(row.after - before), row.pattern, row.type


def _infeasible_nodes(forecast: Forecast) -> list[str]:
    return [n for n, health in forecast.health.items() if str(health.status) == "INFEASIBLE"]


def _summarize(forecast: Forecast, changes: int) -> str:
    if forecast.failure:
        return f"there would be no plan: {forecast.failure}"
    if infeasible := _infeasible_nodes(forecast):
        nodes = f"node{'s' * (len(infeasible) > 1)} {', '.join(infeasible)}"
        return f"{nodes} could not keep the bound, whatever is shed"
    if forecast.plan is not None and forecast.plan.keeps_incumbent:
        plan = "the active plan would stay"
    elif changes:
        plan = f"{count(changes, 'share')} would change"
    else:
        plan = "all shares would stay"
    current = _worth(forecast, forecast.current_sinks)
    change = _worth(forecast, forecast.forecast_sinks) / current - 1 if current > 0 else 0.0
    if abs(change) > _MIN_CHANGE:
        more = "more" if change > 0 else "less"
        return f"{plan}; the sinks would get {percent(abs(change))} {more}, weighted"
    return f"{plan}; the sinks would get as much as now"


def _worth(forecast: Forecast, rates: Mapping[str, float]) -> float:
    sinks = forecast.application.sinks.items()
    return float(sum(sink.weight * rates.get(name, 0.0) for name, sink in sinks))


def store_changes(view: RunView, changes: schemas.OverrideRequest) -> schemas.ApplyAnswer:
    """Store an override for the run, which applies it at its next decision."""
    view.refresh()
    checkpoint = view.paths.checkpoint
    if checkpoint is None or not view.can_apply:
        raise RequestError(
            409,
            "nothing can be changed: the run is over, only its log is here, or it has not "
            "decided anything yet",
        )
    override = Override(changes.bounds, changes.weights)
    if not override:
        raise RequestError(422, "the body names no bound and no weight; name at least one")
    nodes = view.totals.nodes
    if problem := unknown_name(override, nodes, view.totals.weights):
        raise RequestError(404, problem)
    for name in override.bounds:
        if nodes[name].bound is None:
            raise RequestError(
                422,
                f"node {name!r} has no bound and cannot be given one while it runs; give it "
                "one in the application file, and start the run again",
            )
    try:
        store_override(checkpoint, override)
    except InputError as error:
        raise RequestError(409, str(error)) from error
    changed = override.describe({name: node.percentile for name, node in nodes.items()})
    summary = f"stored for the run: {changed}; it plans for it at its next decision"
    return schemas.ApplyAnswer(applied=True, summary=sanitize(summary, 1000))
