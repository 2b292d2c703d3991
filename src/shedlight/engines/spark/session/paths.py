"""Checks of the paths that an application reads and writes, before Spark starts.

Spark would find out late, in the middle of a run, and say so at length. Only local folders are
checked, and whether the host of a checkpoint elsewhere can be called; the rest is up to Spark.
"""

import os
import re
import socket
from pathlib import Path
from urllib.parse import unquote, urlsplit

from shedlight.engines.spark.session.preflight import CONNECT_TIMEOUT_S
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
    if is_local(checkpoint):
        _check_folder("the checkpoint", str(local_folder(checkpoint)))
    else:
        _check_server("the checkpoint", checkpoint)
    if log.is_dir():
        raise InputError(f"the log {log} is a folder; name a file")
    _check_folder("the log", str(log.parent))


def is_local(text: str) -> bool:
    """Say whether a path or an address is of a local file or folder.

    Example:
        >>> is_local("state/run"), is_local("file:/state/run"), is_local("hdfs://host/run")
        (True, True, False)
    """
    return (_scheme(text) or _LOCAL) == _LOCAL


def _scheme(text: str) -> str:
    match = _ADDRESS.match(text)
    return match[1].lower() if match else ""


_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")  # a name may have a colon in it
_LOCAL = "file"


def local_folder(text: str) -> Path:
    """Find the folder behind a path or a `file:` address."""
    if not is_local(text):
        raise ValueError(f"{text!r} is no local folder")
    return Path(unquote(urlsplit(text).path)) if _scheme(text) else Path(text).absolute()


def local_path(path: str | None) -> Path | None:
    """Find the local path, if it is one and is of one file or folder."""
    if path is None or not _PATTERN.isdisjoint(path) or not is_local(path):
        return None
    return local_folder(path) if _scheme(path) else Path(path)


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


def _check_server(what: str, address: str) -> None:
    """See that a host answers, if the address has its port: others may be names of a cluster.

    A file system of Hadoop would try for minutes.
    """
    parts = urlsplit(address)
    try:
        host, port = parts.hostname, parts.port
        if host is not None and port is not None:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"{what} {address} cannot be reached ({reason}); start what serves it, or put the "
            "address right"
        ) from error
