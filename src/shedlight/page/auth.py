"""Who may ask what: the token, the Host header, and how long a request may be.

On loopback anybody on this machine may look, and pages from elsewhere may not: they would ask
under their own name, which is not that of this machine. On any other address every request
needs the token in a header, or the cookie of a session, which `/?token=...` begins. The cookie
is not the token: who gets hold of it may look until the session ends, and change nothing.
Changes need the token in a header always, for no other page can make a browser send that.
"""

import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shedlight.page.responses import HTTP_MESSAGES, MAX_BODY_BYTES, error_response

COOKIE = "shedlight-session"
SESSION_S = 12 * 3600  # how many seconds a browser may look before it needs the link again

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


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions of browsers, each a time until which it lasts, signed; none is remembered.

    Example:
        >>> sessions = Sessions(b"a key", clock=lambda: 0.0)
        >>> sessions.knows(sessions.begin()), sessions.knows("99999999.0")
        (True, False)
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    clock: Callable[[], float] = time.time

    def begin(self) -> str:
        """Make the cookie of a new session."""
        end = str(int(self.clock()) + SESSION_S)
        return f"{end}.{self._sign(end)}"

    def knows(self, cookie: str) -> bool:
        """Whether a cookie is of a session that lasts."""
        end, _, signature = cookie.partition(".")
        is_ours = hmac.compare_digest(signature.encode(), self._sign(end).encode())
        return is_ours and int(end) > self.clock()

    def _sign(self, end: str) -> str:
        return hmac.digest(self.key, end.encode(), "sha256").hex()


class Guard:
    """Middleware that lets through what may pass, and answers the rest with an error."""

    def __init__(self, app: ASGIApp, access: Access, sessions: Sessions | None = None) -> None:
        self._app, self._access = app, access
        self._sessions = sessions or Sessions()

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
        # Cookies are not kept apart by port, and there may be other runs on this machine.
        name = f"{COOKIE}-{(scope.get('server') or ('', 0))[1]}"
        cookie = cookie_parser(headers.get("cookie", "")).get(name, "")
        if self._access.knows(headers) or self._sessions.knows(cookie):
            return None
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])
        if scope["path"] == "/" and self._access.is_token(given[0]):
            response = RedirectResponse("/", status_code=303)
            response.set_cookie(
                name,
                self._sessions.begin(),
                max_age=SESSION_S,
                httponly=True,
                samesite="strict",
                secure=scope["scheme"] == "https",
            )
            return response
        return error_response(
            401,
            "the token is missing or wrong, or the session is over; open the link that was "
            "printed when the server was started, or send the header Authorization: Bearer "
            "TOKEN",
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
