"""The threads of the scan kernel: assignments of a machine's events to elements."""

from typing import NamedTuple

import numpy as np

from shedlight.matching.jit import Array, i64, jit_inline, jit_noinline
from shedlight.matching.kernel.records import DROPPED, FREE_THREAD, NONE, THREADS, USED_THREADS

MOST_THREADS = 64
"""How many assignments a machine may carry; later ones are dropped and counted."""

THREAD = np.dtype([("state", "i4"), ("node", "i4"), ("next", "i4"), ("rank", "i4")], align=True)


class Bindings(NamedTuple):
    """The assignments of all machines."""

    threads: Array
    bound: Array  # [thread, element] the row of the last event of an element, or NONE


@jit_inline
def new_thread(counts: Array, threads: Bindings, state: int, source: int) -> int:
    """Make a thread at a state, with the events of another one or (NONE) with none."""
    thread = i64(counts[FREE_THREAD])
    if thread != NONE:
        counts[FREE_THREAD] = threads.threads[thread].next
    else:
        thread = i64(counts[THREADS])
        counts[THREADS] += 1
    counts[USED_THREADS] += 1
    one, other = threads.threads[thread], threads.threads[source]
    one.state = state
    one.node = NONE if source == NONE else other.node
    one.rank = 0 if source == NONE else other.rank
    one.next = NONE
    for element in range(threads.bound.shape[1]):
        before = NONE if source == NONE else threads.bound[source, element]
        threads.bound[thread, element] = before
    return thread


@jit_inline
def free_threads(counts: Array, threads: Array, first: int) -> None:
    """Give a thread and those behind it back."""
    while first != NONE:
        one = threads[first]
        after = i64(one.next)
        one.next = counts[FREE_THREAD]
        counts[FREE_THREAD] = first
        counts[USED_THREADS] -= 1
        first = after


@jit_noinline
def append(
    counts: Array, threads: Bindings, chosen: tuple[int, int, int], new: int
) -> tuple[int, int, int]:
    """Put a thread behind the others unless there is one like it; (first, last, number)."""
    first, last, number = chosen
    other = first
    while other != NONE:
        same = threads.threads[other].state == threads.threads[new].state
        for element in range(threads.bound.shape[1]):
            same &= threads.bound[other, element] == threads.bound[new, element]
        if same:
            break
        other = i64(threads.threads[other].next)
    if other != NONE or number == MOST_THREADS:
        counts[DROPPED] += other == NONE
        free_threads(counts, threads.threads, new)
        return chosen
    if first == NONE:
        return new, new, i64(1)
    threads.threads[last].next = new
    return first, new, number + 1
