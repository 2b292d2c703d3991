"""The interface of the web UI: a route for each question, each of which calls one function."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.staticfiles import StaticFiles

from shedlight import __version__
from shedlight.page import schemas
from shedlight.page.auth import Access, Guard
from shedlight.page.errors import RequestError
from shedlight.page.keep_rows import plan_answer
from shedlight.page.pattern import pattern_answer
from shedlight.page.responses import add_error_handlers
from shedlight.page.run_view import RunView
from shedlight.page.series import series_answer
from shedlight.page.sse import FollowResponse, StatusFeed
from shedlight.page.status import decision_answers, run_answer, status_answer
from shedlight.page.totals import totals_answer
from shedlight.page.what_if import Forecaster, store_changes
from shedlight.page.why import WhyCommand
from shedlight.runlog.prometheus import CONTENT_TYPE, metrics_text
from shedlight.runlog.records import DecisionSummary

STATIC = Path(__file__).parent / "static"
_MAX_METRIC_TYPES = 20  # how many types of a pattern have a metric of their own

_bearer = HTTPBearer(auto_error=False, description="The token that was printed at the start.")


def build_app(
    view: RunView, access: Access, is_closing: Callable[[], bool] = lambda: False
) -> FastAPI:
    """Build the web UI of a run; when it is closing, those who follow are let go."""
    app = FastAPI(
        title="Shedlight",
        version=__version__,
        description="A run of Shedlight: its status, what if, and other bounds and weights.",
        docs_url=None,  # they come from elsewhere, and nothing here does
        redoc_url=None,
        responses=_errors(401, 403, 413, 422),
    )
    app.add_middleware(Guard, access=access)
    add_error_handlers(app)
    _add_files(app)
    _add_questions(app, view)
    _add_feeds(app, view, is_closing)
    _add_changes(app, view, access)
    return app


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": schemas.ErrorAnswer} for status in statuses}


def _add_files(app: FastAPI) -> None:
    """Add the page itself."""

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _add_questions(app: FastAPI, view: RunView) -> None:
    """Add what can be asked about the run."""

    @app.get("/api/run")
    async def run() -> schemas.RunAnswer:
        """Answer what is run."""
        return run_answer(view)

    @app.get("/api/status")
    async def status() -> schemas.StatusAnswer:
        """Answer the status of the run."""
        return status_answer(view)

    @app.get("/api/series", responses=_errors(404))
    async def series(
        node: Annotated[str, Query(max_length=200)],
        seconds: Annotated[float, Query(gt=0, le=1e12, allow_inf_nan=False)] = 600,
    ) -> schemas.SeriesAnswer:
        """Answer how a node was over time, up to its latest micro-batch."""
        return series_answer(view, node, seconds)

    @app.get("/api/totals")
    async def totals() -> schemas.TotalsAnswer:
        """Answer the totals of the run."""
        return totals_answer(view)

    @app.get("/api/pattern", responses=_errors(404))
    async def pattern(name: Annotated[str, Query(max_length=400)]) -> schemas.PatternAnswer:
        """Answer what a pattern looks for, OPERATOR.PATTERN, and its automaton."""
        return pattern_answer(view, name)

    @app.get("/api/plan", responses=_errors(404))
    async def plan(
        time: Annotated[float, Query(ge=0, le=1e12, allow_inf_nan=False)],
    ) -> schemas.PlanAnswer:
        """Answer what was decided last at a time, in seconds since 1970."""
        return plan_answer(view, time)

    @app.get("/api/decisions")
    async def decisions(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> list[DecisionSummary]:
        """Answer the latest decisions, newest first."""
        return decision_answers(view, limit)


def _add_changes(app: FastAPI, view: RunView, access: Access) -> None:
    """Add what-if, and what changes the run."""
    forecaster = Forecaster(view.paths.log)
    why_command = WhyCommand(view.paths)

    @app.post("/api/what-if", responses=_errors(400, 404, 409, 429))
    async def what_if(request: schemas.WhatIfRequest) -> schemas.WhatIfAnswer:
        """Answer what would come of other bounds, weights or loads; nothing is changed."""
        with forecaster.place():
            return await run_in_threadpool(forecaster.answer, request)

    @app.post("/api/apply", responses=_errors(400, 404, 409, 429))
    async def apply(
        changes: schemas.OverrideRequest,
        request: Request,
        _: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    ) -> schemas.ApplyAnswer:
        """Change bounds and weights of the run; this needs the token, always."""
        _check_token(access, request, "changes need")
        return store_changes(view, changes)

    @app.post("/api/why", responses=_errors(400, 404, 409, 429))
    async def why(
        question: schemas.WhyRequest,
        request: Request,
        _: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    ) -> schemas.ExplanationAnswer:
        """Answer why a pattern did not match; events are in it, so this needs the token."""
        _check_token(access, request, "what is asked about events needs")
        header = view.totals.header
        return await why_command.answer(question, header.pattern_texts if header else {})


def _check_token(access: Access, request: Request, what: str) -> None:
    if not access.knows(request.headers):
        raise RequestError(
            401, f"{what} the token: send the header Authorization: Bearer TOKEN"
        )


def _add_feeds(app: FastAPI, view: RunView, is_closing: Callable[[], bool]) -> None:
    """Add what follows the run: the status for browsers, metrics for Prometheus."""
    feed = StatusFeed(view)

    @app.get("/api/stream", response_class=StreamingResponse, include_in_schema=False)
    async def stream() -> Response:
        return FollowResponse(feed, is_closing)

    @app.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        """Write the metrics of the run for Prometheus."""
        view.refresh()
        text = metrics_text(view.totals, max_types=_MAX_METRIC_TYPES)
        return Response(text, media_type=CONTENT_TYPE)
