"""Files that others see whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the name under which to write a file; it gets its own name when it is complete."""
    own = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        yield own
        own.replace(path)
    finally:
        own.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so."""
    with replacing(path) as own:
        own.write_text(text, encoding="utf-8")
