"""News of a run as server-sent events: at most one a second, and none if nothing happened."""

import asyncio
from collections.abc import AsyncIterator, Callable

from shedlight.page.run_view import RunView

EVERY = 1.0
"""How many seconds pass from one look to the next."""
HEARTBEAT = 10
"""After how many looks without news a line is sent that says nothing."""
MOST_READERS = 64
"""How many browsers may follow at a time."""


class Readers:
    """Counts who follows."""

    def __init__(self) -> None:
        self.number = 0

    @property
    def full(self) -> bool:
        """Whether nobody else may follow."""
        return self.number >= MOST_READERS


async def news(
    watch: RunView, readers: Readers, over: Callable[[], bool], every: float | None = None
) -> AsyncIterator[bytes]:
    """Tell how a run is whenever it is otherwise, until the reader leaves or all is over.

    Args:
        watch: The run.
        readers: Who follows.
        over: Whether the page is about to be closed.
        every: How many seconds pass from one look to the next; None: as usual.
    """
    pause = EVERY if every is None else every
    readers.number += 1
    try:
        told, silent = None, 0
        while not over():
            number, data = watch.news()
            silent += 1
            if number != told:
                told, silent = number, 0
                yield b"data: " + data + b"\n\n"
            elif silent >= HEARTBEAT:
                silent = 0
                yield b": still here\n\n"
            await asyncio.sleep(pause)
    finally:
        readers.number -= 1
