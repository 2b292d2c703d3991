"""Numbers of a snapshot: what each one means and which ones there can be."""

import math
import re
from dataclasses import dataclass
from numbers import Real
from typing import Annotated

from pydantic import PlainValidator
from pydantic_core import PydanticCustomError

_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a number of a snapshot counts, and its range."""

    name: str  # what to write
    least: float = 0.0  # the smallest that there can be
    most: float = math.inf  # the greatest that there can be; a number is always finite
    above: bool = False  # whether `least` itself is too small

    @property
    def expected(self) -> str:
        """What to write, for a message."""
        if self.above:
            return f"{self.name}, a number greater than {self.least:g}"
        if self.most < math.inf:
            return f"{self.name}, a number from {self.least:g} to {self.most:g}"
        return f"{self.name}, a number from {self.least:g} on"

    def check(self, value: object) -> float:
        """Return a number that is in range, for pydantic."""
        if isinstance(value, Real) and not isinstance(value, bool):
            number = float(value)
            in_range = math.isfinite(number) and self.least <= number <= self.most
            if in_range and not (self.above and number == self.least):
                return number
        raise PydanticCustomError(
            "quantity",
            "is {found}; write {expected}",
            {"found": describe_value(value), "expected": self.expected},
        )


FACTOR = Quantity("matches measured over matches modelled", 0.01, 100.0)

EventsPerSecond = Annotated[float, PlainValidator(Quantity("events per second").check)]
SecondsPerEvent = Annotated[
    float, PlainValidator(Quantity("seconds per event", above=True).check)
]
SquaredSeconds = Annotated[
    float, PlainValidator(Quantity("squared seconds per event", above=True).check)
]
BusySeconds = Annotated[float, PlainValidator(Quantity("busy seconds that are queued").check)]
BytesPerEvent = Annotated[float, PlainValidator(Quantity("bytes per complex event").check)]
CostSeconds = Annotated[float, PlainValidator(Quantity("seconds").check)]
CalibrationFactor = Annotated[float, PlainValidator(FACTOR.check)]


def format_keys(*keys: str) -> str:
    """Write the path of keys to a value of a snapshot.

    Example:
        >>> print(format_keys("rates", "s1", "type=0"))
        rates.s1["type=0"]
    """
    steps = (f".{key}" if _BARE_KEY.fullmatch(key) else f'["{key}"]' for key in keys)
    return "".join(steps).removeprefix(".")


def describe_value(value: object) -> str:
    """Write a value as JSON has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Real):
        number = float(value)
        names = {math.inf: "Infinity", -math.inf: "-Infinity"}
        return "NaN" if math.isnan(number) else names.get(number) or f"{number:g}"
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    return "a list" if isinstance(value, list) else "an object"
