"""A checkpoint belongs to one run at a time, and its logs have to fit each other.

Spark keeps logs by the number of a micro-batch: `offsets` of what was begun, `commits` of what
is done, `sources` of the files that were read, and `_spark_metadata`, beside the files of a
sink, of those that count. If a file of one of them is lost, Spark goes on by the others: it
reads files twice or never, and leaves out micro-batches that a sink has by their number. So the
logs are held against each other before a query starts.
"""

import fcntl
import json
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shedlight.errors import StateError

LOCK = "lock"
_LOG = re.compile(r"(\d+)(\.compact)?")
_SINK = "_spark_metadata"
_NEW = "put it back, or start with a new checkpoint"


@contextmanager
def lock_checkpoint(checkpoint: Path) -> Iterator[None]:
    """Keep other runs away; the system lets go when this process ends, however it does.

    Raises:
        StateError: Another run has the checkpoint.
    """
    checkpoint.mkdir(parents=True, exist_ok=True)
    with (checkpoint / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise StateError(
                f"the checkpoint {checkpoint} is in use by {file.read() or 'another run'}; "
                "stop that run first, or use another checkpoint"
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def is_in_use(checkpoint: Path) -> bool:
    """Whether a run has a checkpoint; for a moment nobody else can take it."""
    try:
        with (checkpoint / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def check_logs(
    query: Path,
    sink: Path | None = None,
    *,
    logs: Sequence[int] | None = None,
    remedy: str = _NEW,
) -> int | None:
    """Hold the logs of a query against each other.

    Args:
        query: The folder where Spark remembers where the query stands.
        sink: The folder that it writes files to, if it does.
        logs: The number of the log of each source, as they are in the query; two may have one
            if they read the same. None: each has its own.
        remedy: What to do if a file is missing.

    Returns:
        The micro-batch that is repeated though its output is there already, if there is one.

    Raises:
        StateError: Files are missing or damaged.
    """
    begun, done = _last(query / "offsets"), _last(query / "commits")
    if done > begun:
        raise _missing(query / "offsets", begun + 1, remedy)
    if begun >= 0:
        _check_identity(query / "metadata", remedy)
    if done >= 0:
        _entries(query / "commits", str(done), remedy)
    _check_offsets(query, begun, logs, remedy)
    if sink is None:
        return None
    written = _last(sink / _SINK)
    _check_log(sink / _SINK, done, remedy)
    if written > begun:
        raise _missing(query / "offsets", written, remedy)
    return begun if done < begun == written else None


def _check_identity(file: Path, remedy: str) -> None:
    """See that the file is whole that says which query it is."""
    try:
        json.loads(file.read_text())
    except (FileNotFoundError, ValueError) as error:
        raise StateError(f"{file} is damaged or missing ({error}); {remedy}") from error


def _check_offsets(query: Path, begun: int, logs: Sequence[int] | None, remedy: str) -> None:
    """See from where to where the last micro-batch reads, and that the files are known."""
    offsets: list[Any] = []
    for number in range(max(begun - 1, 0), begun + 1):
        offsets = _entries(query / "offsets", str(number), remedy)
    numbers = range(len(offsets[1:])) if logs is None else logs
    for number, offset in zip(numbers, offsets[1:], strict=False):
        if isinstance(offset, dict) and offset.keys() == {"logOffset"}:
            _check_log(query / "sources" / str(number), offset["logOffset"], remedy)


def _check_log(folder: Path, least: int, remedy: str) -> None:
    """See that a log has all since its last summary, and at least up to a number."""
    there = _numbered(folder)
    last = max(max(there, default=-1), least)
    summaries = [number for number, name in there.items() if name.endswith(".compact")]
    for number in range(max(summaries, default=0), last + 1):
        if number not in there:
            raise _missing(folder, number, remedy)
        _entries(folder, there[number], remedy)


def committed_files(sink: Path) -> dict[str, float] | None:
    """List the files that count in a folder of files, and when they were written.

    Returns:
        Seconds since 1970 by name; None if that is not to be known now, for Spark, which works
        on its log, has just taken a part of it away, or there is no log yet.
    """
    folder = sink / _SINK
    there = _numbered(folder)
    summaries = [number for number, name in there.items() if name.endswith(".compact")]
    first = max(summaries, default=0)
    if first not in there:
        return None
    found: dict[str, float] = {}
    for number in sorted(there):
        try:
            entries = _entries(folder, there[number], _NEW) if number >= first else []
        except StateError:
            return None
        for one in entries:
            found[one["path"].rpartition("/")[2]] = one["modificationTime"] / 1e3
    return found


@dataclass(frozen=True, slots=True)
class LogReader:
    """Somebody who reads files, and what Spark remembers of that.

    Attributes:
        query: The folder where Spark remembers where the query stands.
        place: Which of the sources of the query it is.
        log: The number of its log.
    """

    query: Path
    place: int
    log: int


def last_read(reader: LogReader) -> float:
    """Say when the last file was written with which a reader of files is through.

    Returns:
        Seconds since 1970; 0 if it is through with none, or if that is not to be known.
    """
    query = reader.query
    folder = query / "sources" / str(reader.log)
    try:
        offsets = _entries(query / "offsets", str(_last(query / "commits")), _NEW)
        offset = offsets[1 + reader.place]
        there = _numbered(folder)
        until = [number for number in there if offset and number <= offset["logOffset"]]
        entries = _entries(folder, there[max(until)], _NEW) if until else []
    except StateError:
        return 0.0
    return max((one["timestamp"] / 1e3 for one in entries), default=0.0)


def _last(folder: Path) -> int:
    return max(_numbered(folder), default=-1)


def _numbered(folder: Path) -> dict[int, str]:
    """Find the files of a log by their numbers; a summary stands for what it sums up."""
    found: dict[int, str] = {}
    for path in folder.glob("[0-9]*"):
        match = _LOG.fullmatch(path.name)
        if match and (match[2] or int(match[1]) not in found):
            found[int(match[1])] = path.name
    return found


def _entries(folder: Path, name: str, remedy: str) -> list[Any]:
    """Read a file of a log: its version, and a line for each entry."""
    try:
        version, *lines = (folder / name).read_text().split("\n")
        entries = [None if line == "-" else json.loads(line) for line in lines if line]
    except FileNotFoundError as error:
        raise _missing(folder, int(name.partition(".")[0]), remedy) from error
    except ValueError as error:
        raise StateError(f"{folder / name} is damaged ({error}); {remedy}") from error
    if not version.startswith("v"):
        raise StateError(f"{folder / name} is damaged; {remedy}")
    return entries


def _missing(folder: Path, number: int, remedy: str) -> StateError:
    return StateError(f"the file {number} of {folder} is missing; {remedy}")


_DAMAGE = re.compile(
    r"CANNOT_LOAD_STATE_STORE|MISSING_STATE_DIRECTORY"
    r"|Multiple streaming queries are concurrently using"  # which our lock rules out
    r"|terminated with exception:\s+SQLSTATE"  # of a schema that is cut off nothing is said
)
_PLACES = (
    re.compile(r"(/[^\s:'\"]+/query/(?:state|offsets|commits)[^\s:'\",\]]*)"),
    re.compile(r"checkpointLocation=([^\s,\]]+)"),
)


def parse_state_damage(text: str) -> StateError | None:
    """Find out from what Spark says whether a query failed because its state is damaged."""
    places = [place for place in (one.search(text) for one in _PLACES) if place]
    if not places or not _DAMAGE.search(text):
        return None
    where = places[0][1].rstrip(".")
    return StateError(f"{where} is damaged, or a file of it is missing; {_NEW}")
