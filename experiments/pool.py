"""Independent pieces of work, side by side on the processors there are."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

_Job = TypeVar("_Job")
_Done = TypeVar("_Done")


def each(
    work: Callable[[_Job], _Done], jobs: Iterable[_Job], processes: int = 1
) -> Iterator[_Done]:
    """Do the work for each job and give what came of it, in the order of the jobs.

    Args:
        work: A function of a module, so that other processes find it.
        jobs: What it is to be done for.
        processes: How many at once; with 1, it is done here.
    """
    if processes == 1:
        yield from map(work, jobs)
        return
    # started afresh: a copy of a process whose threads hold locks may wait for ever
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        yield from pool.map(work, jobs)
    finally:
        pool.shutdown(cancel_futures=True)
