"""The standard error of Spark's JVM: kept while it starts, then only its errors are forwarded.

A record is one whole line that `log4j2.properties` begins with `spark: `. All else is dropped:
what Java says of itself, and the stacks of Python workers, whose errors fail the query anyway.
"""

import contextlib
import os
import threading
from collections.abc import Iterator

LOG_PREFIX = b"spark: "  # what a record of our logging configuration begins with

_STARTUP_NOISE = (b"WARNING: Using incubator modules", b"Picked up ", b"NOTE: Picked up ")
"""What Java says when it starts and cannot be configured not to say."""


_SUPPRESSED = threading.Event()


@contextlib.contextmanager
def suppress_jvm_stderr() -> Iterator[None]:
    """Drop what Spark logs meanwhile: queries that are stopped complain of it."""
    _SUPPRESSED.set()
    try:
        yield
    finally:
        _SUPPRESSED.clear()


class JvmStderrFilter:
    """Keeps what a JVM writes until `start_forwarding`; then forwards lines with the prefix."""

    def __init__(self, prefix: bytes = LOG_PREFIX) -> None:
        self._prefix = prefix
        self._startup_lines: list[bytes] = []
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
            for line in lines:
                if not self._started.is_set():
                    self._startup_lines.append(line)
                elif is_record(line, self._prefix) and not _SUPPRESSED.is_set():
                    with contextlib.suppress(OSError):
                        os.write(2, line)  # not sys.stderr: its lock may be held at exit

    def start_forwarding(self) -> None:
        """Forward records from now on; what was said before is dropped."""
        self._started.set()

    def end(self, seconds: float) -> list[str]:
        """Wait for the end of the stream, at most so long; give what was said at the start."""
        if self._reader is not None:
            self._reader.join(seconds)
        lines = (line for line in self._startup_lines if not line.startswith(_STARTUP_NOISE))
        return [line.decode(errors="replace").rstrip() for line in lines]


def is_record(line: bytes, prefix: bytes = LOG_PREFIX) -> bool:
    """Say whether a line is a whole record: the last one of a stream may be cut off."""
    return line.startswith(prefix) and line.endswith(b"\n")
