"""The Google cluster traces as streams: machines are mapped to types, files to sources.

A *source* is a tuple of parts; a part is some files of a folder, or some rows of them. Two
sources of the 2019 traces, a file per cluster, and the paper's four types:

    first, second = read_sources(folder, CLUSTERS_BY_HALVES, Reading(compression=10_000))

Streams have the columns of generated ones: time (microseconds since the trace began, divided
by the compression), id (unique over all sources), type, and key (the machine). Files with
measured CPU have it as `cpu`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from experiments.borg.files import (
    Flaw,
    Malformed,
    Rows,
    is_missing,
    read_rows,
    whole_numbers,
)
from shedlight.errors import InputError, known_names
from shedlight.generate.specs import check_amounts
from shedlight.generate.streams import scale_rate
from shedlight.model.arrays import Ints

GRID_2011 = 300_000_000
"""Microseconds between two measurements of a machine in 2011."""

MAX_NAMED = 1_000
"""How many malformed rows are named; all are counted."""

_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some files, or some rows of them.

    Attributes:
        files: A pattern for their names in the folder, such as `cluster_1.*`.
        clusters: Only rows of these, by the column `cluster`; None takes all rows.
        machines: `(0, 2)` takes the first half of the machines, `(1, 2)` the second; which
            machine is in which half is as good as random. None takes all.
    """

    files: str
    clusters: tuple[int, ...] | None = None
    machines: tuple[int, int] | None = None


Source = tuple[FilePart, ...]


def cluster_files(numbers: Sequence[int]) -> Source:
    """Name the files of some clusters."""
    return tuple(FilePart(f"cluster_{number}.*") for number in numbers)


CLUSTERS_BY_HALVES = (cluster_files((1, 2, 3, 4)), cluster_files((5, 6, 7, 8)))
CLUSTERS_ODD_AND_EVEN = (cluster_files((1, 3, 5, 7)), cluster_files((2, 4, 6, 8)))
MACHINES_BY_HALVES_2011 = tuple(
    (FilePart("machine_cpu_hour.*", machines=(number, 2)),) for number in (0, 1)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a trace is read.

    Attributes:
        types: How many there are: a type is the machine modulo this, as the paper does with 4.
        compression: How many times as fast as it happened.
        grid: Microseconds between measurements, for files in which all machines report at
            once: each is moved on inside its interval, by a hash of the machine, and time 0
            is a time as any other. None leaves times as they are.
        strict: Whether a malformed row is an error.
    """

    types: int = 4
    compression: float = 1.0
    grid: int | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        check_amounts(types=self.types, compression=self.compression)
        if self.grid is not None:
            check_amounts(grid=self.grid)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A source that was read.

    Attributes:
        events: The stream.
        malformed: The first rows that were left out, file by file.
        flaws: How many rows were left out, by what is wrong with them.
    """

    events: pa.Table
    malformed: tuple[Malformed, ...]
    flaws: Mapping[Flaw, int]


def read_sources(
    folder: Path, sources: Sequence[Source], reading: Reading | None = None
) -> tuple[Trace, ...]:
    """Read several sources; ids go on from one to the next.

    Raises:
        InputError: The folder, a file or a column is missing, a file cannot be read, or,
            if that is asked for, a row is malformed.
    """
    read: list[Trace] = []
    for source in sources:
        first_id = sum(len(trace.events) for trace in read)
        read.append(read_source(folder, source, reading, first_id))
    return tuple(read)


def read_source(
    folder: Path, source: Source, reading: Reading | None = None, first_id: int = 0
) -> Trace:
    """Read one source, see `read_sources`; events of one time stay in the order of files."""
    reading = reading or Reading()
    tables: list[pa.Table] = []
    malformed: list[Malformed] = []
    flaws = Counter[Flaw]()
    for path, part in _files(folder, source):
        rows = _rows_of(read_rows(path, path.relative_to(folder).as_posix()), part)
        table, numbers, found = _events(rows, reading)
        tables.append(table)
        flaws.update(found)
        room = MAX_NAMED - len(malformed)
        malformed += [
            Malformed(rows.file, number, flaw)
            for number, flaw in zip(numbers[:room].tolist(), found[:room], strict=True)
        ]
        if reading.strict and malformed:
            raise InputError(
                f"{folder}: {malformed[0]}; {len(found)} rows of the file are malformed, "
                "leave them out by strict=False"
            )
    # a file without a column that others have gets nulls in it
    events = pa.concat_tables(tables, promote_options="default")
    order = np.argsort(events["time"].to_numpy(), kind="stable")
    ids = np.arange(first_id, first_id + len(events))
    events = events.take(pa.array(order)).add_column(1, "id", pa.array(ids))
    return Trace(scale_rate(events, reading.compression), tuple(malformed), dict(flaws))


def _files(folder: Path, source: Source) -> Iterator[tuple[Path, FilePart]]:
    if not folder.is_dir():
        raise InputError(
            f"{folder}: there is no such folder; docs/reproduce.md says what to get"
        )
    if not source:
        raise ValueError("a source must have parts, got none")
    for part in source:
        found = sorted(path for path in folder.glob(part.files) if path.is_file())
        if not found:
            names = [path.relative_to(folder).as_posix() for path in folder.iterdir()]
            raise InputError(
                f"{folder}: no file is called {part.files!r}; {known_names(part.files, names)}"
            )
        yield from ((path, part) for path in found)


def _rows_of(rows: Rows, part: FilePart) -> Rows:
    """Keep the rows that are of a part."""
    if part.clusters is not None:
        rows = rows.only(np.isin(whole_numbers(rows.column("cluster"))[0], part.clusters))
    if part.machines is not None:
        share, of = part.machines
        machines, _ = whole_numbers(rows.column("machine"))
        # by other bits than those that spread machines over time
        rows = rows.only((_hashed(machines) >> np.uint64(40)) % np.uint64(of) == share)
    return rows


def _events(rows: Rows, reading: Reading) -> tuple[pa.Table, Ints, list[Flaw]]:
    """Make events of the rows that are well formed; of the others, give numbers and flaws."""
    times, _ = whole_numbers(rows.column("time"))
    machines, _ = whole_numbers(rows.column("machine"))
    flaws = _flaws(rows, zero_is_a_time=reading.grid is not None)
    # of several flaws, the first is named
    first = np.select(list(flaws.values()), list(range(len(flaws))), -1)
    good = first < 0
    numbers = np.concatenate([rows.numbers[~good], np.array(rows.unreadable, np.int64)])
    names = [*flaws, Flaw.UNREADABLE]
    indices = np.concatenate([first[~good], np.full(len(rows.unreadable), len(flaws))])
    order = np.argsort(numbers)
    if reading.grid is not None:
        offset = (_hashed(machines) % np.uint64(reading.grid)).astype(np.int64)
        times = times - times % reading.grid + offset
    columns = {
        "time": times[good],
        "type": machines[good] % reading.types,
        "key": machines[good],
    }
    if "cpu" in rows.columns:
        cpu = rows.columns["cpu"].to_pandas()
        columns["cpu"] = pd.to_numeric(cpu, errors="coerce").to_numpy(np.float64)[good]
    return (
        pa.table(columns),
        numbers[order],
        [names[index] for index in indices[order].tolist()],
    )


def _flaws(rows: Rows, *, zero_is_a_time: bool) -> dict[Flaw, "np.typing.NDArray[np.bool_]"]:
    """Mark the rows by what is wrong with them; 0 and -1 stand for no machine."""
    times, timed = whole_numbers(rows.column("time"))
    machines, placed = whole_numbers(rows.column("machine"))
    no_time, no_machine = (is_missing(rows.column(what)) for what in ("time", "machine"))
    return {
        Flaw.NO_TIME: no_time,
        Flaw.BAD_TIME: ~timed | (times < 0),
        Flaw.BEFORE: (times == 0) & (not zero_is_a_time),
        Flaw.AFTER: times == _LAST,
        Flaw.NO_MACHINE: no_machine | (placed & ((machines == 0) | (machines == -1))),
        Flaw.BAD_MACHINE: ~placed | (machines < 0),
    }


def _hashed(numbers: Ints) -> "np.typing.NDArray[np.uint64]":
    """Mix the bits of numbers as SplitMix64 does (Steele, Lea and Flood, 2014)."""
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
