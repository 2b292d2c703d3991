"""Memory that a worker keeps from one micro-batch to the next.

A micro-batch needs as much of it as the one before. What is given back to the system in between
has to be got again page by page; on a virtual host that passes it on to the real one, that took
longer than matching. So arrays and tables are in one heap, which keeps what it has once got.

This imports next to nothing, for it runs in processes that start often.
"""

import ctypes
from functools import cache

import pyarrow as pa

_OPTIONS = {
    -8: 1,  # M_ARENA_MAX: one heap for all threads
    -4: 0,  # M_MMAP_MAX: nothing is got apart from it, however large
    -1: 2**31 - 1,  # M_TRIM_THRESHOLD: nothing of it is given back
}
"""Of the C library of GNU; others have no such function, or do nothing."""


@cache
def keep_memory() -> None:
    """Have this process keep the memory that it frees, from now on."""
    try:
        option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    for number, value in _OPTIONS.items():
        option(number, value)
    pa.set_memory_pool(pa.system_memory_pool())
