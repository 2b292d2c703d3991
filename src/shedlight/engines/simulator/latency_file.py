"""Latencies of very many events in little memory: sums, a histogram, and rows in a file."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shedlight.engines.simulator import ServedEvents
from shedlight.engines.simulator.csv_rows import cannot_write_error
from shedlight.model.arrays import Floats

_LEAST, _MOST, _BINS = 1e-9, 1e7, 8192
"""Seconds that are told apart, and in how many steps: each is 0.45 % more than the last."""
_STEP = np.log(_MOST / _LEAST) / _BINS
_ROWS = 1 << 20
"""How many rows are kept until they are written."""

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
    """What events spent at a node, in seconds.

    Attributes:
        events: How many were processed.
        mean: Queueing and processing together.
        queueing: The mean wait.
        processing: The mean processing time.
        p95: What 95 % of them did not exceed, to half a percent.
        p99: What 99 % of them did not exceed.
    """

    events: int
    mean: float
    queueing: float
    processing: float
    p95: float
    p99: float


class LatencyCollector:
    """Gathers what each processed event spent at its node."""

    def __init__(self) -> None:
        self._counts: dict[str, Floats] = {}
        self._sums: dict[str, Floats] = {}

    def add(self, served: ServedEvents) -> None:
        """Take events in."""
        if not len(served.time):
            return
        counts = self._counts.setdefault(served.node, np.zeros(_BINS + 1, np.float64))
        sums = self._sums.setdefault(served.node, np.zeros(2))
        spent = np.clip(served.queueing + served.processing, _LEAST, _MOST)
        places = np.ceil(np.log(spent / _LEAST) / _STEP).astype(np.int64)
        counts += np.bincount(places, minlength=_BINS + 1)
        sums += [served.queueing.sum(), served.processing.sum()]

    def by_node(self) -> Mapping[str, LatencySummary]:
        """Say what events spent at each node."""
        return {name: self._of(name) for name in self._counts}

    def _of(self, name: str) -> LatencySummary:
        counts, number = self._counts[name].cumsum(), float(self._counts[name].sum())
        queueing, processing = (self._sums[name] / number).tolist()
        p95, p99 = (
            float(_LEAST * np.exp(_STEP * np.searchsorted(counts, share * number)))
            for share in (0.95, 0.99)
        )
        return LatencySummary(
            int(number), queueing + processing, queueing, processing, p95, p99
        )


class LatencyFile:
    """Writes a row per event as Parquet, some at a time.

    Args:
        path: Where; the file appears there when all is written.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._unfinished = path, path.with_name(f".{path.name}.unfinished")
        self._waiting: list[pa.Table] = []
        self._size = 0
        try:
            self._writer = pq.ParquetWriter(self._unfinished, SCHEMA)
        except OSError as error:
            raise cannot_write_error(path, error) from error

    def add(self, served: ServedEvents) -> None:
        """Take events in."""
        size = len(served.time)
        columns = [
            _named(served.node, size),
            _named(served.operator, size),
            served.time,
            served.arrival,
            served.queueing,
            served.processing,
        ]
        self._waiting.append(pa.table(dict(zip(SCHEMA.names, columns, strict=True))))
        self._size += size
        if self._size >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._size:
            table = pa.concat_tables(self._waiting).unify_dictionaries().combine_chunks()
            self._writer.write_table(table.cast(SCHEMA))
        self._waiting, self._size = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._flush()
            self._writer.close()
            if kind is None:
                self._unfinished.replace(self._path)
        except OSError as problem:
            raise cannot_write_error(self._path, problem) from problem
        finally:
            self._unfinished.unlink(missing_ok=True)


@contextmanager
def latency_file(path: Path | None) -> Iterator[LatencyFile | None]:
    """Open a file for latencies, if one is wanted."""
    if path is None:
        yield None
        return
    with LatencyFile(path) as file:
        yield file


def _named(name: str, size: int) -> pa.DictionaryArray:
    indices = pa.array(np.zeros(size, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([name]))
