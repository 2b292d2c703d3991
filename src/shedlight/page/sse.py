"""The status of a run as server-sent events: at most one a second, none if nothing changed."""

import asyncio
from collections.abc import AsyncIterator, Callable

from shedlight.page.run_view import RunView
from shedlight.page.status import status_answer

POLL_INTERVAL_S = 1.0  # how many seconds pass from one look to the next
HEARTBEAT_LOOKS = 10
"""After how many looks without a change a comment is sent, so that the connection is kept."""
MAX_READERS = 64  # how many browsers may follow at a time


class StatusFeed:
    """Sends the status of a run to all who follow it, the readers."""

    def __init__(self, view: RunView) -> None:
        self.readers = 0
        self._view = view
        self._version = (-1, False)
        self._event = b""

    @property
    def is_full(self) -> bool:
        """Whether nobody else may follow."""
        return self.readers >= MAX_READERS

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
        self.readers += 1
        try:
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
        finally:
            self.readers -= 1
