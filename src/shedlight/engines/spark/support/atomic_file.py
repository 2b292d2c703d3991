"""Files of a run: their owner alone reads them, and sees them whole or not at all."""

import os
from pathlib import Path
from typing import BinaryIO

_OWNER_ALONE = 0o600
_OWNER_ALONE_FOLDER = 0o700


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so; text is UTF-8."""
    octets = content.encode() if isinstance(content, str) else content
    own = path.with_name(f".{path.name}-{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        with os.fdopen(os.open(own, flags, _OWNER_ALONE), "wb") as file:
            file.write(octets)
        own.replace(path)
    finally:
        own.unlink(missing_ok=True)


def open_private(path: Path) -> BinaryIO:
    """Open a file to add to it, without a buffer; a new one is readable by its owner alone."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _OWNER_ALONE)
    return os.fdopen(descriptor, "ab", buffering=0)


def make_private_folder(path: Path) -> None:
    """Make a folder that its owner alone can enter; one that is there stays as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=_OWNER_ALONE_FOLDER, exist_ok=True)
