"""Independent jobs in parallel, one per processor."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

_Job = TypeVar("_Job")
_Done = TypeVar("_Done")


def map_jobs(
    function: Callable[[_Job], _Done], jobs: Iterable[_Job], processes: int = 1
) -> Iterator[_Done]:
    """Call a function with each job; results come in the order of the jobs.

    Args:
        function: Of a module, so that other processes find it.
        jobs: Its arguments.
        processes: How many at once; with 1, it is done here.
    """
    if processes == 1:
        yield from map(function, jobs)
        return
    # started afresh: a copy of a process whose threads hold locks may wait for ever
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        yield from pool.map(function, jobs)
    finally:
        pool.shutdown(cancel_futures=True)
