"""The page's interface: a route for each question, each of which calls one function."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.staticfiles import StaticFiles

from shedlight import __version__
from shedlight.errors import known_names
from shedlight.page import schemas
from shedlight.page.auth import Access, Guard
from shedlight.page.log_follower import downsample
from shedlight.page.responses import (
    Json,
    RefusedError,
    on_http_error,
    on_invalid,
    on_refused,
)
from shedlight.page.run_view import RunView
from shedlight.page.sse import Readers, news
from shedlight.page.what_if import Planner, apply
from shedlight.report.format import sanitize
from shedlight.runlog.prometheus import CONTENT_TYPE, metrics_text
from shedlight.runlog.records import DecisionRecord

STATIC = Path(__file__).parent / "static"
MOST_POINTS = 600
"""How many points a curve has at most."""
_TYPES_IN_METRICS = 20
"""How many types of a pattern have a metric of their own."""

_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ProblemAnswer} for status in (401, 403, 413, 422)
}
_bearer = HTTPBearer(auto_error=False, description="The token that was printed at the start.")


def build_app(
    watch: RunView, access: Access, over: Callable[[], bool] = lambda: False
) -> FastAPI:
    """Put the page together.

    Args:
        watch: The run that it is of.
        access: Who may look and who may change.
        over: Whether it is about to be closed, so that those who follow are let go.
    """
    app = FastAPI(
        title="Shedlight",
        version=__version__,
        description="A run of Shedlight: how it is, what if, and other bounds and weights.",
        docs_url=None,  # they come from elsewhere, and nothing here does
        redoc_url=None,
        responses=_REFUSALS,
    )
    app.add_middleware(Guard, access=access)
    app.add_exception_handler(RefusedError, on_refused)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http_error)
    _add_files(app)
    _add_questions(app, watch)
    _add_news(app, watch, over)
    _add_wishes(app, watch, access)
    return app


def _add_files(app: FastAPI) -> None:
    """Add the page itself."""

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _add_questions(app: FastAPI, watch: RunView) -> None:
    """Add what can be asked about the run."""

    @app.get("/api/run", response_model=schemas.RunAnswer)
    async def run() -> Response:
        """Say what is run."""
        return Json(watch.run())

    @app.get("/api/now", response_model=schemas.NowAnswer)
    async def now() -> Response:
        """Say how it is now."""
        return Json(watch.now())

    @app.get(
        "/api/latency",
        response_model=schemas.LatencyAnswer,
        responses={404: {"model": schemas.ProblemAnswer}},
    )
    async def latency(
        node: Annotated[str, Query(max_length=200)],
        seconds: Annotated[float, Query(gt=0, le=1e6, allow_inf_nan=False)] = 600,
    ) -> Response:
        """Say how long events spent at a node, up to the latest micro-batch."""
        return Json(latency_of(watch, node, seconds))

    @app.get("/api/decisions", response_model=list[schemas.DecisionAnswer])
    async def decisions(limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> Response:
        """List what was decided, newest first."""
        watch.refresh()
        newest = list(watch.seen.decisions)[: -limit - 1 : -1]
        return Json([_decision(one) for one in newest])


def latency_of(watch: RunView, node: str, seconds: float) -> dict[str, Any]:
    """Say how long events spent at a node in the last seconds of what the log has."""
    watch.refresh()
    seen = watch.seen
    if node not in seen.tally.nodes:
        hint = known_names(node, list(seen.tally.nodes))
        raise RefusedError(404, f"there is no node {node[:60]!r}; {hint}")
    points = seen.points.get(node, ())
    latest = points[-1].time if points else 0.0
    found = list(downsample(points, latest - seconds, MOST_POINTS))
    curves = {
        name: [getattr(one, name) for one in found]
        for name in ("time", "mean", "p50", "p95", "p99")
    }
    return {"node": node, "bound": seen.tally.nodes[node].bound} | curves


def _decision(one: DecisionRecord) -> dict[str, Any]:
    return {
        "time": one.time,
        "reason": sanitize(one.reason, 1000),
        "replanned": one.replanned,
        "seconds": one.seconds,
        "states": {name: sanitize(state, 60) for name, state in one.statuses.items()},
        "loads": dict(one.loads),
    }


def _add_wishes(app: FastAPI, watch: RunView, access: Access) -> None:
    """Add what-if, and what changes the run."""
    planner = Planner(watch.place.log)
    conflict: dict[int | str, dict[str, Any]] = {
        status: {"model": schemas.ProblemAnswer} for status in (400, 404, 409, 429)
    }

    @app.post("/api/what-if", response_model=schemas.WhatIfAnswer, responses=conflict)
    def what_if(question: schemas.Question) -> Response:
        """Say what would come of other bounds, weights or loads; nothing is changed."""
        return Json(planner.answer(question))

    @app.post("/api/apply", response_model=schemas.Applied, responses=conflict)
    async def apply_changes(
        changes: schemas.Changes,
        request: Request,
        _: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    ) -> Response:
        """Change bounds and weights of the run; this needs the token, always."""
        if not access.knows(request.headers):
            raise RefusedError(
                401, "changes need the token: send the header Authorization: Bearer TOKEN"
            )
        return Json(apply(watch, changes))


def _add_news(app: FastAPI, watch: RunView, over: Callable[[], bool]) -> None:
    """Add what follows the run: news for the page, metrics for Prometheus."""
    readers = Readers()

    @app.get("/api/stream", response_class=StreamingResponse, include_in_schema=False)
    async def stream() -> Response:
        if readers.full:
            raise RefusedError(429, "too many follow already; close a page and try again")
        return StreamingResponse(news(watch, readers, over), media_type="text/event-stream")

    @app.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        """Write what is known of the run for Prometheus."""
        watch.refresh()
        text = metrics_text(watch.seen.tally, max_types=_TYPES_IN_METRICS)
        return Response(text, media_type=CONTENT_TYPE)
