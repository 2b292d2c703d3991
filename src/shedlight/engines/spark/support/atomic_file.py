"""Files that others see whole or not at all, and folders that all processes see."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from shedlight.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the name under which to write a file; it gets its own name when it is complete."""
    own = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        yield own
        own.replace(path)
    finally:
        own.unlink(missing_ok=True)


def local_folder(text: str) -> Path:
    """Find the folder behind a path or a `file:` address.

    Raises:
        InputError: It is on a file system that is not mounted.
    """
    parts = urlsplit(text)
    if not parts.scheme:
        return Path(text).absolute()
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    raise InputError(
        f"the checkpoint {text!r} is not in a folder: plans and their record need one that the "
        "driver and all workers see under the same path; mount it, and name it without "
        f"{parts.scheme}:"
    )
