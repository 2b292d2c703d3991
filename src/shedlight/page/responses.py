"""Errors of the web UI's interface: each is answered as `{"error": "a sentence"}`."""

from collections.abc import Iterable, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shedlight.report.format import sanitize

MAX_BODY_BYTES = 64 * 1024  # how long the body of a request may be

HTTP_MESSAGES = {
    400: "the body cannot be read; send an object in JSON, in UTF-8",
    404: "there is nothing here; the web UI is at /, its interface at /openapi.json",
    405: "this cannot be done here; the interface is described at /openapi.json",
    413: f"the body is longer than {MAX_BODY_BYTES:,} bytes; send less",
}


class RequestError(Exception):
    """A request that cannot be met: the status of the response, and a sentence for it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def error_response(status: int, sentence: str) -> JSONResponse:
    """Say in a sentence why a request cannot be met."""
    return JSONResponse({"error": sanitize(sentence, 1000)}, status_code=status)


def add_error_handlers(app: FastAPI) -> None:
    """Have every error answered by a sentence."""

    @app.exception_handler(RequestError)
    async def on_request_error(_: Request, error: RequestError) -> Response:
        return error_response(error.status, error.sentence)

    @app.exception_handler(HTTPException)
    async def on_http_error(_: Request, error: HTTPException) -> Response:
        sentence = HTTP_MESSAGES.get(error.status_code, "the request cannot be met")
        response = error_response(error.status_code, sentence)
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(RequestValidationError)
    async def on_invalid(_: Request, error: RequestValidationError) -> Response:
        return error_response(422, _explain_first(error.errors()))


def _explain_first(errors: Sequence[Any]) -> str:
    """Explain the first of the things that are wrong with a request."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return "the body is not JSON; send an object such as {}"
    message = str(first["msg"])
    if first["type"] == "extra_forbidden":
        message = "there is no such setting"
    where = _name_location(first["loc"])
    return (
        f"{where}: {message[:1].lower()}{message[1:]}; see /openapi.json for what can be sent"
    )


def _name_location(keys: Iterable[object]) -> str:
    names = [sanitize(str(key), 60) for key in list(keys)[1:] if key != "[key]"]
    return ".".join(names) or "the body"
