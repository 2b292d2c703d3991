"""Large files of events, read piece by piece while others are matched.

A file that is read as a whole takes many times its size in memory. A piece is matched while the
next one is read, in a thread: neither the reader nor the kernels hold Python's lock. The
columns of a CSV or JSON lines file are those of its first piece, and those of a folder the ones
of its first file; where a later one differs, all must be read as a whole (`PiecesDifferError`).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from shedlight.engines.event_files import (
    OnUnparsable,
    files_of_folder,
    format_of,
    read_events,
)

EVENTS_PER_PIECE = 1 << 20
BYTES_PER_PIECE = 1 << 25  # of a text file


class PiecesDifferError(Exception):
    """A later piece has values that the columns of the first do not allow."""


@dataclass(frozen=True, slots=True, eq=False)
class EventPieces:
    """A file of events in pieces."""

    schema: pa.Schema  # the columns of each
    number: int  # how many there are, about
    tables: Iterator[pa.Table]


def open_pieces(
    path: Path, given: str | None = None, on_unparsable: OnUnparsable | None = None
) -> EventPieces | None:
    """Open a file or a folder to read it piece by piece; None if it is not worth it.

    For the format that is given, and lines that cannot be parsed, see `read_events`: it says
    why if it cannot be read.
    """
    if path.is_dir():
        return _open_folder(path, given, on_unparsable)
    if not path.is_file() or not path.stat().st_size:
        return None
    format_name = format_of(path, given)
    try:
        if format_name == "parquet":
            return _open_parquet(path)
        number = path.stat().st_size // BYTES_PER_PIECE + 1
        if number < 2 or path.suffix not in {".csv", ".json", ".jsonl", ".ndjson"}:  # noqa: PLR2004
            return None  # it is small, or compressed
        if format_name == "csv":
            options = pyarrow.csv.ReadOptions(block_size=BYTES_PER_PIECE)
            reader = pyarrow.csv.open_csv(str(path), read_options=options)
        else:
            options = pyarrow.json.ReadOptions(block_size=BYTES_PER_PIECE)
            reader = pyarrow.json.open_json(str(path), read_options=options)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return None
    return EventPieces(reader.schema, number, _tables(reader))


def _open_folder(
    folder: Path, given: str | None, on_unparsable: OnUnparsable | None
) -> EventPieces | None:
    """Open the files of a folder one after the other, if together they are large."""
    files = files_of_folder(folder, given)
    if sum(file.stat().st_size for file in files) < BYTES_PER_PIECE:
        return None
    first = _open_file(files[0], given, on_unparsable)
    number = first.number * len(files)  # about
    later = (file for file in files[1:])
    return EventPieces(
        first.schema, number, _tables_of_files(first, later, given, on_unparsable)
    )


def _open_file(
    file: Path, given: str | None, on_unparsable: OnUnparsable | None
) -> EventPieces:
    """Open a file of a folder, as one piece if it is small."""
    pieces = open_pieces(file, given)
    if pieces is None:
        table = read_events(file, given, on_unparsable=on_unparsable)
        pieces = EventPieces(table.schema, 1, iter([table]))
    return pieces


def _tables_of_files(
    first: EventPieces,
    later: Iterator[Path],
    given: str | None,
    on_unparsable: OnUnparsable | None,
) -> Iterator[pa.Table]:
    yield from first.tables
    for file in later:
        pieces = _open_file(file, given, on_unparsable)
        if not pieces.schema.equals(first.schema):
            raise PiecesDifferError(f"{file} has other columns than the files before it")
        yield from pieces.tables


def _open_parquet(path: Path) -> EventPieces | None:
    from pyarrow import parquet  # noqa: PLC0415  # it loads all that Arrow knows of file systems

    file = parquet.ParquetFile(str(path), pre_buffer=False)
    number = -(-file.metadata.num_rows // EVENTS_PER_PIECE)
    if number < 2:  # noqa: PLR2004  # it is one piece
        return None
    batches = file.iter_batches(batch_size=EVENTS_PER_PIECE)
    return EventPieces(file.schema_arrow, number, _tables(batches))


def _tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Give the pieces, each read while the one before is worked on."""
    with ThreadPoolExecutor(1) as reader:
        ahead = reader.submit(next, batches, None)
        try:
            while (batch := ahead.result()) is not None:
                ahead = reader.submit(next, batches, None)
                yield pa.Table.from_batches([batch])
        except pa.ArrowInvalid as error:
            raise PiecesDifferError(str(error)) from error
