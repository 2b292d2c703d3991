"""What a micro-batch of Spark costs besides matching.

seconds = fixed + reading x events + carrying x kept + matching
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """What a micro-batch costs besides matching, in seconds; the defaults are of two cores.

    Attributes:
        fixed: However few events it has.
        reading: For each event that is read.
        carrying: For each event that is kept, once.
    """

    fixed: float = 0.6
    reading: float = 1.5e-6
    carrying: float = 3e-6


DEFAULT_COSTS = Costs()
