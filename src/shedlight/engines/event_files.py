"""Files of events, read and written without Spark: Parquet, CSV and JSON lines."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from shedlight.errors import InputError, known_names
from shedlight.language.eval.times import write_times

_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


def _read_parquet(file: str | pa.BufferReader) -> pa.Table:
    from pyarrow import parquet  # noqa: PLC0415  # it loads all that Arrow knows of file systems

    return parquet.read_table(file)


_READERS: Mapping[str, Callable[[str | pa.BufferReader], pa.Table]] = {
    "parquet": _read_parquet,
    "csv": pyarrow.csv.read_csv,
    "json": pyarrow.json.read_json,
}
_MAX_SHOWN = 100  # how many characters of a line an error has

OnUnparsable = Callable[[str, str], None]
"""Takes a line of a file that cannot be parsed, and as what."""


def format_of(path: Path, given: str | None = None) -> str:
    """Find the format of a file by its ending, or take the one given if it can be read."""
    if given is not None:
        if given not in _READERS:
            raise InputError(
                f"{path}: unknown format {given!r}; {known_names(given, _READERS)}"
            )
        return given
    endings = [ending for ending in path.suffixes[::-1] if ending in _FORMATS]
    if endings:
        return _FORMATS[endings[0]]
    raise InputError(
        f"{path}: cannot tell the format from the name; "
        f"let it end in {', '.join(sorted(_FORMATS))}"
    )


def read_events(
    path: Path,
    given: str | None = None,
    *,
    times_as_text: bool = False,
    on_unparsable: OnUnparsable | None = None,
) -> pa.Table:
    """Read a file, or all files of a folder in the order of their names.

    Args:
        path: The file or the folder.
        given: The format: parquet, csv or json (lines); None: by the ending of the name.
        times_as_text: Whether times in JSON stay text, which says if they have a time zone.
        on_unparsable: Called with the format and the text of each line that cannot be parsed,
            which is left out then; None: it is an error.

    Raises:
        InputError: There is nothing to read, or it cannot be read.
    """
    if path.is_dir():
        files = files_of_folder(path, given)
        tables = [_read(file, given, on_unparsable, as_text=times_as_text) for file in files]
        try:
            return pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as error:
            raise InputError(f"{path}: its files have different columns: {error}") from error
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder")
    return _read(path, given, on_unparsable, as_text=times_as_text)


def files_of_folder(folder: Path, given: str | None = None) -> list[Path]:
    """List the files of events in a folder and its folders, in the order of their names.

    Raises:
        InputError: There is none.
    """
    files = sorted(
        file for file in folder.rglob("*") if file.is_file() and is_event_file(file, given)
    )
    if not files:
        raise InputError(f"{folder}: the folder has no Parquet, CSV or JSON lines file in it")
    return files


def is_event_file(file: Path, given: str | None) -> bool:
    """Say whether a file of a folder is read: by its ending, and none that is hidden."""
    hidden = file.name.startswith((".", "_"))
    return not hidden and (given is not None or bool(_FORMATS.keys() & set(file.suffixes)))


def _read(
    path: Path, given: str | None, on_unparsable: OnUnparsable | None, *, as_text: bool
) -> pa.Table:
    format_name = format_of(path, given)
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty, it does not even name its columns")
    try:
        return _parse(str(path), format_name, as_text=as_text)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = error
    try:
        parsable = _leave_out_unparsable(path, format_name, on_unparsable)
        if parsable is not None:
            return _parse(parsable, format_name, as_text=as_text)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = error
    raise InputError(f"{path}: cannot be read as {format_name}: {problem}") from problem


def _parse(file: str | pa.BufferReader, format_name: str, *, as_text: bool) -> pa.Table:
    table = _READERS[format_name](file)
    times = [column.name for column in table.schema if pa.types.is_timestamp(column.type)]
    if not (as_text and times and format_name == "json"):
        return table
    options = pyarrow.json.ParseOptions(
        explicit_schema=pa.schema([(name, pa.string()) for name in times])
    )
    if isinstance(file, pa.BufferReader):
        file.seek(0)
    return pyarrow.json.read_json(file, parse_options=options)


def _leave_out_unparsable(
    path: Path, format_name: str, on_unparsable: OnUnparsable | None
) -> pa.BufferReader | None:
    """Give the lines of a text file that can be parsed; None if that is all, or of no help."""
    find = {"json": _unparsable_json, "csv": _unparsable_csv}.get(format_name)
    if find is None:
        return None
    text = pa.input_stream(str(path), compression="detect").read()
    lines = text.splitlines(keepends=True)
    unparsable = find(text, lines)
    for number in unparsable:
        line = lines[number].decode("utf-8", "replace").rstrip("\r\n")
        if on_unparsable is None:
            shown = line if len(line) <= _MAX_SHOWN else f"{line[:_MAX_SHOWN]}..."
            raise InputError(
                f"{path}: line {number + 1:,} cannot be parsed as {format_name.upper()}: "
                f"{shown!r}; put it right, or have such records left out: with `malformed` "
                "of the source in an application file, or by --malformed FILE of `match`"
            )
        on_unparsable(format_name.upper(), line)
        lines[number] = b""
    return pa.BufferReader(b"".join(lines)) if unparsable else None


def _unparsable_json(_: bytes, lines: Sequence[bytes]) -> list[int]:
    """Number the lines that are no objects of JSON, from 0 on."""
    return [n for n, line in enumerate(lines) if line.strip() and not _is_json_object(line)]


def _is_json_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _unparsable_csv(text: bytes, lines: Sequence[bytes]) -> list[int]:
    """Number the lines that have more or fewer values than there are columns, from 0 on."""
    rows: list[str] = []

    def skip(row: pyarrow.csv.InvalidRow) -> str:
        rows.append(row.text)
        return "skip"

    options = pyarrow.csv.ParseOptions(invalid_row_handler=skip)
    pyarrow.csv.read_csv(pa.BufferReader(text), parse_options=options)
    wanted = {row.encode() for row in rows}
    return [n for n, line in enumerate(lines) if line.rstrip(b"\r\n") in wanted]


def write_events(table: pa.Table, path: Path) -> None:
    """Write a table as Parquet, CSV or JSON lines, by the ending of the name.

    Raises:
        InputError: It cannot be written.
    """
    format_name = format_of(path)
    with written_whole(path) as unfinished:
        if format_name == "parquet":
            from pyarrow import parquet  # noqa: PLC0415  # see `_read_parquet`

            parquet.write_table(table, unfinished)
        elif format_name == "csv":
            pyarrow.csv.write_csv(flatten_nested(with_written_times(table)), unfinished)
        else:
            lines = "".join(f"{line}\n" for line in json_lines(table))
            unfinished.write_text(lines, encoding="utf-8")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a path to write to; the file gets its name when it is complete, never in part."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        yield unfinished
        unfinished.replace(path)
    except (pa.ArrowException, OSError) as error:
        raise cannot_write_error(path, error) from error
    finally:
        with suppress(OSError):
            unfinished.unlink()


def cannot_write_error(path: Path, error: Exception) -> InputError:
    """Say that a file cannot be written, and why."""
    reason = getattr(error, "strerror", None) or error
    return InputError(
        f"{path}: cannot be written: {reason}; give a folder that can be written to"
    )


def json_lines(table: pa.Table) -> Iterator[str]:
    """Write each row as a line of JSON; times are in ISO-8601."""
    for row in with_written_times(table).to_pylist():
        yield json.dumps(row, default=_write_value)


def with_written_times(table: pa.Table) -> pa.Table:
    """Write the timestamps with a time zone as text: ISO-8601 in UTC, to the microsecond."""
    for index, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            table = table.set_column(index, column.name, write_times(table[column.name]))
    return table


def _write_value(value: object) -> str:
    """Write a value that JSON has not as text."""
    if isinstance(value, datetime):
        is_zoned = value.tzinfo is not None
        text = (value.astimezone(UTC) if is_zoned else value).isoformat(timespec="microseconds")
        return text.replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else str(value)


def flatten_nested(table: pa.Table) -> pa.Table:
    """Write lists and structs as JSON text, for formats that have plain values only."""
    columns = {
        name: column if not pa.types.is_nested(column.type) else _as_json(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pa.table(columns)


def stack_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Put tables one below the other; columns of unlike data types become JSON text."""
    data_types: dict[str, set[str]] = {}
    for table in tables:
        for column in table.schema:
            data_types.setdefault(column.name, set()).add(str(column.type))
    unlike = {name for name, types in data_types.items() if len(types) > 1}
    alike = []
    for table in tables:
        for name in unlike & set(table.column_names):
            index = table.column_names.index(name)
            table = table.set_column(index, name, _as_json(table[name]))  # noqa: PLW2901
        alike.append(table)
    return pa.concat_tables(alike, promote_options="default")


def _as_json(column: pa.ChunkedArray) -> pa.Array:
    values = column.to_pylist()
    texts = [None if v is None else json.dumps(v, default=_write_value) for v in values]
    return pa.array(texts, pa.string())


def add_row_numbers(table: pa.Table, name: str, before: int = 0) -> pa.Table:
    """Add a column with the number of each row, from 1 on, or after so many before it."""
    numbers = np.arange(before + 1, before + len(table) + 1, dtype=np.int64)
    return table.append_column(name, pa.array(numbers))
