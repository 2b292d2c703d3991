"""What must be so on a machine before Spark can work there: packages, Java, room.

`open_session` asks for what Spark cannot start without, `shedlight doctor` for all of it.
Nothing here imports PySpark: whoever has it broken wants to be told in which way.
"""

import importlib.metadata
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from shedlight.errors import ShedlightError

OLDEST_JAVA = 17
LOOPBACK = "127.0.0.1"
_GIB = 2**30
_MEMORY = 2 * _GIB
_DISK = 1 * _GIB
PATIENCE = 3.0
"""Seconds until a master must have answered."""


class SessionError(ShedlightError):
    """Spark cannot start, or not as it was asked to."""


@dataclass(frozen=True, slots=True)
class Check:
    """What came of a look at one thing; what is not right says what to do."""

    name: str
    ok: bool
    says: str


def checked(name: str, look: Callable[[], str]) -> Check:
    """Look at something, and make a check of what was found or of what is wrong."""
    try:
        return Check(name, ok=True, says=look())
    except SessionError as error:
        return Check(name, ok=False, says=str(error))


# Packages


def check_python() -> str:
    """Say which Python this is, if it is one that fits."""
    version = ".".join(map(str, sys.version_info[:3]))
    wanted = importlib.metadata.metadata("shedlight")["Requires-Python"]
    if not fits(version, wanted):
        raise SessionError(
            f"Python is {version}, but shedlight needs {wanted}; make an environment with it"
        )
    return f"{version} ({sys.executable})"


def check_package(package: str) -> str:
    """Say which version of a package is installed, if it is one that fits."""
    wanted = pins()[package]
    remedy = f"run {sys.executable} -m pip install '{package}{wanted}'"
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as error:
        raise SessionError(f"{package} is not installed; {remedy}") from error
    if not fits(version, wanted):
        raise SessionError(f"{package} is {version}, but shedlight needs {wanted}; {remedy}")
    return version


def pins() -> Mapping[str, str]:
    """Give the versions of packages that shedlight asks for."""
    lines = importlib.metadata.requires("shedlight") or []
    found = (re.match(r"[\w.-]+", line) for line in lines)
    return {one[0]: one.string[one.end() :].partition(";")[0].strip() for one in found if one}


def fits(version: str, wanted: str) -> bool:
    """Say whether a version is as wanted; of the many ways to want one we use two.

    Example:
        >>> fits("4.3.0", ">=4.3,<4.4"), fits("4.4.0.dev1", ">=4.3,<4.4")
        (True, False)
    """
    least = re.findall(r">=\s*([\d.]+)", wanted)
    below = re.findall(r"<\s*([\d.]+)", wanted)
    if len(least) + len(below) != wanted.count(",") + 1:
        raise ValueError(f"wanted must be of >= and <, got {wanted!r}")
    here = _numbers(version)
    return all(here >= _numbers(one) for one in least) and all(
        here < _numbers(one) for one in below
    )


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(one) for one in re.findall(r"\d+", version)[:3]]
    return (*numbers, 0, 0, 0)[:3]


def check_spark_home(environment: Mapping[str, str]) -> str:
    """Say which Spark will run: PySpark's own, or the one that SPARK_HOME names.

    Raises:
        SessionError: That is no Spark, or of another version than PySpark.
    """
    home = environment.get("SPARK_HOME")
    if not home:
        return "the one that PySpark brings along"
    jars = sorted(Path(home, "jars").glob("spark-core_*.jar"))
    if not jars:
        raise SessionError(f"SPARK_HOME is {home!r}, where there is no Spark; unset it")
    there = jars[-1].stem.rpartition("-")[2]
    ours = importlib.metadata.version("pyspark")
    if _numbers(there)[:2] != _numbers(ours)[:2]:
        raise SessionError(
            f"SPARK_HOME is {home!r}, a Spark {there}, but PySpark is {ours}; "
            "unset it to run the Spark that PySpark brings along"
        )
    return f"{there} ({home})"


# Java


@dataclass(frozen=True, slots=True)
class Java:
    """The Java that Spark would start."""

    path: str
    major: int

    def __str__(self) -> str:
        return f"{self.major} ({self.path})"


def find_java(environment: Mapping[str, str]) -> Java:
    """Find the Java that Spark would start: in JAVA_HOME, or else on the PATH.

    Raises:
        SessionError: There is none, it does not run, or it is too old.
    """
    path = _java_path(environment)
    said = _java_version(path, environment)
    major = java_major(said)
    if major is None:
        raise SessionError(
            f"{path} -version says {said[:80]!r}, which is no version; {_INSTALL}"
        )
    if major < OLDEST_JAVA:
        raise SessionError(
            f"{path} is Java {major}, but Spark needs {OLDEST_JAVA} or newer; {_INSTALL}"
        )
    return Java(path, major)


_INSTALL = f"install a Java runtime, {OLDEST_JAVA} or newer, or point JAVA_HOME at one"


def _java_path(environment: Mapping[str, str]) -> str:
    home = environment.get("JAVA_HOME")
    if home:
        path = shutil.which("java", path=f"{home}/bin")
        if path is None:
            raise SessionError(
                f"JAVA_HOME is {home!r}, where there is no bin/java; point it at a Java "
                f"runtime, {OLDEST_JAVA} or newer, or unset it to use the java on the PATH"
            )
        return path
    path = shutil.which("java", path=environment.get("PATH", ""))
    if path is None:
        raise SessionError(
            f"no Java: JAVA_HOME is not set and no java is on the PATH; {_INSTALL}"
        )
    return path


def _java_version(path: str, environment: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603  # what Spark is about to start anyway
            [path, "-version"],
            capture_output=True,
            check=False,
            env=dict(environment),
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SessionError(f"{path} does not run: {error}; {_INSTALL}") from error
    said = (done.stderr + done.stdout).strip()
    if done.returncode:
        reason = said.partition("\n")[0] or f"it ends with status {done.returncode}"
        raise SessionError(f"{path} does not run: {reason}; {_INSTALL}")
    return said


def java_major(text: str) -> int | None:
    """Read the version in what `java -version` says; up to Java 8 it is the second number.

    Example:
        >>> java_major('openjdk version "1.8.0_392"'), java_major('java version "21.0.1"')
        (8, 21)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


# Room


def bound(host: str, port: int) -> socket.socket:
    """Bind a port as Java does: one that was closed a moment ago is free."""
    one = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((host, port))
        one.listen()
    except OSError:
        one.close()
        raise
    return one


def check_loopback() -> str:
    """Have a port of this machine bound and called, as Spark and its Python workers do."""
    try:
        with bound(LOOPBACK, 0) as one:
            socket.create_connection(one.getsockname(), PATIENCE).close()
    except OSError as error:
        raise SessionError(
            f"a program here cannot call another one at {LOOPBACK}: {error}; "
            "allow it in the firewall or the container, for Spark talks to Python so"
        ) from error
    return f"{LOOPBACK} can be bound and called"


def check_kernels(folder: Path) -> str:
    """Say where compiled kernels are kept, if they can be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise SessionError(
            f"{folder} cannot be written to ({error.strerror}), so that the matcher is "
            "compiled in every run and every worker; set NUMBA_CACHE_DIR to a folder that can"
        ) from error
    compiled = any(folder.rglob("*.nbc"))
    return str(folder) if compiled else f"{folder}, to be filled in the first run"


def check_memory(free: int | None) -> str:
    """Say how much memory is free, if it is enough."""
    if free is None:
        return "not known on this system"
    if free < _MEMORY:
        raise SessionError(
            f"{free / _GIB:.1f} GiB of memory are free, but Spark with its Python workers "
            f"needs {_MEMORY / _GIB:.0f}; end other programs, or give the container more"
        )
    return f"{free / _GIB:.1f} GiB free"


def available_memory(root: Path) -> int | None:
    """Find how much memory is free in bytes, also in a container with a limit of its own."""
    try:
        lines = Path(root, "proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"MemAvailable:\s*(\d+) kB", lines)
    free = [int(found[1]) * 1024] if found else []
    group = Path(root, "sys/fs/cgroup")
    try:
        limit, used, kinds = (
            Path(group, f"memory.{name}").read_text(encoding="ascii")
            for name in ("max", "current", "stat")
        )
    except OSError:
        return min(free, default=None)
    cached = re.search(r"^inactive_file (\d+)", kinds, re.MULTILINE)
    if limit.strip().isdecimal():  # else it is "max"
        free.append(int(limit) - int(used) + (int(cached[1]) if cached else 0))
    return min(free, default=None)


def check_disk(folder: Path, needed: int = _DISK) -> str:
    """Say how much a folder can take, if it is enough."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise SessionError(
            f"{folder} cannot be written to: {error.strerror}; work in another folder"
        ) from error
    if free < needed:
        raise SessionError(
            f"{folder} has room for {free / _GIB:.1f} GiB, but checkpoints and shuffles need "
            f"{needed / _GIB:.0f}; make room, or choose another folder"
        )
    return f"{free / _GIB:.0f} GiB free in {folder}"
