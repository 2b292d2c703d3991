"""Work of a shard in parallel threads: operators that do not feed each other, payloads."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from shedlight.graph import OperatorSpec

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def each(
    work: Callable[[_Item], _Result], items: Iterable[_Item], *, in_threads: bool
) -> Iterator[_Result]:
    """Map a function over items, in threads or not; results come in the order of the items."""
    return _threads().map(work, items) if in_threads else map(work, items)


def run_all(
    specs: Sequence[OperatorSpec], run: Callable[[int], None], *, in_threads: bool
) -> float:
    """Run operators by their index, each after those that feed it, in parallel or not.

    Gives the parallelism ratio: wall seconds over the seconds of all operators.
    """

    def timed(index: int) -> float:
        start = time.perf_counter()
        run(index)
        return time.perf_counter() - start

    start, spent = time.perf_counter(), 0.0
    for level in levels(specs):
        spent += sum(each(timed, level, in_threads=in_threads and len(level) > 1))
    wall = time.perf_counter() - start
    return min(wall / spent, 1.0) if spent else 1.0


def levels(specs: Sequence[OperatorSpec]) -> list[list[int]]:
    """Group operators into levels, by index: none feeds another of its own level."""
    level_of: dict[str | None, int] = {}
    found: list[list[int]] = []
    for index, spec in enumerate(specs):
        own = 1 + max((level_of.get(stream.operator, -1) for stream in spec.inputs), default=-1)
        level_of[spec.name] = own
        found += [[] for _ in range(own + 1 - len(found))]
        found[own].append(index)
    return found


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(2, os.cpu_count() or 1), thread_name_prefix="operator")
