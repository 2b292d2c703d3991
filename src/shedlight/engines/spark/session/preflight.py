"""Checks of a computer before Spark starts there: packages, Java, memory, disk, network.

`open_session` makes those without which Spark cannot start, `shedlight doctor` all of them.
Nothing here imports PySpark: whoever has it broken wants to know in which way.
"""

import glob
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

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from shedlight.engines.kernel_cache import compiled_kernels
from shedlight.errors import ShedlightError

MIN_JAVA = 17
LOOPBACK = "127.0.0.1"
CONNECT_TIMEOUT_S = 3.0
_GIB = 2**30
_MIN_MEMORY = 2 * _GIB
_MIN_DISK = 1 * _GIB


class SessionError(ShedlightError):
    """Spark cannot start, or not as it was asked to."""


class SessionLostError(SessionError):
    """The JVM of a session is gone; another session may go on from the checkpoint."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check; one that failed says what to do."""

    name: str
    ok: bool
    says: str


def run_check(name: str, check: Callable[[], str]) -> Check:
    """Run a check, and say what it found or what is wrong."""
    try:
        return Check(name, ok=True, says=check())
    except SessionError as error:
        return Check(name, ok=False, says=str(error))


# Packages


def check_python() -> str:
    """Say which Python this is, if it is one that fits."""
    version = ".".join(map(str, sys.version_info[:3]))
    wanted = importlib.metadata.metadata("shedlight")["Requires-Python"]
    if version not in SpecifierSet(wanted):
        raise SessionError(
            f"Python is {version}, but shedlight needs {wanted}; make an environment with it"
        )
    return f"{version} ({sys.executable})"


def check_package(package: str) -> str:
    """Say which version of a package is installed, if it is one that fits."""
    wanted = required_versions()[package]
    remedy = f"run {sys.executable} -m pip install '{package}{wanted}'"
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as error:
        raise SessionError(f"{package} is not installed; {remedy}") from error
    if not wanted.contains(version, prereleases=True):
        raise SessionError(f"{package} is {version}, but shedlight needs {wanted}; {remedy}")
    return version


def required_versions() -> Mapping[str, SpecifierSet]:
    """Give the versions of packages that shedlight asks for."""
    requirements = map(Requirement, importlib.metadata.requires("shedlight") or [])
    return {requirement.name: requirement.specifier for requirement in requirements}


def check_spark_home(environment: Mapping[str, str]) -> str:
    """Say which Spark will run: PySpark's own, or the one that SPARK_HOME names, if it fits."""
    home = environment.get("SPARK_HOME")
    if not home:
        return "the one that PySpark brings along"
    jars = sorted(Path(home, "jars").glob("spark-core_*.jar"))
    if not jars:
        raise SessionError(f"SPARK_HOME is {home!r}, where there is no Spark; unset it")
    there = jars[-1].stem.rpartition("-")[2]
    ours = importlib.metadata.version("pyspark")
    if Version(there).release[:2] != Version(ours).release[:2]:
        raise SessionError(
            f"SPARK_HOME is {home!r}, a Spark {there}, but PySpark is {ours}; "
            "unset it to run the Spark that PySpark brings along"
        )
    return f"{there} ({home})"


def check_jars(settings: Mapping[str, str]) -> None:
    """See that the jars are there that Spark is given; it would go on without them."""
    for text in settings.get("spark.jars", "").split(","):
        path = text.strip().removeprefix("file://").removeprefix("file:")
        is_local = path and ":" not in path
        if is_local and not glob.glob(path):  # noqa: PTH207  # it may be absolute
            raise SessionError(
                f"spark.jars names {path!r}, where there is no file; put it right"
            )


# Java


def check_java(environment: Mapping[str, str]) -> str:
    """Say which Java Spark would start, if it fits: in JAVA_HOME, or else on the PATH."""
    path = _java_path(environment)
    said = _java_version(path, environment)
    major = java_major(said)
    if major is None:
        raise SessionError(
            f"{path} -version says {said[:80]!r}, which is no version; {_INSTALL}"
        )
    if major < MIN_JAVA:
        raise SessionError(
            f"{path} is Java {major}, but Spark needs {MIN_JAVA} or newer; {_INSTALL}"
        )
    return f"{major} ({path})"


_INSTALL = f"install a Java runtime, {MIN_JAVA} or newer, or point JAVA_HOME at one"


def _java_path(environment: Mapping[str, str]) -> str:
    home = environment.get("JAVA_HOME")
    if home:
        path = shutil.which("java", path=f"{home}/bin")
        if path is None:
            raise SessionError(
                f"JAVA_HOME is {home!r}, where there is no bin/java; point it at a Java "
                f"runtime, {MIN_JAVA} or newer, or unset it to use the java on the PATH"
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
    version = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(version[1]) if version else None


# Network, memory, disk


def bind_port(host: str, port: int) -> socket.socket:
    """Bind a port as Java does: one that was closed a moment ago is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def check_loopback() -> str:
    """Have a local port bound and called, as Spark and its Python workers do."""
    try:
        with bind_port(LOOPBACK, 0) as server:
            socket.create_connection(server.getsockname(), CONNECT_TIMEOUT_S).close()
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
    state = compiled_kernels(folder)
    missing = [name for name, compiled in state.items() if not compiled]
    if not missing:
        return f"{folder}, compiled"
    return f"{folder}, to be compiled when first needed: {', '.join(missing)}"


def check_memory(free: int | None) -> str:
    """Say how much memory is free, if it is enough."""
    if free is None:
        return "not known on this system"
    if free < _MIN_MEMORY:
        raise SessionError(
            f"{free / _GIB:.1f} GiB of memory are free, but Spark with its Python workers "
            f"needs {_MIN_MEMORY / _GIB:.0f}; end other programs, or give the container more"
        )
    return f"{free / _GIB:.1f} GiB free"


def available_memory(root: Path) -> int | None:
    """Find how much memory is free in bytes, also in a container with a limit of its own."""
    try:
        lines = Path(root, "proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    available = re.search(r"MemAvailable:\s*(\d+) kB", lines)
    free = [int(available[1]) * 1024] if available else []
    cgroup = Path(root, "sys/fs/cgroup")
    try:
        limit, used, details = (
            Path(cgroup, f"memory.{name}").read_text(encoding="ascii")
            for name in ("max", "current", "stat")
        )
    except OSError:
        return min(free, default=None)
    cached = re.search(r"^inactive_file (\d+)", details, re.MULTILINE)
    if limit.strip().isdecimal():  # else it is "max"
        free.append(int(limit) - int(used) + (int(cached[1]) if cached else 0))
    return min(free, default=None)


def check_disk(folder: Path, needed: int = _MIN_DISK) -> str:
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
