"""The first events of a source's files, and what would be made of their times."""

import io
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from shedlight.engines.event_files import format_of, is_event_file
from shedlight.engines.spark.session.paths import is_local
from shedlight.engines.tables import event_time_of, with_declared_times, with_derived_columns
from shedlight.errors import InputError
from shedlight.graph import Source
from shedlight.language.eval.times import write_times

ROWS = 3  # how many events are looked at


def first_times(source: Source, folder: Path) -> Sequence[tuple[str, str | None]]:
    """Give the times of the first events, as they are written and as they are read.

    None is a time that cannot be read. Nothing is given if the source has no files here that
    can be looked at without Spark.

    Raises:
        InputError: The files cannot be read, or the column is none of times.
    """
    file = _first_file(source, folder)
    if file is None:
        return []
    try:
        lines, table = _read_first(file, source)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read as {source.format}: {error}") from error
    table = with_declared_times(source, table)
    if source.time not in table.column_names:
        table = with_derived_columns(source, table)
    if source.time not in table.column_names:
        raise InputError(f"{file} has no column {source.time!r}")
    what = f"source {source.name}: {source.time!r}"
    times = table[source.time]
    micros = event_time_of(times, source.time_unit.value, source.time_zone, what)
    read = write_times(pa.array(micros.values, mask=~np.broadcast_to(micros.valid, len(times))))
    written = [line.get(source.time) for line in lines] if lines else times.to_pylist()
    return list(zip(map(_show, written), read.to_pylist(), strict=True))


def _show(value: object) -> str:
    return "null" if value is None else str(value)


def _first_file(source: Source, folder: Path) -> Path | None:
    if source.path is None or not is_local(source.path):
        return None
    path = folder / source.path
    try:
        format_of(path, source.format)
    except InputError:  # a format that only Spark reads
        return None
    if path.is_dir():
        files = sorted(f for f in path.rglob("*") if f.is_file())
        return next((f for f in files if is_event_file(f, source.format)), None)
    return path if path.is_file() and path.stat().st_size else None


def _read_first(file: Path, source: Source) -> tuple[list[dict[str, Any]], pa.Table]:
    """Read the first rows; of text also as they are written."""
    if source.format == "parquet":
        batches = pyarrow.parquet.ParquetFile(file).iter_batches(batch_size=ROWS)
        first = [batch.slice(0, ROWS) for batch in islice(batches, 1)]
        return [], pa.Table.from_batches(
            first, None if first else pyarrow.parquet.read_schema(file)
        )
    header = int(source.format == "csv")
    with file.open("rb") as stream:
        lines = list(islice(stream, ROWS + header))
    text = b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)
    if source.format == "json":
        table = pyarrow.json.read_json(io.BytesIO(text))
        names = [column.name for column in table.schema if pa.types.is_timestamp(column.type)]
        options = pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([(name, pa.string()) for name in names])
        )
        table = pyarrow.json.read_json(io.BytesIO(text), parse_options=options)
        return [json.loads(line) for line in lines if line.strip()], table
    texts = pyarrow.csv.ConvertOptions(column_types={source.time: pa.string()})
    written = pyarrow.csv.read_csv(io.BytesIO(text), convert_options=texts)
    return written.to_pylist(), pyarrow.csv.read_csv(io.BytesIO(text))
