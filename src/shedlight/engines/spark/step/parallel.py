"""What does not need each other in a shard, side by side in threads."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from shedlight.graph import OperatorSpec

_Given = TypeVar("_Given")
_Result = TypeVar("_Result")


def each(
    work: Callable[[_Given], _Result], given: Iterable[_Given], *, in_threads: bool
) -> Iterator[_Result]:
    """Do the same work with each of several things, and give the results in their order."""
    return _threads().map(work, given) if in_threads else map(work, given)


def run_all(
    specs: Sequence[OperatorSpec], run: Callable[[int], None], *, in_threads: bool
) -> float:
    """Run operators, each after those that feed it.

    Args:
        specs: The operators, in an order in which they could run one by one.
        run: Runs the operator at a place.
        in_threads: Whether those that do not feed each other run side by side.

    Returns:
        What part of the seconds of all operators passed on the clock.
    """

    def timed(place: int) -> float:
        start = time.perf_counter()
        run(place)
        return time.perf_counter() - start

    begun, spent = time.perf_counter(), 0.0
    for places in levels(specs):
        spent += sum(each(timed, places, in_threads=in_threads and len(places) > 1))
    clock = time.perf_counter() - begun
    return min(clock / spent, 1.0) if spent else 1.0


def levels(specs: Sequence[OperatorSpec]) -> list[list[int]]:
    """Put operators, each after those that feed it, into levels that do not feed themselves."""
    level: dict[str | None, int] = {}
    found: list[list[int]] = []
    for place, spec in enumerate(specs):
        own = 1 + max((level.get(stream.operator, -1) for stream in spec.inputs), default=-1)
        level[spec.name] = own
        found += [[] for _ in range(own + 1 - len(found))]
        found[own].append(place)
    return found


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(2, os.cpu_count() or 1), thread_name_prefix="operator")
