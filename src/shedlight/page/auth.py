"""Who may ask what: the token, the Host header, and how long a request may be.

On loopback anybody on this machine may look, and pages from elsewhere may not: they would ask
under their own name, which is not that of this machine. On any other address every request
needs the token, in a header or in the cookie that `/?token=...` sets. Changes need it in a
header always, for no other page can make a browser send that.
"""

import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shedlight.page.responses import HTTP_MESSAGES, MAX_BODY_BYTES, error_response

COOKIE = "shedlight-token"

_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        "object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_PORT = re.compile(r":\d{1,5}$")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Access:
    """Who may look and who may change."""

    token: str  # what to show for it
    host: str = "127.0.0.1"  # the address that the web UI is served at

    @property
    def is_open(self) -> bool:
        """Whether anybody who reaches it may look."""
        return is_loopback(self.host)

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether the header of a request has the token."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.is_token(given.strip())

    def is_token(self, given: str) -> bool:
        """Whether a text is the token, in a time that does not say how much of it is right."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


class Guard:
    """Middleware that lets through what may pass, and answers the rest with an error."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        app = self._reject(scope) or self._app
        await app(scope, _limit_body(receive), send_guarded)

    def _reject(self, scope: Scope) -> Response | None:
        """Give the response to a request that may not pass; None: it may."""
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        too_long = length.isdecimal() and int(length[:20]) > MAX_BODY_BYTES
        return self._reject_stranger(scope, headers) or (
            error_response(413, HTTP_MESSAGES[413]) if too_long else None
        )

    def _reject_stranger(self, scope: Scope, headers: Headers) -> Response | None:
        if self._access.is_open:
            if is_loopback(_PORT.sub("", headers.get("host", ""))):
                return None
            return error_response(
                403,
                "the web UI is for this machine only, and the request names another host; open "
                "it as localhost or 127.0.0.1",
            )
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        if self._access.knows(headers) or self._access.is_token(cookie):
            return None
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])
        if scope["path"] == "/" and self._access.is_token(given[0]):
            response = RedirectResponse("/", status_code=303)
            response.set_cookie(COOKIE, self._access.token, httponly=True, samesite="strict")
            return response
        return error_response(
            401,
            "the token is missing or wrong; open the link that was printed when the server was "
            "started, or send the header Authorization: Bearer TOKEN",
        )


def _limit_body(receive: Receive) -> Receive:
    """Stop reading a body that turns out to be too long."""
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MAX_BODY_BYTES:
            raise HTTPException(413)
        return message

    return limited
