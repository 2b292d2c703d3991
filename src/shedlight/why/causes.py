"""What can stop a match, and how far from a match each of it is.

The weights only rank candidates: the one with the least sum is the nearest. Whatever stops
events of the right types and the right key weighs about the same; an event of another key is
further away, and one of another type further still, for there are always many of those.
"""

from enum import Enum


class Cause(Enum):
    """What stopped a candidate."""

    CONDITION = "condition"  # a condition on one event, or across events, does not hold
    ORDER = "order"  # events came in another order
    WINDOW = "window"  # they are too far apart
    NOT = "not"  # an event that may not come came
    CONSUMED = "consumed"  # another match, or an older partial match, took an event
    LATE = "late"  # an event came behind the watermark
    DUPLICATE = "duplicate"  # an event had an id that was there before
    KEY = "key"  # an event has another key
    SHED = "shed"  # an event was shed


WEIGHTS = {
    Cause.CONDITION: 1.0,
    Cause.ORDER: 1.1,
    Cause.WINDOW: 1.2,
    Cause.NOT: 1.0,
    Cause.CONSUMED: 1.05,
    Cause.LATE: 1.0,
    Cause.DUPLICATE: 1.0,
    Cause.KEY: 2.0,
    Cause.SHED: 1.0,
}
OTHER_CONSTANT = 1.3  # the weight of a condition that compares with constants
OTHER_TYPE = 4.0  # ... and that tells the elements of the pattern apart
