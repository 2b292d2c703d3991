"""Numbers of a snapshot: what each one means and which ones there can be."""

import math
import re
from dataclasses import dataclass

from shedlight.errors import SnapshotError

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a number of a snapshot counts, and its range.

    Attributes:
        name: What to write.
        least: The smallest that there can be.
        most: The greatest that there can be; a number is always finite.
        beyond: Whether `least` itself is too small.
    """

    name: str
    least: float = 0.0
    most: float = math.inf
    beyond: bool = False

    @property
    def wanted(self) -> str:
        """What to write instead of something else."""
        if self.beyond:
            return f"{self.name}, a number greater than {self.least:g}"
        if self.most < math.inf:
            return f"{self.name}, a number from {self.least:g} to {self.most:g}"
        return f"{self.name}, a number from {self.least:g} on"

    def require(self, value: float, file: str, place: str) -> None:
        """Refuse a number that cannot be.

        Raises:
            SnapshotError: It cannot; the message says where it stands.
        """
        fits = math.isfinite(value) and self.least <= value <= self.most
        if not fits or (self.beyond and value == self.least):
            raise SnapshotError(f"{file}: {place} is {shown(value)}; write {self.wanted}")


RATE = Quantity("events per second")
SECONDS = Quantity("seconds per event", beyond=True)
MOMENT = Quantity("squared seconds per event", beyond=True)
BUSY = Quantity("busy seconds that are queued")
COST = Quantity("seconds")
FACTOR = Quantity("matches measured over matches modelled", 0.01, 100.0)
COUNT = Quantity("events per window", beyond=True)


def dotted(*keys: str) -> str:
    """Write the way to a place in a snapshot.

    Example:
        >>> print(dotted("rates", "s1", "type=0"))
        rates.s1["type=0"]
    """
    steps = (f".{key}" if _PLAIN.fullmatch(key) else f'["{key}"]' for key in keys)
    return "".join(steps).removeprefix(".")


def shown(value: object) -> str:
    """Write a value as JSON has it."""
    if isinstance(value, float):
        names = {math.inf: "Infinity", -math.inf: "-Infinity"}
        return "NaN" if math.isnan(value) else names.get(value) or f"{value:g}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    return "a list" if isinstance(value, list) else "an object"
