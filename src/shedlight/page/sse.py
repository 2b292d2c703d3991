"""The status of a run as server-sent events: at most one a second, none if nothing changed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from shedlight.page.responses import error_response
from shedlight.page.run_view import RunView
from shedlight.page.status import status_answer

POLL_INTERVAL_S = 1.0  # how many seconds pass from one look to the next
HEARTBEAT_LOOKS = 10
"""After how many looks without a change a comment is sent, so that the connection is kept."""
MAX_READERS = 64  # how many browsers may follow at a time
MAX_CLIENT_READERS = 32  # how many of one address


class StatusFeed:
    """Sends the status of a run to all who follow it, the readers."""

    def __init__(self, view: RunView) -> None:
        self.readers: Counter[str] = Counter()  # by their addresses
        self._view = view
        self._version = (-1, False)
        self._event = b""

    @contextmanager
    def place(self, client: str) -> Iterator[bool]:
        """Give a reader a place for as long as it follows; False: there is none."""
        is_free = (
            self.readers.total() < MAX_READERS and self.readers[client] < MAX_CLIENT_READERS
        )
        if not is_free:
            yield False
            return
        self.readers[client] += 1
        try:
            yield True
        finally:
            self.readers -= Counter([client])

    def _latest(self) -> tuple[tuple[int, bool], bytes]:
        """Give the status as an event, and its version; the same version, the same event."""
        self._view.refresh()
        version = (self._view.version, self._view.live)
        if version != self._version:
            data = status_answer(self._view).model_dump_json().encode()
            self._version, self._event = version, b"data: " + data + b"\n\n"
        return self._version, self._event

    async def events(
        self, is_closing: Callable[[], bool], interval: float = POLL_INTERVAL_S
    ) -> AsyncIterator[bytes]:
        """Give the status whenever it changes, until the reader leaves or the server closes."""
        sent, idle_looks = None, 0
        while not is_closing():
            version, event = self._latest()
            idle_looks += 1
            if version != sent:
                sent, idle_looks = version, 0
                yield event
            elif idle_looks >= HEARTBEAT_LOOKS:
                idle_looks = 0
                yield b": still here\n\n"
            await asyncio.sleep(interval)


class FollowResponse(Response):
    """The status as it changes, or an error if too many follow.

    The place is taken when the answer begins and given back when it ends, however that is: so
    no burst gets more places than there are, and a request that ends at once leaves none taken.
    """

    def __init__(self, feed: StatusFeed, is_closing: Callable[[], bool]) -> None:
        super().__init__()
        self._feed, self._is_closing = feed, is_closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        with self._feed.place((scope.get("client") or ("",))[0]) as is_free:
            answer: Response = error_response(429, TOO_MANY_READERS)
            if is_free:
                events = self._feed.events(self._is_closing, POLL_INTERVAL_S)
                answer = StreamingResponse(events, media_type="text/event-stream")
            await answer(scope, receive, send)


TOO_MANY_READERS = "too many follow already; close a window and try again"
