"""Admission: a node with a bound by percentile takes events one by one, by its queue.

An event is admitted if what waits in front of it, and what its own service is not expected to
exceed, are within the bound; else it is shed. So at most 5 in 100 of the admitted events take
longer than a bound of p95, whatever the load is, between any two looks at the backlog. It
depends on nothing but the queue, so a replay admits the same events.

Patterns of protected closures are exempt: to shed single events there would invent absences.
So are types that are never to be shed. Pressure is for these patterns alone then: where events
are admitted one by one, it would shed what the queue has room for.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shedlight.graph.application import Application, Stream
from shedlight.graph.closures import Closures, exempt_patterns
from shedlight.matching.jit import Array, compiled
from shedlight.model.arrays import Floats, dot
from shedlight.model.latency import likely_longest


@dataclass(frozen=True, slots=True)
class Admission:
    """How a node admits events."""

    bound: float  # the time that an event may spend there, in seconds
    percentile: int  # how many in 100 may spend no more
    exempt: frozenset[Stream]  # patterns of protected closures, whose events are all admitted


def find_admissions(application: Application, closures: Closures) -> Mapping[str, Admission]:
    """Say how each node with a bound by percentile admits events."""
    exempt = closures.protected
    return {
        name: Admission(node.bound, node.percentile, exempt)
        for name, node in application.nodes.items()
        if node.bound is not None and node.percentile is not None
    }


def admitted_patterns(application: Application) -> frozenset[Stream]:
    """Find the patterns whose events are admitted one by one; they need no pressure."""
    bounded = {name for name, node in application.nodes.items() if node.percentile is not None}
    exempt = {s for streams in exempt_patterns(application).values() for s in streams}
    return frozenset(
        stream
        for spec in application.operators.values()
        if spec.node in bounded
        for stream in spec.outputs
        if stream not in exempt
    )


@dataclass(frozen=True, slots=True, eq=False)
class PatternWork:
    """The service that a pattern asks for."""

    rows: Array  # the events that it keeps
    seconds: Floats  # how long each takes
    exempt: Array  # whether each is admitted whatever is queued
    mean: float  # what is known of these times before: their mean, and their variance
    variance: float

    def admit(self, admitted: Array) -> tuple[Array, tuple[float, float]]:
        """Give what of its events is admitted, and the sum and the squares of their times."""
        kept = self.exempt | admitted[self.rows]
        mask, seconds = np.zeros(len(admitted), np.bool_), self.seconds[kept]
        mask[self.rows[kept]] = True
        return mask, (float(seconds.sum()), dot(seconds, seconds))


class Requests:
    """What the events of a batch ask of a server."""

    def __init__(self, size: int) -> None:
        self.by_pattern: dict[Stream, PatternWork] = {}
        self.exempt = np.zeros(size, np.bool_)  # whether a pattern is exempt that keeps it
        self.asks = np.zeros(size, np.bool_)  # whether a pattern keeps it that is not
        self._certain, self._asked = np.zeros(size), np.zeros(size)
        self._mean, self._variance = np.zeros(size), np.zeros(size)

    def add(self, stream: Stream, work: PatternWork) -> None:
        """Add the service for a pattern."""
        self.by_pattern[stream] = work
        self.exempt[work.rows[work.exempt]] = True
        self.asks[work.rows[~work.exempt]] = True
        self._certain[work.rows[work.exempt]] += work.seconds[work.exempt]
        self._asked[work.rows[~work.exempt]] += work.seconds[~work.exempt]
        self._mean[work.rows] += work.mean
        self._variance[work.rows] += work.variance

    def columns(self, percentile: int) -> tuple[Floats, Floats, Floats, Array]:
        """Give the times of exempt patterns and of others, the expected one, and who asks."""
        expected = likely_longest(self._mean, self._variance, percentile)
        return self._certain, self._asked, expected, self.asks

    def service(self, admitted: Array) -> Floats:
        """Give the time that each event takes if these are admitted."""
        return self._certain + np.where(admitted, self._asked, 0.0)


def serve_admitted(
    arrivals: Floats, columns: tuple[Floats, Floats, Floats, Array], bound: float, free: float
) -> tuple[Floats, Array, float]:
    """Say when each event leaves a server, which are admitted, and when it is free again.

    Events are served one by one, first come, first served; the columns are of `Requests`.
    """
    departures, admitted = np.empty(len(arrivals)), np.ones(len(arrivals), np.bool_)
    free = float(_serve(arrivals, *columns, bound, float(free), departures, admitted))
    return departures, admitted, free


@compiled
def _serve(  # noqa: PLR0913, PLR0917  # one argument per column
    arrivals: Floats,
    certain: Floats,
    asked: Floats,
    expected: Floats,
    asks: Array,
    bound: float,
    free: float,
    departures: Floats,
    admitted: Array,
) -> float:
    for i in range(arrivals.shape[0]):
        start = max(free, arrivals[i])
        free = start + certain[i]
        if asks[i] and start - arrivals[i] + expected[i] > bound:
            admitted[i] = False
        else:
            free += asked[i]
        departures[i] = free
    return free
