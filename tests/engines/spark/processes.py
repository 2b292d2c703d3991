"""The processes of a run."""

import os
from contextlib import suppress
from pathlib import Path


def family(pid: int) -> list[int]:
    """List a process, those that it started, and those that they started."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def jvms(pid):
    """List the JVMs of a run."""
    found = []
    for one in family(pid):
        with suppress(OSError):
            if Path(f"/proc/{one}/comm").read_text().strip() == "java":
                found.append(one)
    return found


_DAEMON = b"-m\0shedlight.engines.spark.step.worker_daemon\0"
"""As Spark starts it; the JVM has the name of the module among its settings, too."""


def python_workers(pid):
    """List the Python workers of a run, and what they are forked from."""
    found = []
    for one in family(pid):
        with suppress(OSError):
            if _DAEMON in Path(f"/proc/{one}/cmdline").read_bytes():
                found.append(one)
    return found


def memory_of(pid):
    """Add up what is in memory, in bytes; what processes share is counted once, in parts."""
    total = 0
    for one in family(pid):
        with suppress(OSError):
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024


def processor_time(pid: int) -> float:
    """Add up the processor time of a run, in seconds, that of processes that ended too."""
    ticks = 0
    for one in family(pid):
        with suppress(OSError):
            stat = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, stat[11:15]))  # own and of ended children, user and system
    return float(ticks / os.sysconf("SC_CLK_TCK"))
