"""A disk with little room, for tests: a file system in memory, which needs root to mount."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SIZE = "8m"
_BALLAST = "ballast"


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a small disk at a folder; skip the test where that cannot be done."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small disk cannot be mounted: {error}")
    try:
        yield folder
    finally:
        command = ["umount", "--lazy", str(folder)]
        subprocess.run(command, check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Leave no room on a disk."""
    ballast = disk / _BALLAST
    try:
        with ballast.open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 4096)
    except OSError:
        pass
    yield
    ballast.unlink()
