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
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shedlight.page.responses import Json, problem

MOST_BYTES = 64 * 1024
"""How long the body of a request may be."""
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
    """Who may look and who may change.

    Attributes:
        token: What to show for it.
        host: The address that the page is bound to.
    """

    token: str
    host: str = "127.0.0.1"

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
    """Lets through what may pass, and says why not to the rest.

    Args:
        app: What is guarded.
        access: Who may look and who may change.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refused = self._refused(scope)
        if refused is None:
            body = await _body(scope, receive)
            if body is not None:
                await self._app(scope, _again(body, receive), guarded)
                return
            refused = problem(413, f"the body is longer than {MOST_BYTES:,} bytes; send less")
        await refused(scope, receive, guarded)

    def _refused(self, scope: Scope) -> Json | RedirectResponse | None:
        headers = Headers(scope=scope)
        if self._access.is_open:
            if is_loopback(_PORT.sub("", headers.get("host", ""))):
                return None
            return problem(
                403,
                "the page is for this machine only, and the request names another host; open "
                "it as localhost or 127.0.0.1",
            )
        if self._access.knows(headers):
            return None
        cookies = cookie_parser(headers.get("cookie", ""))
        if self._access.is_token(cookies.get(COOKIE, "")):
            return None
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])
        if scope["path"] == "/" and self._access.is_token(given[0]):
            reply = RedirectResponse("/", status_code=303)
            reply.set_cookie(COOKIE, self._access.token, httponly=True, samesite="strict")
            return reply
        return problem(
            401,
            "the token is missing or wrong; open the link that was printed when the page was "
            "started, or send the header Authorization: Bearer TOKEN",
        )


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """Read the body of a request; None if it is too long."""
    told = Headers(scope=scope).get("content-length", "0")
    if told.isdecimal() and int(told[:20]) > MOST_BYTES:
        return None
    data, more = b"", True
    while more:
        message = await receive()
        data += message.get("body", b"")
        more = bool(message.get("more_body", False))
        if len(data) > MOST_BYTES:
            return None
    return data


def _again(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read, and then what comes after it."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
