"""Connections of the web UI's server: how long a request may take, how many a client may hold.

A connection waits while no whole request has come over it. Who opens many and sends nothing, or
sends a byte now and then, holds them for seconds; and where a client has as many as it may, a
new connection takes the place of the one that waits longest, its own. So nobody is locked out.
"""

import asyncio
import json
from collections.abc import Iterable
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

MAX_CONNECTIONS = 256  # how many there may be
MAX_CLIENT_CONNECTIONS = 96  # how many of one address
REQUEST_TIMEOUT_S = 5.0  # in how many seconds a request has to arrive, its body included
SEND_TIMEOUT_S = 20.0  # how many seconds a client may read nothing of what it is sent
HANDSHAKE_TIMEOUT_S = 5.0  # how many seconds a client has for a TLS handshake
_LINGER_S = 1.0  # how many seconds a client has to read why it is refused


class PageProtocol(H11Protocol):
    """HTTP as `uvicorn` speaks it, with limits on time and on connections."""

    opened = 0.0
    is_refused = False
    _deadline: asyncio.TimerHandle | None = None
    _send_deadline: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether no whole request has come that is still to be answered."""
        cycle = self.cycle
        return cycle is None or cycle.more_body or cycle.response_complete

    @property
    def address(self) -> str:
        """Where the client is."""
        return self.client[0] if self.client else ""

    def connection_made(  # type: ignore[override]  # as in the base class
        self, transport: asyncio.Transport
    ) -> None:
        """Take a connection, in place of one that waits if there are too many."""
        super().connection_made(transport)
        self.opened = self.loop.time()
        self._watch()
        connections = cast("set[PageProtocol]", self.connections)
        if not _make_room(self, connections):
            self.refuse(429, "too many connections are open; close some and try again")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget its timers."""
        for timer in (self._deadline, self._send_deadline):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        if not self.is_refused:
            super().data_received(data)
            self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Give a client that does not read some time."""
        super().pause_writing()
        self._send_deadline = self.loop.call_later(SEND_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on, for the client has read."""
        super().resume_writing()
        if self._send_deadline is not None:
            self._send_deadline.cancel()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        del msg
        self.refuse(400, "this is no request in HTTP/1.1; the web UI is at /")

    def refuse(self, status: int, sentence: str) -> None:
        """Answer by an error, whatever was sent, and close."""
        if self.is_refused or self.transport.is_closing():
            return
        self.is_refused = True
        body = json.dumps({"error": sentence}).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        reason = STATUS_PHRASES[status]
        parts: list[Any] = [
            h11.Response(status_code=status, headers=headers, reason=reason),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ]
        try:
            answer = b"".join(self.conn.send(part) or b"" for part in parts)
        except h11.LocalProtocolError:  # it is being answered already
            answer = b""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(answer)
        self.transport.close()
        self.loop.call_later(_LINGER_S, self.transport.abort)

    def _watch(self) -> None:
        """Let time run while it waits."""
        if not self.is_waiting:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self._expire)

    def _expire(self) -> None:
        self._deadline = None
        if not self.is_waiting:
            return
        has_begun = self.conn.their_state is h11.SEND_BODY or bool(self.conn.trailing_data[0])
        if has_begun:
            self.refuse(
                408,
                f"the request did not arrive within {REQUEST_TIMEOUT_S:g} seconds; send all of "
                "it at once",
            )
        else:
            self.transport.close()


def _make_room(new: PageProtocol, connections: Iterable[PageProtocol]) -> bool:
    """Close a connection that waits if there are too many; False: none waits."""
    present = [c for c in connections if not c.is_refused and not c.transport.is_closing()]
    same = [c for c in present if c.address == new.address]
    if len(same) > MAX_CLIENT_CONNECTIONS:
        crowd = same
    elif len(present) > MAX_CONNECTIONS:
        numbers: dict[str, int] = {}
        for each in present:
            numbers[each.address] = numbers.get(each.address, 0) + 1
        most = max(numbers, key=lambda address: numbers[address])
        crowd = [c for c in present if c.address == most]
    else:
        return True
    waiting = [c for c in crowd if c.is_waiting and c is not new]
    if not waiting:
        return False
    min(waiting, key=lambda each: each.opened).transport.abort()
    return True
