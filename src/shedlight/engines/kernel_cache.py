"""Which kernels are compiled already: each is compiled once on a computer, when needed."""

from collections.abc import Iterable
from pathlib import Path

from shedlight.language.ast.pattern import Pattern
from shedlight.matching.compile.matcher import build_keyed_automaton
from shedlight.matching.jit import cache_folder

QUEUES, SCAN = "queues", "conditions across events"
_FILES = {QUEUES: "fifo.run_fifo-*.nbc", SCAN: "scan.run_scan-*.nbc"}
"""The kernels by what they are for, and the files in which they are kept."""


def kernel_of(pattern: Pattern) -> str:
    """Name the kernel that matches a pattern."""
    automaton, _ = build_keyed_automaton(pattern)
    return SCAN if automaton.pattern.conditions else QUEUES


def compiled_kernels(folder: Path | None = None) -> dict[str, bool]:
    """Say which kernels are compiled; those of this version are in the folder."""
    where = folder or cache_folder()
    return {name: any(where.rglob(files)) for name, files in _FILES.items()}


def kernels_to_compile(patterns: Iterable[Pattern]) -> list[str]:
    """List the kernels that these patterns need and that are not compiled yet."""
    needed = dict.fromkeys(map(kernel_of, patterns))
    compiled = compiled_kernels()
    return [name for name in needed if not compiled[name]]
