"""Which kernels are compiled already, and loading them: each is compiled once on a computer."""

import sys
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from shedlight.language import parse_pattern
from shedlight.language.ast.pattern import Pattern
from shedlight.matching.compile.matcher import build_keyed_automaton
from shedlight.matching.jit import cache_folder
from shedlight.matching.operators.cep_operator import (
    build_operator,
    new_operator_state,
    schema_of,
    step_operator,
)
from shedlight.matching.operators.reorder import StreamInput

QUEUES, SCAN = "queues", "conditions across events"
PYTHON = f"py{sys.version_info.major}{sys.version_info.minor}{sys.abiflags}"
_FILES = {QUEUES: f"fifo.run_fifo-*.{PYTHON}.*nbc", SCAN: f"scan.run_scan-*.{PYTHON}.*nbc"}
"""The kernels by what they are for, and the files in which they are kept for this Python."""
_EXAMPLES = {
    QUEUES: "SELECT a.x WHERE SEQ(a.x < 2, b.x > 1) WITHIN 1 s",
    SCAN: "SELECT a.x WHERE SEQ(a.x < 2, b.x > 1) AND b.x > a.x WITHIN 1 s",
}
"""A pattern for each of them."""


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


def load_kernels(kernels: Iterable[str] = _EXAMPLES) -> int:
    """Load kernels into this process by using them, which compiles those that are not yet.

    Gives how many matches there were: one for each.
    """
    events = pa.table({"time": [1, 2], "id": [1, 2], "x": [1.0, 2.0]})
    schema = schema_of(events.schema)
    patterns = {name: parse_pattern(_EXAMPLES[name], schema).pattern for name in kernels}
    inputs = [(StreamInput("s", ("id",), "time"), events.schema)]
    operator = build_operator(inputs, patterns)
    _, outcome = step_operator(
        operator, new_operator_state(operator), {0: events}, frozenset({0})
    )
    return sum(map(len, outcome.complex_events.values()))
