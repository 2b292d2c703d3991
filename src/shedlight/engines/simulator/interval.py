"""Builds the record of an interval while it is simulated."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from shedlight.engines.simulator.api import Interval, ServedEvents
from shedlight.engines.simulator.server import Server, ServiceBatch
from shedlight.graph import Stream
from shedlight.matching.jit import Array
from shedlight.model.arrays import Floats


class IntervalBuilder:
    """Builds the record of one interval, in seconds; the last one ends at infinity."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end, self.is_last = start, end, end == np.inf
        self.outputs: dict[Stream, int] = {}  # complex events, and what timed out
        self._arrivals: dict[str, dict[Stream, dict[str, int]]] = {}
        self._spent: dict[Stream, tuple[float, float]] = {}
        self._kept: dict[Stream, dict[str, int]] = {}
        self._busy: dict[str, float] = defaultdict(float)
        self._processed: dict[str, int] = defaultdict(int)
        self._shed: dict[str, int] = defaultdict(int)
        self._not_admitted: dict[str, int] = defaultdict(int)
        self._latency: dict[str, float] = defaultdict(float)
        self._unknown: dict[Stream, tuple[str, ...]] = {}

    def add(self, node: str, server: Server, batch: ServiceBatch, leave: Floats) -> None:
        """Add what was decided about a batch, and when its events leave."""
        decided = batch.decided
        ready, labels = batch.ready, server.decider.labels(batch.ready)
        inputs = server.spec.inputs
        self._arrivals[server.spec.name] = {
            stream: _counted(
                labels,
                ready.numbers if len(inputs) == 1 else ready.numbers[ready.inputs == number],
            )
            for number, stream in enumerate(inputs)
        }
        self._spent |= batch.spent
        for stream in server.spec.outputs:
            self._kept[stream] = _counted(labels, ready.numbers[decided.masks[stream.name]])
        processed = int(np.count_nonzero(batch.kept))
        self._busy[node] += float(batch.service.sum())
        self._latency[node] += float((leave - batch.arrivals)[batch.kept].sum())
        self._processed[node] += processed
        self._shed[node] += batch.relevant - processed
        self._not_admitted[node] += batch.not_admitted
        self._unknown |= {stream: names for stream, names in decided.unknown.items() if names}

    def build(self, free: Mapping[str, float]) -> Interval:
        """Build the record, given when each node is free."""
        end = max([self.start, *free.values()]) if self.is_last else self.end
        return Interval(
            start=self.start,
            length=end - self.start,
            arrivals=self._arrivals,
            kept=self._kept,
            spent=self._spent,
            outputs=self.outputs,
            busy=dict(self._busy),
            backlog={name: max(0.0, at - end) for name, at in free.items()},
            processed=dict(self._processed),
            latency=dict(self._latency),
            unknown=self._unknown,
            shed=dict(self._shed),
            not_admitted=dict(self._not_admitted),
        )


def served_events(
    node: str, server: Server, batch: ServiceBatch, leave: Floats
) -> ServedEvents:
    """Say of each event of a batch that was processed how long it waited and took."""
    kept = batch.kept
    arrival, processing = batch.arrivals[kept], batch.service[kept]
    return ServedEvents(
        node=node,
        operator=server.spec.name,
        time=batch.ready.time[kept],
        arrival=arrival,
        # rounding may leave a little less than nothing
        queueing=np.maximum(leave[kept] - arrival - processing, 0.0),
        processing=processing,
        exempt=np.zeros(len(arrival), np.bool_)
        if batch.requests is None
        else batch.requests.exempt[kept],
    )


def _counted(labels: list[str], numbers: Array) -> dict[str, int]:
    counts = np.bincount(numbers, minlength=len(labels)).tolist()
    return {label: n for label, n in zip(labels, counts, strict=True) if n}
