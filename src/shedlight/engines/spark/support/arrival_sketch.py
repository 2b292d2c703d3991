"""Arrival sketches: when the events of a packed row had arrived, in a few numbers.

A row of thousands of events says how many they are, the mean time of their arrival, and the
times at equal steps through them; sketches of rows, shards and streams are merged. So the
percentiles of latency cost next to nothing for an event.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ARRIVAL = "#arrival"  # the column with the time of arrival, in microseconds
MAX_POINTS = 32  # how many times a sketch has at most


@dataclass(frozen=True, slots=True)
class ArrivalSketch:
    """When events had arrived, in microseconds."""

    number: int  # how many events there are
    mean: float  # the mean time of their arrival
    points: tuple[int, ...]  # times that each stand for an equal share of them, in order

    def at(self, share: float) -> float:
        """Give the time before which a share of the events had arrived."""
        return float(self.points[min(int(share * len(self.points)), len(self.points) - 1)])

    def not_before(self, time: int) -> "ArrivalSketch":
        """Take what arrived before a time to have arrived then."""
        points = tuple(max(point, time) for point in self.points)
        return replace(self, mean=max(self.mean, time), points=points)


def sketch_arrivals(times: Array) -> ArrivalSketch:
    """Sketch the arrivals of at least one event."""
    first = times[0]
    if (times == first).all():
        return ArrivalSketch(len(times), float(first), (int(first),))
    if not (times[1:] >= times[:-1]).all():
        times = np.sort(times)
    number, mean = len(times), float(first) + float((times - first).mean())
    if number > MAX_POINTS:
        rows = (np.arange(MAX_POINTS) + 0.5) * (number / MAX_POINTS)
        times = times[rows.astype(np.int64)]
    return ArrivalSketch(number, mean, tuple(times.tolist()))


def merge_sketches(sketches: Iterable[ArrivalSketch]) -> ArrivalSketch | None:
    """Make one sketch of several; None of none."""
    merged = [sketch for sketch in sketches if sketch.number]
    if len(merged) <= 1:
        return merged[0] if merged else None
    number = sum(sketch.number for sketch in merged)
    first = merged[0].mean
    mean = first + sum(sketch.number * (sketch.mean - first) for sketch in merged) / number
    sizes = [len(sketch.points) for sketch in merged]
    points = np.concatenate([np.array(sketch.points, np.int64) for sketch in merged])
    weights = np.repeat([sketch.number / len(sketch.points) for sketch in merged], sizes)
    order = np.argsort(points, kind="stable")
    reached = np.cumsum(weights[order])
    wanted = (np.arange(MAX_POINTS) + 0.5) / MAX_POINTS * reached[-1]
    rows = np.minimum(np.searchsorted(reached, wanted), len(order) - 1)
    return ArrivalSketch(number, mean, tuple(points[order][rows].tolist()))


def merge_by_stream(
    sketches: Mapping[str, Iterable[ArrivalSketch]],
) -> dict[str, ArrivalSketch]:
    """Merge the sketches of each stream that has any events."""
    merged = {stream: merge_sketches(of_stream) for stream, of_stream in sketches.items()}
    return {stream: sketch for stream, sketch in merged.items() if sketch is not None}
