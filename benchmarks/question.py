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


def processor_seconds(work: Callable[[], object], runs: int) -> list[float]:
    """Take the processor time of some work several times, after one that does not count."""
    work()
    times = []
    for _ in range(runs):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return times


def ratio(
    ours: Callable[[], object], other: Callable[[], object], runs: int = 9
) -> tuple[float, float, float]:
    """Compare two works in turns: the median of the ratios, and the median time of each.

    In turns, because a computer that is shared is not equally fast all the time.
    """
    ours()
    other()
    pairs = []
    for _ in range(runs):
        began = time.perf_counter()
        other()
        between = time.perf_counter()
        ours()
        pairs.append((time.perf_counter() - between, between - began))
    return (
        statistics.median(mine / its for mine, its in pairs),
        statistics.median(mine for mine, _ in pairs),
        statistics.median(its for _, its in pairs),
    )
