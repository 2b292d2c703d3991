"""What is sent: JSON that is JSON for everybody, and problems as a sentence."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from shedlight.report.format import sanitize

_HTTP_MESSAGES = {
    400: "the body cannot be read; send an object in JSON, in UTF-8",
    404: "there is nothing here; the page is at /, its interface at /openapi.json",
    405: "this cannot be done here; the interface is described at /openapi.json",
}


def encoded(value: object) -> bytes:
    """Write JSON in ASCII: half a surrogate pair, which is no text, can be sent so too."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


class Json(Response):
    """A value as JSON."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """Write it."""
        return encoded(content)


class RefusedError(Exception):
    """A request that cannot be met.

    Args:
        status: Of the reply.
        sentence: Where, what, and what to do.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def problem(status: int, sentence: str) -> Json:
    """Say in a sentence why a request cannot be met."""
    return Json({"error": sanitize(sentence, 1000)}, status_code=status)


async def on_refused(_: Request, error: Exception) -> Response:
    """Answer a request that cannot be met."""
    if not isinstance(error, RefusedError):
        raise error
    return problem(error.status, error.sentence)


async def on_http_error(_: Request, error: Exception) -> Response:
    """Answer what no route answers."""
    if not isinstance(error, HTTPException):
        raise error
    sentence = _HTTP_MESSAGES.get(error.status_code, "the request cannot be met")
    reply = problem(error.status_code, sentence)
    reply.headers.update(error.headers or {})
    return reply


async def on_invalid(_: Request, error: Exception) -> Response:
    """Answer a request that is not as it has to be."""
    if not isinstance(error, RequestValidationError):
        raise error
    return problem(422, sentence_of(error.errors()))


def sentence_of(errors: Sequence[Any]) -> str:
    """Say what the first of the things is that are wrong with a request."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return "the body is not JSON; send an object such as {}"
    place = _place(first["loc"])
    said = str(first["msg"])
    if first["type"] == "extra_forbidden":
        said = "there is no such setting"
    return f"{place}: {said[:1].lower()}{said[1:]}; see /openapi.json for what can be sent"


def _place(keys: Iterable[object]) -> str:
    names = [sanitize(str(key), 60) for key in list(keys)[1:] if key != "[key]"]
    return ".".join(names) or "the body"
