"""The lease of a checkpoint that is in no local folder: one run has it at a time.

Other file systems have no locks that a process loses when it ends. So a run writes into the
file of the lock again and again that it is there, and another run takes the file over only when
that has stopped, or when it knows that the JVM of the other one has ended. Nobody's
clock matters.

A driver that was suspended may wake up when another has taken over. It finds that out when it
renews its lease, and ends. Until then it does no harm: which micro-batch is begun by whom Spark
says with a file that is made once, and so is all that a replay needs of us.
"""

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from shedlight.engines.spark.support.storage import StoredPath, create_file, replace_file
from shedlight.errors import StateError

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """How long things take around a lease, in seconds.

    Attributes:
        renew: How often a run says that it is there.
        take_over: For how long it must have said nothing until another takes over.
        poll: How often that one looks.
    """

    renew: float = 2.0
    take_over: float = 15.0
    poll: float = 0.2


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """A run, as its lease names it.

    Attributes:
        name: What people call it.
        computer: On which computer its processes have their numbers; empty: that is not known.
        writer: The number of the process that does all its writing: the JVM.
        token: What no other run has.
    """

    name: str
    computer: str
    writer: int
    token: str

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it can write any more, as far as that is to be known here."""
        is_of_here = bool(self.computer) and self.computer == _computer()
        return is_of_here and not _is_running(self.writer)


def this_holder(writer: int) -> LeaseHolder:
    """Name this process as a holder, with the process that writes for it."""
    name = f"process {os.getpid()} on {socket.gethostname()}"
    return LeaseHolder(name, _computer(), writer, uuid4().hex)


def _computer() -> str:
    """Name this boot of this computer, and the space in which processes are numbered."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # no Linux
        return ""


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


class Lease:
    """The lease of a run, once it has it."""

    def __init__(self, file: StoredPath, holder: LeaseHolder, times: LeaseTimes) -> None:
        self._file, self._holder, self._times, self._beat = file, holder, times, 0
        self._lost, self._ending = "", threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)

    def begin(self) -> None:
        """Take the lease, and renew it from now on."""
        self._take()
        self._thread.start()

    def check(self) -> None:
        """See that no other run has taken over.

        Raises:
            StateError: One has.
        """
        if self._lost:
            raise StateError(self._lost)

    def end(self) -> None:
        """Let others have it."""
        self._ending.set()
        self._thread.join(timeout=self._times.renew)
        with suppress(OSError):
            if self._is_ours():
                self._file.unlink(missing_ok=True)

    def _take(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        if await_end(self._file, self._times):
            replace_file(self._file, self._content())
            return
        try:
            create_file(self._file, self._content())
        except FileExistsError as error:
            raise _in_use(self._file, "another run, which began just now") from error

    def _content(self) -> str:
        return json.dumps(asdict(self._holder) | {"beat": self._beat})

    def _is_ours(self) -> bool:
        found = _read(self._file)
        return found is not None and found.get("token") == self._holder.token

    def _renew(self) -> None:
        while not self._ending.wait(self._times.renew):
            with suppress(OSError):  # whoever takes over could reach it, and then so can we
                if not self._is_ours():
                    self._lost = _taken_over(self._file, self._times)
                    _LOG.error("%s", self._lost)
                    return
                self._beat += 1
                replace_file(self._file, self._content())


@contextmanager
def hold_lease(
    file: StoredPath, holder: LeaseHolder, times: LeaseTimes | None = None
) -> Iterator[Lease]:
    """Have a lease for a while.

    Raises:
        StateError: Another run has it.
    """
    lease = Lease(file, holder, times or LeaseTimes())
    lease.begin()
    try:
        yield lease
    finally:
        lease.end()


def await_end(file: StoredPath, times: LeaseTimes) -> bool:
    """Wait until the run that has a lease has surely ended; false: there is none.

    Raises:
        StateError: It goes on.
    """
    first = _read(file)
    if first is None:
        return False
    holder = _holder_of(first)
    over = time.monotonic() + times.take_over
    while not holder.has_ended and time.monotonic() < over:
        time.sleep(times.poll)
        now = _read(file)
        if now is None:
            return False
        if now != first:
            raise _in_use(file, holder.name)
    return True


def _holder_of(row: Mapping[str, Any]) -> LeaseHolder:
    try:
        name, computer, token = (str(row[each]) for each in ("name", "computer", "token"))
        return LeaseHolder(name, computer, int(row["writer"]), token)
    except (KeyError, TypeError, ValueError):
        return LeaseHolder("a run that is not known", "", 0, "")


def _read(file: StoredPath) -> Mapping[str, Any] | None:
    try:
        row = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def _in_use(file: StoredPath, by: str) -> StateError:
    return StateError(
        f"the checkpoint {file.parent} is in use by {by}; stop that run first, or use another "
        "checkpoint"
    )


def _taken_over(file: StoredPath, times: LeaseTimes) -> str:
    found = _read(file)
    by = "nobody" if found is None else _holder_of(found).name
    return (
        f"this run has lost its checkpoint {file.parent} to {by}: it said nothing for "
        f"{times.take_over:g} s, or somebody removed the file {file.name}; see which run is "
        "to go on, and start that one if it has ended"
    )
