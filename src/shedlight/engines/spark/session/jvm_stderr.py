"""What a JVM says on its standard error: what is of use is passed on."""

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator

_NOISE = (b"WARNING: Using incubator modules", b"Picked up ", b"NOTE: Picked up ")
"""What Java says when it starts and cannot be told not to say."""


_HUSHED = threading.Event()


def suppress_jvm_stderr(*, quiet: bool) -> None:
    """Keep back what Java says while queries are stopped within a micro-batch, or no longer.

    Tasks that are told to end complain of it, each with a stack; nothing is wrong.
    """
    (_HUSHED.set if quiet else _HUSHED.clear)()


class JvmStderrFilter:
    """What a JVM says on its standard error: kept while it starts, then passed on."""

    def __init__(self) -> None:
        self._kept: list[bytes] = []
        self._started = threading.Event()
        self._reader: threading.Thread | None = None

    @contextlib.contextmanager
    def pipe(self) -> Iterator[int]:
        """Give the end of a pipe to write to, and read from the other one."""
        reading, writing = os.pipe()
        self._reader = threading.Thread(target=self._read, args=(reading,), daemon=True)
        self._reader.start()
        try:
            yield writing
        finally:
            os.close(writing)  # the JVM has its own

    def _read(self, reading: int) -> None:
        with open(reading, "rb") as lines:  # a number, not a path
            for line in without_ends(without_partings(lines)):
                if line.startswith(_NOISE) or _HUSHED.is_set():
                    continue
                if self._started.is_set():
                    _say(line)
                else:
                    self._kept.append(line)

    def let_through(self) -> None:
        """Pass on what was said and what will be."""
        self._started.set()
        for line in self._kept:
            _say(line)

    def end(self, seconds: float) -> list[str]:
        """Wait for the end, but not for longer, and give what was said and not passed on."""
        if self._reader is not None:
            self._reader.join(seconds)
        return [line.decode(errors="replace").rstrip() for line in self._kept]


def without_partings(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Leave out the stacks of Python workers to whom Spark hung up: it says itself why."""
    stack: list[bytes] = []
    for line in lines:
        if line.startswith(_STACK) and not stack:
            stack = [line]
        elif not stack:
            yield line
        elif line.startswith(b" "):
            stack.append(line)
        else:
            if b"pyspark/daemon.py" not in b"".join(stack) or not line.startswith(_PARTING):
                yield from (*stack, line)
            stack = []
    yield from stack


_STACK = b"Traceback (most recent call last):"
_PARTING = (b"BrokenPipeError", b"ConnectionResetError")


def without_ends(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Leave out what tasks say that were told to end; some do so when another run has begun."""
    before: bytes | None = None
    for line in lines:
        if before is not None and not line.startswith(_END):
            yield before
        if before is None or not line.startswith(_END):
            before = line if line.endswith(_TASKS) else None
            if before is None:
                yield line
        else:
            before = None
    if before is not None:
        yield before


_TASKS = (b" Aborting task\n", b" Error in TaskCompletionListener\n")
_END = (
    b"org.apache.spark.TaskKilledException",
    b"java.io.InterruptedIOException",
    b"java.nio.channels.ClosedByInterruptException",
)


def _say(line: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(2, line)  # not sys.stderr: its lock may be held when Python ends
