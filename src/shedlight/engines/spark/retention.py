"""What leaves an outbox when nobody can ask for it any more.

Spark takes files out of its log of an outbox when they are old enough, and leaves the files
where they are. Here they are removed: files that are old and that the log no longer has, and
pieces that are older than anything in the log.
"""

from pathlib import Path

from shedlight.engines.spark.checkpoint import logged_files

_WRITING = 3600.0
"""Seconds that a piece may be older than the file that speaks of it: a micro-batch, by far."""


def clean(outbox: Path, pieces: Path, before: float) -> int:
    """Remove what is old.

    Args:
        outbox: The outbox of a node.
        pieces: What is large in it.
        before: What is younger stays, in seconds since 1970.

    Returns:
        How many files were removed.
    """
    logged = logged_files(outbox)
    if logged is None:
        return 0
    oldest = min([before, *logged.values()]) - _WRITING
    old = [
        *(one for one in _older(outbox, before) if _checked(one.name) not in logged),
        *_older(pieces, oldest),
    ]
    for one in old:
        one.unlink(missing_ok=True)
    return len(old)


def _checked(name: str) -> str:
    """Name the file whose checksum another is, where Hadoop writes them."""
    return name[1:].removesuffix(".crc") if name.startswith(".") else name


def _older(folder: Path, before: float) -> list[Path]:
    found = []
    for one in folder.glob("*"):
        try:
            if one.is_file() and one.stat().st_mtime < before:
                found.append(one)
        except FileNotFoundError:  # whoever wrote it took it away
            continue
    return found
