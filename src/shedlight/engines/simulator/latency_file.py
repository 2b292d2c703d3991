"""Latencies of very many events in little memory: sums, a histogram, and rows in a file."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shedlight.engines.event_files import written_whole
from shedlight.engines.simulator import ServedEvents
from shedlight.graph import Node
from shedlight.model.arrays import Floats

_MIN, _MAX, _BINS = 1e-9, 1e7, 8192
"""The range of the histogram in seconds, and its bins: each is 0.45 % wider than the last."""
_STEP = np.log(_MAX / _MIN) / _BINS
_ROUNDING = 1e-6  # what a time may be off, in seconds
_MAX_BUFFERED_ROWS = 1 << 20

SCHEMA = pa.schema(
    [
        ("node", pa.dictionary(pa.int32(), pa.string())),
        ("operator", pa.dictionary(pa.int32(), pa.string())),
        ("time_us", pa.int64()),
        ("arrival", pa.float64()),
        ("queueing", pa.float64()),
        ("processing", pa.float64()),
    ]
)
"""Of a row per event: its timestamp, and seconds."""


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """The latency of the events of a node, in seconds."""

    events: int  # how many were processed
    mean: float  # queueing and processing together
    queueing: float  # the mean wait
    processing: float  # the mean processing time
    p95: float  # what 95 % of them did not exceed, to half a percent
    p99: float  # what 99 % of them did not exceed
    over: int  # how many of those that are not exempt from admission exceeded the bound
    exempt: int  # how many were exempt
    exempt_over: int  # how many of these exceeded the bound

    @property
    def over_share(self) -> float:
        """The share of events that exceeded the bound, of those that are not exempt."""
        return self.over / max(1, self.events - self.exempt)


class LatencyCollector:
    """Collects the latency of each processed event at its node."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._bounds = {name: node.bound for name, node in nodes.items()}
        self._counts: dict[str, Floats] = {}
        self._sums: dict[str, Floats] = {}
        self._over: Counter[tuple[str, bool]] = Counter()  # by node, exempt or not
        self._exempt: Counter[str] = Counter()

    def add(self, served: ServedEvents) -> None:
        """Add events."""
        if not len(served.time):
            return
        counts = self._counts.setdefault(served.node, np.zeros(_BINS + 1, np.float64))
        sums = self._sums.setdefault(served.node, np.zeros(2))
        spent = np.clip(served.queueing + served.processing, _MIN, _MAX)
        bins = np.ceil(np.log(spent / _MIN) / _STEP).astype(np.int64)
        counts += np.bincount(bins, minlength=_BINS + 1)
        sums += [served.queueing.sum(), served.processing.sum()]
        bound = self._bounds[served.node]
        over = spent > (np.inf if bound is None else bound + _ROUNDING)
        self._exempt[served.node] += int(np.count_nonzero(served.exempt))
        for exempt in (False, True):
            count = np.count_nonzero(over & (served.exempt == exempt))
            self._over[served.node, exempt] += int(count)

    def by_node(self) -> Mapping[str, LatencySummary]:
        """Summarise the latency at each node."""
        return {name: self._summary(name) for name in self._counts}

    def _summary(self, name: str) -> LatencySummary:
        counts, number = self._counts[name].cumsum(), float(self._counts[name].sum())
        queueing, processing = (self._sums[name] / number).tolist()
        p95, p99 = (
            float(_MIN * np.exp(_STEP * np.searchsorted(counts, share * number)))
            for share in (0.95, 0.99)
        )
        over, exempt_over = self._over[name, False], self._over[name, True]
        times = (queueing + processing, queueing, processing, p95, p99)
        return LatencySummary(int(number), *times, over, self._exempt[name], exempt_over)


class LatencyFile:
    """Writes a row per event as Parquet, many at a time."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer, self._tables, self._rows = writer, list[pa.Table](), 0

    def add(self, served: ServedEvents) -> None:
        """Add a row for each event."""
        size = len(served.time)
        names = [_repeated(name, size) for name in (served.node, served.operator)]
        columns = [*names, served.time, served.arrival, served.queueing, served.processing]
        self._tables.append(pa.table(dict(zip(SCHEMA.names, columns, strict=True))))
        self._rows += size
        if self._rows >= _MAX_BUFFERED_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the rows so far."""
        if self._rows:
            table = pa.concat_tables(self._tables).unify_dictionaries().combine_chunks()
            self._writer.write_table(table.cast(SCHEMA))
        self._tables, self._rows = [], 0


@contextmanager
def latency_file(path: Path) -> Iterator[LatencyFile]:
    """Open a file for latencies; it appears there when it is complete."""
    with written_whole(path) as unfinished, pq.ParquetWriter(unfinished, SCHEMA) as writer:
        file = LatencyFile(writer)
        yield file
        file.flush()


def _repeated(name: str, size: int) -> pa.DictionaryArray:
    indices = pa.array(np.zeros(size, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([name]))
