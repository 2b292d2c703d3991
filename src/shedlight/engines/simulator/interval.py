"""Builds the record of an interval while it is simulated."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

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
        self._arrivals: dict[str, dict[Stream, Counter[str]]] = {}
        self._spent: dict[Stream, tuple[float, float]] = {}
        self._kept: dict[Stream, Counter[str]] = {}
        self._busy: dict[str, float] = defaultdict(float)
        self._processed: dict[str, int] = defaultdict(int)
        self._shed: dict[str, int] = defaultdict(int)
        self._not_admitted: dict[str, int] = defaultdict(int)
        self._latency: dict[str, float] = defaultdict(float)
        self._processing: dict[str, float] = defaultdict(float)
        self._reading: dict[str, float] = {}
        self._unknown: dict[Stream, tuple[str, ...]] = {}

    def expect(self, node: str, servers: Iterable[Server]) -> None:
        """Count from zero on at a node, for nothing may be added."""
        counts = (self._busy, self._processed, self._shed, self._not_admitted, self._latency)
        for count in (*counts, self._processing, self._reading):
            count[node] = 0
        for server in servers:
            spec = server.spec
            self._arrivals[spec.name] = {stream: Counter() for stream in spec.inputs}
            self._spent |= dict.fromkeys(spec.outputs, (0.0, 0.0))
            self._kept |= {stream: Counter() for stream in spec.outputs}
            self.outputs |= dict.fromkeys(spec.outputs, 0)

    def add_reading(self, node: str, seconds: float) -> None:
        """Add what it took to read the events of a micro-batch."""
        self._reading[node] += seconds

    def add_output(self, stream: Stream, number: int) -> None:
        """Add so many complex events, or what timed out."""
        self.outputs[stream] = self.outputs.get(stream, 0) + number

    def add(
        self,
        node: str,
        server: Server,
        batch: ServiceBatch,
        leave: Floats,
        processing: Floats | None = None,
    ) -> None:
        """Add what was decided about a batch, and when its events leave.

        Their processing takes as long as their service, unless something else is given.
        """
        decided = batch.decided
        ready, labels = batch.ready, server.decider.labels(batch.ready)
        inputs = server.spec.inputs
        arrivals = self._arrivals.setdefault(server.spec.name, {})
        for number, stream in enumerate(inputs):
            mine = ready.numbers if len(inputs) == 1 else ready.numbers[ready.inputs == number]
            arrivals.setdefault(stream, Counter()).update(count_labels(labels, mine))
        for stream, (total, squares) in batch.spent.items():
            before = self._spent.get(stream, (0.0, 0.0))
            self._spent[stream] = (before[0] + total, before[1] + squares)
        for stream in server.spec.outputs:
            kept = count_labels(labels, ready.numbers[decided.masks[stream.name]])
            self._kept.setdefault(stream, Counter()).update(kept)
        processed = int(np.count_nonzero(batch.kept))
        self._busy[node] += float(batch.service.sum())
        self._latency[node] += float((leave - batch.arrivals)[batch.kept].sum())
        took = batch.service if processing is None else processing
        self._processing[node] += float(took[batch.kept].sum())
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
            processing=dict(self._processing),
            reading=self._reading,
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
    node: str,
    server: Server,
    batch: ServiceBatch,
    leave: Floats,
    processing: Floats | None = None,
) -> ServedEvents:
    """Say of each event of a batch that was processed how long it waited and took."""
    kept = batch.kept
    processing = (batch.service if processing is None else processing)[kept]
    arrival = batch.arrivals[kept]
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


def count_labels(labels: list[str], numbers: Array) -> dict[str, int]:
    """Count the events of each type, given the numbers of their types."""
    counts = np.bincount(numbers, minlength=len(labels)).tolist()
    return {label: n for label, n in zip(labels, counts, strict=True) if n}
