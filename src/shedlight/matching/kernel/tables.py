"""What the FIFO kernel works with: the tables and settings of a pattern, and the events."""

from typing import NamedTuple

from shedlight.matching.jit import Array


class KernelTables(NamedTuple):
    """The tables of `dfa.py` and the settings of a pattern."""

    transitions: Array
    opens: Array
    after_not: Array
    subset_facts: Array
    symbol_facts: Array
    bits: Array
    regions: int
    single_event_regions: (
        bool  # whether there are several regions and each is over with its first event
    )
    one_taker: bool  # whether an event concerns one alone: no REUSE, NOT or window of events
    window: int  # microseconds, or NONE
    events: int  # events, or NONE
    reuse: bool
    absence: bool
    timed_out: bool  # whether partial matches that time out are written out
    cap: int  # most partial matches there may be


class Events(NamedTuple):
    """Ready events, in order, as one pattern sees them."""

    time: Array
    number: Array  # the type of each
    symbols: Array  # what the pattern calls each type
    hash1: Array  # of the key; empty where there are no keys
    hash2: Array
    row: int  # of the first event
