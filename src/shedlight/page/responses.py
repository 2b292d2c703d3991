"""Errors of the web UI's interface: each is answered as `{"error": "a sentence"}`."""

from collections.abc import Iterable, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shedlight.page.errors import RequestError
from shedlight.report.format import sanitize

MAX_BODY_BYTES = 64 * 1024  # how long the body of a request may be

HTTP_MESSAGES = {
    400: "the body cannot be read; send an object in JSON, in UTF-8",
    404: "there is nothing here; the web UI is at /, its interface at /openapi.json",
    405: "this cannot be done here; the interface is described at /openapi.json",
    413: f"the body is longer than {MAX_BODY_BYTES:,} bytes; send less",
}


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
    """Explain the first of the things that are wrong with a request, in words of ours."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return "the body is not JSON; send an object such as {}"
    where, limits = _name_location(first["loc"]), first.get("ctx", {})
    rule = _RULES.get(first["type"], "this value cannot be taken").format(**limits)
    return f"{where}: {rule}; see /openapi.json for what can be sent"


_RULES = {
    "extra_forbidden": "there is no such setting",
    "missing": "it is missing",
    "greater_than": "it must be above {gt:g}",
    "greater_than_equal": "it must be {ge:g} or more",
    "less_than": "it must be below {lt:g}",
    "less_than_equal": "it must be {le:g} or less",
    "finite_number": "it must be a finite number",
    "float_type": "it must be a number",
    "float_parsing": "it must be a number",
    "int_type": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "int_parsing_size": "it must be a whole number that is not so long",
    "dict_type": "it must be an object",
    "model_type": "it must be an object",
    "model_attributes_type": "it must be an object",
    "string_type": "it must be a text",
    "string_too_long": "it must have {max_length} characters or fewer",
    "string_unicode": "it has characters that UTF-8 cannot write",
    "too_long": "it must have {max_length} entries or fewer",
}
"""What is asked of a value, by what is wrong with it."""


def _name_location(keys: Iterable[object]) -> str:
    names = [sanitize(str(key), 60) for key in list(keys)[1:] if key != "[key]"]
    return ".".join(names) or "the body"
