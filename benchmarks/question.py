"""What a benchmark is: a question, a figure taken in one run, and the limit it must keep."""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """One figure.

    Attributes:
        question: What is compared with what.
        figure: A ratio of two times of one run, or seconds where it says so.
        limit: What the figure must keep; None where it is only reported.
        at_least: Whether the limit is the least (else the most) that is allowed.
        detail: The measurements behind the figure.
    """

    question: str
    figure: float
    limit: float | None = None
    at_least: bool = False
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether the figure keeps its limit."""
        if self.limit is None:
            return True
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit


Question = Callable[[], Iterator[Answer]]


def seconds(work: Callable[[], object], runs: int = 5) -> float:
    """Time some work: the median of several runs, after one that does not count."""
    work()
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
