"""Checks of the paths that an application reads and writes, before Spark starts.

Spark would find out late, in the middle of a run, and say so at length. Only local folders are
checked; what is elsewhere is up to Spark.
"""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from shedlight.errors import InputError
from shedlight.graph import Application

_PATTERN = frozenset("*?[{")  # what makes a path stand for several files


def check_paths(application: Application, checkpoint: str, log: Path) -> None:
    """See that sources can be read, and sinks, side outputs, checkpoint and log be written."""
    for name, source in application.sources.items():
        _check_readable(f"source {name}", source.path)
    for name, sink in application.sinks.items():
        _check_folder(f"sink {name}", sink.path)
    for name, source in application.sources.items():
        for side, output in source.side_outputs.items():
            _check_folder(f"{side} of source {name}", output.path)
    _check_folder("the checkpoint", str(local_folder(checkpoint)))
    if log.is_dir():
        raise InputError(f"the log {log} is a folder; name a file")
    _check_folder("the log", str(log.parent))


def local_folder(text: str) -> Path:
    """Find the folder behind a path or a `file:` address; other addresses are errors."""
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


def local_path(path: str | None) -> Path | None:
    """Find the local path, if it is one and is of one file or folder."""
    if path is None or not _PATTERN.isdisjoint(path):
        return None
    if path.startswith("file:"):
        return local_folder(path)
    return None if "://" in path else Path(path)


def _check_readable(what: str, path: str | None) -> None:
    here = local_path(path)
    if here is None:
        return
    if not here.exists():
        raise InputError(
            f"{what}: there is nothing at {here}; put `path` right, or make the folder if its "
            "files are still to come"
        )
    if not os.access(here, os.R_OK):
        raise InputError(f"{what}: {here} cannot be read; ask for the permission to")


def _check_folder(what: str, path: str | None) -> None:
    here = local_path(path)
    if here is None:
        return
    there = next(folder for folder in (here, *here.absolute().parents) if folder.exists())
    if not there.is_dir():
        raise InputError(
            f"{what} cannot be written to {here}: {there} is a file; name a folder, or "
            "one that is not there yet"
        )
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        raise InputError(
            f"{what} cannot be written to {here}: {there} is not ours to read and write; ask "
            "for the permission to, or name another folder"
        )
