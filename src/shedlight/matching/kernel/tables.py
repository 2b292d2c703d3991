"""What a kernel is told: the rules of a pattern, and the events."""

from typing import NamedTuple

from shedlight.matching.jit import Array


class KernelTables(NamedTuple):
    """The tables of `subsets.py` and the settings of a pattern, as the kernel wants them."""

    moves: Array
    opens: Array
    spoil: Array
    facts: Array
    signs: Array
    bits: Array
    lanes: int
    single: bool  # whether there are several lanes and each is over with its first event
    simple: bool  # whether an event concerns one machine: no REUSE, no NOT, no window of events
    window: int  # microseconds, or NONE
    events: int  # events, or NONE
    reuse: bool
    absence: bool
    timed_out: bool  # whether machines that time out are written out
    cap: int  # most open machines


class Events(NamedTuple):
    """Ready events, in order, as one pattern sees them."""

    time: Array
    number: Array  # the type of each
    symbols: Array  # what the pattern calls each type
    hash1: Array  # of the key; empty where there are no keys
    hash2: Array
    row: int  # of the first event
