"""What a new pattern costs before its first event, and the very first run on a computer."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.question import Answer
from benchmarks.streams import prepared, random_stream

_FIRST_RUN = """
import time
began = time.perf_counter()
from shedlight.testing import matches
imported = time.perf_counter()
matches("SELECT a WHERE SEQ(a.type = 'A', b.type = 'B') WITHIN 5 s", "A0 B1")
queues = time.perf_counter()
across = "SELECT a WHERE SEQ(a.type = 'A', b.type = 'B') AND b.time > a.time WITHIN 5 s"
matches(across, "A0 B1")
print(imported - began, queues - imported, time.perf_counter() - imported)
"""


def new_pattern() -> Iterator[Answer]:
    """Time from the text of a pattern to its first matches, kernels being there already."""
    stream = random_stream(events=100)
    times = []
    for number in range(8):
        began = time.perf_counter()
        text = (
            f"SELECT A.value WHERE SEQ(A.type = {number}, NOT(X.type = 9), "
            f"B.value > 0.{number} {{2,5}}, AND(C.type = 1, D.type = 2)) "
            f"AND D.value > A.value WITHIN {number + 1} s"
        )
        prepared(text, stream)()
        times.append(time.perf_counter() - began)
    yield Answer(
        "deploying a new pattern, s", statistics.median(times), 0.5, detail=_listed(times)
    )


def first_run() -> Iterator[Answer]:
    """Time the first match in a new process, with and without compiled kernels on disk."""
    with tempfile.TemporaryDirectory() as folder:
        _, _, both = _first_run(folder)
        yield Answer("first run ever: compiling all kernels, s", both, 30)
        imported, _, again = _first_run(folder)
        detail = f"and {imported:.1f} s to import the package"
        yield Answer("first match in a new process, s", again, detail=detail)


def _first_run(folder: str) -> list[float]:
    output = subprocess.run(  # noqa: S603  # our own text
        [sys.executable, "-c", _FIRST_RUN],
        env=os.environ | {"NUMBA_CACHE_DIR": folder},
        check=True,
        capture_output=True,
        text=True,
    )
    return [float(number) for number in output.stdout.split()]


def _listed(times: list[float]) -> str:
    return ", ".join(f"{one * 1e3:.0f}" for one in times) + " ms"


QUESTIONS = (new_pattern, first_run)
