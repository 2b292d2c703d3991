"""Files of a run: their owner alone reads them, and sees them whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_OWNER_ALONE = 0o600
_OWNER_ALONE_FOLDER = 0o700


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
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(own, flags, _OWNER_ALONE), "w", encoding="utf-8") as file:
            file.write(text)


def open_private(path: Path) -> BinaryIO:
    """Open a file to add to it, without a buffer; a new one is readable by its owner alone."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _OWNER_ALONE)
    return os.fdopen(descriptor, "ab", buffering=0)


def make_private_folder(path: Path) -> None:
    """Make a folder that its owner alone can enter; one that is there stays as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=_OWNER_ALONE_FOLDER, exist_ok=True)
