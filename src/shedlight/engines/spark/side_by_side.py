"""Operators of a group that do not need each other, side by side in threads."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from shedlight.graph import OperatorSpec


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
        each = _threads().map if in_threads and len(places) > 1 else map
        spent += sum(each(timed, places))
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
