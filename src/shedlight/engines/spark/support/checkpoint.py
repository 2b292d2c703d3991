"""The lock of a checkpoint, which one run has at a time, and checks of Spark's logs in it.

Spark keeps logs by the number of a micro-batch: `offsets` of what was begun, `commits` of what
is done, `sources` of the files that were read, and `_spark_metadata`, in the folder of a sink,
of the files that count. If a file of one of them is lost, Spark goes on by the others: it
reads files twice or never, and leaves out micro-batches that a sink has by their number. So the
logs are held against each other before a query starts.
"""

import fcntl
import json
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from shedlight.engines.spark.support.atomic_file import make_private_folder
from shedlight.engines.spark.support.storage import StoredPath
from shedlight.errors import StateError

LOCK = "lock"
SINK_LOG = "_spark_metadata"
_START_ANEW = "put it back, or start with a new checkpoint"


_SHUTDOWN_GRACE_S = 20.0  # how long the JVM of a run that was killed has to end


@contextmanager
def lock_checkpoint(checkpoint: Path) -> Iterator[int]:
    """Keep other runs away; the system lets go when this process ends, however it does.

    Gives the descriptor of the lock. A JVM that inherits it has the lock, too: if only its
    driver was killed it still writes for a moment, and is waited for.
    """
    make_private_folder(checkpoint)
    with (checkpoint / LOCK).open("a+") as file:
        _acquire(file, checkpoint)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield file.fileno()


def _acquire(file: TextIO, checkpoint: Path) -> None:
    over = time.monotonic() + _SHUTDOWN_GRACE_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            owner = file.read()
            if not _has_ended(owner) or time.monotonic() > over:
                raise StateError(
                    f"the checkpoint {checkpoint} is in use by {owner or 'another run'}; "
                    "stop that run first, or use another checkpoint"
                ) from error
            time.sleep(_POLL_INTERVAL_S)
        else:
            return


_POLL_INTERVAL_S = 0.1
_OWNER = re.compile(r"process (\d+) on (.+)")


def _has_ended(owner: str) -> bool:
    """Say whether the process that took a lock, by what it wrote there, is known to be gone."""
    match = _OWNER.fullmatch(owner)
    if match is None or match[2] != socket.gethostname():
        return False
    try:
        os.kill(int(match[1]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def is_in_use(checkpoint: StoredPath) -> bool:
    """Say whether a run has a checkpoint; for a moment nobody else can take it.

    Elsewhere than in a local folder one that was killed may still have it.
    """
    lock = checkpoint / LOCK
    try:
        if not isinstance(lock, Path):
            return lock.exists()
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


@dataclass(frozen=True)
class _SparkLog:
    """A folder with a file for each micro-batch, some of them summaries of those before."""

    folder: StoredPath
    remedy: str = _START_ANEW

    @cached_property
    def files(self) -> dict[int, str]:
        """The names of the files by their numbers; a summary stands for what it sums up."""
        names = sorted(path.name for path in self.folder.glob("[0-9]*"))  # 9, then 9.compact
        return {int(match[1]): match[0] for match in map(_LOG_FILE.fullmatch, names) if match}

    @property
    def last(self) -> int:
        """The number of the last file; -1 if there is none."""
        return max(self.files, default=-1)

    def read(self, number: int) -> list[Any]:
        """Read a file: after its version it has a line for each entry."""
        path = self.folder / self.files.get(number, str(number))
        try:
            version, *lines = path.read_text().split("\n")
            entries = [None if line == "-" else json.loads(line) for line in lines if line]
        except FileNotFoundError as error:
            raise self.missing(number) from error
        except ValueError as error:
            raise StateError(f"{path} is damaged ({error}); {self.remedy}") from error
        if not version.startswith("v"):
            raise StateError(f"{path} is damaged; {self.remedy}")
        return entries

    def check(self, last: int) -> None:
        """See that all is there since the last summary, and at least up to a number."""
        files = self.files
        for number in range(_summary_in(files), max([*files, last]) + 1):
            self.read(number)

    def missing(self, number: int) -> StateError:
        """Make the error that says that a file is missing."""
        return StateError(f"the file {number} of {self.folder} is missing; {self.remedy}")


_LOG_FILE = re.compile(r"(\d+)(\.compact)?")


def _summary_in(files: Mapping[int, str]) -> int:
    """Find the number of the last summary; 0 if there is none."""
    return max((n for n, name in files.items() if name.endswith(".compact")), default=0)


def check_logs(
    query: StoredPath,
    sink: StoredPath | None = None,
    *,
    logs: Sequence[int] | None = None,
    remedy: str = _START_ANEW,
) -> int | None:
    """Hold the logs of a query against each other, and against those of the files it writes.

    The query must not run: what a killed one left unfinished is removed.

    `logs` has the number of the log of each source, as they are in the query; two may have one
    if they read the same. None: each has its own. Gives the micro-batch that is repeated though
    its output is there already, if there is one.
    """
    _remove_unfinished(query / "offsets")
    offsets, commits = (
        _SparkLog(query / "offsets", remedy),
        _SparkLog(query / "commits", remedy),
    )
    begun, done = offsets.last, commits.last
    if done > begun:
        raise offsets.missing(begun + 1)
    if begun >= 0:
        _check_identity(query / "metadata", remedy)
    if done >= 0:
        commits.read(done)
    _check_alike(offsets)
    _check_sources(query, offsets, logs)
    if sink is None:
        return None
    output = _SparkLog(sink / SINK_LOG, remedy)
    written = output.last
    output.check(done)
    if written > begun:
        raise offsets.missing(written)
    return begun if done < begun == written else None


def _remove_unfinished(log: StoredPath) -> None:
    """Remove what a query was killed while writing: Spark begins in an empty folder only."""
    for pattern in (".*.tmp", ".*.tmp.crc"):
        for file in log.glob(pattern):
            file.unlink(missing_ok=True)


def _check_identity(file: StoredPath, remedy: str) -> None:
    """See that the file is whole that says which query it is."""
    try:
        json.loads(file.read_text())
    except (FileNotFoundError, ValueError) as error:
        raise StateError(f"{file} is damaged or missing ({error}); {remedy}") from error


_MAY_DIFFER = "spark.sql.shuffle.partitions"  # when keys are divided anew


def _check_alike(log: _SparkLog) -> None:
    """See that what Spark noted last is of the form of what it noted before that.

    A byte that is another makes settings of it that nobody has made, and Spark then says that
    the schema of the state is another one. A later Spark may know more settings.
    """
    if log.last < 1 or log.last - 1 not in log.files:
        return
    before, last = log.read(log.last - 1), log.read(log.last)
    path = log.folder / log.files[log.last]
    try:
        known, noted = (dict(entries[0]["conf"]) for entries in (before, last))
        are_alike = _alike(known, noted) and len(before) == len(last)
    except (IndexError, KeyError, TypeError, ValueError):
        are_alike = False
    pairs = zip(before[1:], last[1:], strict=False)
    if not are_alike or any(_is_of_files(a) != _is_of_files(b) for a, b in pairs if a and b):
        raise StateError(
            f"{path} is damaged, or the one before it: they are not of one form; {log.remedy}"
        )


def _alike(known: Mapping[str, str], noted: Mapping[str, str]) -> bool:
    both = (known.keys() & noted.keys()) - {_MAY_DIFFER}
    grew = known.keys() <= noted.keys() or noted.keys() <= known.keys()
    return grew and all(known[name] == noted[name] for name in both)


def _is_of_files(offset: object) -> bool:
    return isinstance(offset, dict) and offset.keys() == {"logOffset"}


def _check_sources(query: StoredPath, log: _SparkLog, logs: Sequence[int] | None) -> None:
    """See from where to where the last micro-batch reads, and that the files are known."""
    begun, offsets = log.last, []
    for number in range(max(begun - 1, 0), begun + 1):
        offsets = log.read(number)[1:]
    for number, offset in zip(
        range(len(offsets)) if logs is None else logs, offsets, strict=False
    ):
        if _is_of_files(offset):
            source = _SparkLog(query / "sources" / str(number), log.remedy)
            source.check(offset["logOffset"])


def committed_files(sink: StoredPath) -> dict[str, float] | None:
    """List the files that count in a folder, and when they were written in seconds since 1970.

    None if that is not to be known now: there is no log yet, or Spark, which works on it, has
    just taken a part of it away.
    """
    log = _SparkLog(sink / SINK_LOG)
    files = log.files
    first = _summary_in(files)
    try:
        entries = [
            entry for n in sorted({first, *files}) if n >= first for entry in log.read(n)
        ]
    except StateError:
        return None
    return {one["path"].rpartition("/")[2]: one["modificationTime"] / 1e3 for one in entries}


def missing_files(sink: Path) -> list[Path]:
    """List the files that are gone from a folder though its log names them."""
    there = {file.name for file in sink.rglob("*")}
    return [sink / name for name in sorted((committed_files(sink) or {}).keys() - there)]


@dataclass(frozen=True, slots=True)
class LogReader:
    """A query that reads files, as one of its sources."""

    query: StoredPath  # the checkpoint of the query
    index: int  # which of the sources of the query it is
    log: int  # the number of its log


def last_read(reader: LogReader) -> float:
    """Say when the last file was written with which a reader is through, in seconds since 1970.

    0 if it is through with none, or if that is not to be known.
    """
    log = _SparkLog(reader.query / "sources" / str(reader.log))
    try:
        committed = _SparkLog(reader.query / "commits").last
        offset = _SparkLog(reader.query / "offsets").read(committed)[1 + reader.index]
        through = [number for number in log.files if offset and number <= offset["logOffset"]]
        entries = log.read(max(through)) if through else []
    except StateError:
        return 0.0
    return max((entry["timestamp"] / 1e3 for entry in entries), default=0.0)


def last_micro_batches(query: StoredPath) -> tuple[int, int]:
    """Say which micro-batch of a query was begun last, and which was done; -1: none."""
    return _SparkLog(query / "offsets").last, _SparkLog(query / "commits").last


def count_streams(query: StoredPath) -> int:
    """Say how many streams a query has begun to read; 0: it has not begun."""
    log = _SparkLog(query / "offsets")
    return 0 if log.last < 0 else len(log.read(log.last)) - 1


_DAMAGE = re.compile(
    r"CANNOT_LOAD_STATE_STORE|MISSING_STATE_DIRECTORY"
    r"|Multiple streaming queries are concurrently using"  # which our lock rules out
    r"|terminated with exception:\s+SQLSTATE"  # of a schema that is cut off nothing is said
)
_PASSING = re.compile(
    r"BlockMissing|ConnectException|ConnectTimeout|SocketTimeout|NoRouteToHost|UnknownHost"
    r"|StandbyException|SafeMode|ClosedChannel|InterruptedIO"
    r"|Too many open files|OUT_OF_MEMORY|OutOfMemoryError"
)
"""Why a state could not be read this time, whole as it may be."""
_PATHS = (
    re.compile(r"(/[^\s:'\"]+/query/(?:state|offsets|commits)[^\s:'\",\]]*)"),
    re.compile(r"checkpointLocation=([^\s,\]]+)"),
)


def parse_state_damage(text: str) -> StateError | None:
    """Find out from what Spark says whether a query failed because its state is damaged."""
    paths = [match[1] for match in (path.search(text) for path in _PATHS) if match]
    if not paths or not _DAMAGE.search(text) or _PASSING.search(text):
        return None
    where = paths[0].rstrip(".")
    return StateError(f"{where} is damaged, or a file of it is missing; {_START_ANEW}")
