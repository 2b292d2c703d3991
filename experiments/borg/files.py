"""Files of the Google cluster traces, read into the few columns that are used here.

Read are Parquet, CSV and JSON lines, also compressed by gzip. A column is found by any of the
names that it has in public files:

- `clusterdata_trace_format_v3.proto` of the 2019 traces (instance events and instance usage; in
  their JSON, whole numbers are text);
- `schema.csv` of the 2011 traces, whose CSV files have no line of names: they are known by how
  many fields they have;
- `borg_traces_data.csv`, a public sample of the 2019 traces with a column of clusters.

A row that cannot be read is named and left out, and so is one without a proper time or machine.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from shedlight.engines.event_files import format_of
from shedlight.errors import InputError, known_names
from shedlight.model.arrays import Ints

NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "time": ("time_us", "time", "start_time", "start time"),
        "machine": ("machine_id", "machine ID"),
        "cluster": ("cluster",),
        "cpu": ("cpu", "CPU rate"),
    }
)
"""What is used, and the names that it has in files; the first one that is there counts."""

_TASK_EVENTS = ("time", "missing info", "job ID", "task index", "machine ID", "event type")
_TASK_USAGE = ("start time", "end time", "job ID", "task index", "machine ID", "CPU rate")
_FIELDS_2011 = {13: _TASK_EVENTS, 19: _TASK_USAGE, 20: _TASK_USAGE}
"""The first names of the fields, by how many there are; 19 are in the first version of 2011."""

_WHOLE = r"^-?[0-9]{1,18}(\.0*)?$|^9223372036854775807$"
_AS_FLOAT = 2.0**53
"""From here on, a float is not a certain whole number."""


class Flaw(Enum):
    """What is wrong with a row."""

    UNREADABLE = "cannot be read"
    NO_TIME = "has no time"
    BAD_TIME = "has a time that is no whole number of microseconds"
    BEFORE = "has time 0: it was so before the trace began"
    AFTER = "has time 2^63-1: it was so after the trace ended"
    NO_MACHINE = "has no machine"
    BAD_MACHINE = "has a machine that is no whole number"


@dataclass(frozen=True, slots=True)
class Malformed:
    """A row that is left out.

    Attributes:
        file: Its file, as it is called in the folder.
        row: Its number in the file, from 1 on; names of columns and empty lines do not count.
        flaw: What is wrong.
    """

    file: str
    row: int
    flaw: Flaw

    def __str__(self) -> str:
        return f"{self.file}: row {self.row} {self.flaw.value}"


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of a file that can be read.

    Attributes:
        file: How the file is called in messages.
        columns: By their names in `NAMES`.
        found: The names of all columns of the file.
        numbers: The number of each row in the file.
        unreadable: The numbers of the other rows.
    """

    file: str
    columns: Mapping[str, pa.Array]
    found: tuple[str, ...]
    numbers: Ints
    unreadable: tuple[int, ...] = ()

    def column(self, what: str) -> pa.Array:
        """Give a column.

        Raises:
            InputError: The file has none.
        """
        if what not in self.columns:
            raise InputError(
                f"{self.file}: there is no column of the {what}, which is called "
                f"{' or '.join(map(repr, NAMES[what]))}; {known_names(what, self.found)}"
            )
        return self.columns[what]

    def only(self, kept: "np.typing.NDArray[np.bool_]") -> "Rows":
        """Leave out some rows; what was unreadable stays so."""
        columns = {what: one.filter(pa.array(kept)) for what, one in self.columns.items()}
        return Rows(self.file, columns, self.found, self.numbers[kept], self.unreadable)


def read_rows(path: Path, file: str) -> Rows:
    """Read a file of a trace.

    Args:
        path: Where it is.
        file: How to call it.

    Raises:
        InputError: It cannot be read at all.
    """
    file_format = format_of(path)
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{file}: the file is empty")
        if file_format == "parquet":
            return _rows(file, pyarrow.parquet.read_table(path), ())
        return _read_csv(path, file) if file_format == "csv" else _read_json(path, file)
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read as {file_format}: {error}") from error


def whole_numbers(column: pa.Array) -> tuple[Ints, "np.typing.NDArray[np.bool_]"]:
    """Read whole numbers; where there is none, the number is -1 and the mask is False."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        text = pc.ascii_trim_whitespace(column)
        text = pc.if_else(pc.match_substring_regex(text, _WHOLE), text, None)
        column = pc.replace_substring_regex(text, r"\.0*$", "").cast(pa.int64())
    elif pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
        sure = pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), _AS_FLOAT))
        column = pc.if_else(sure, column, None).cast(pa.int64())
    elif pa.types.is_integer(column.type):
        if column.type == pa.uint64():
            column = pc.if_else(pc.less(column, pa.scalar(2**63, pa.uint64())), column, None)
        column = column.cast(pa.int64())
    else:
        column = pa.nulls(len(column), pa.int64())
    there = column.is_valid().to_numpy(zero_copy_only=False)
    return column.fill_null(-1).to_numpy(), there


def is_missing(column: pa.Array) -> "np.typing.NDArray[np.bool_]":
    """Mark where there is nothing at all: null, not a number, or empty text."""
    missing = pc.is_null(column, nan_is_null=True)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        missing = pc.or_kleene(missing, pc.equal(pc.ascii_trim_whitespace(column), ""))
    mask: np.typing.NDArray[np.bool_] = missing.to_numpy(zero_copy_only=False)
    return mask


def _rows(
    file: str, table: pa.Table, unreadable: Sequence[int], found: Sequence[str] = ()
) -> Rows:
    names = {
        what: next((one for one in called if one in table.column_names), None)
        for what, called in NAMES.items()
    }
    columns = {what: _one_array(table[name]) for what, name in names.items() if name}
    every = np.arange(1, len(table) + len(unreadable) + 1)
    numbers = np.setdiff1d(every, np.array(unreadable, np.int64), assume_unique=True)
    return Rows(file, columns, tuple(found or table.column_names), numbers, tuple(unreadable))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks()


def _read_csv(path: Path, file: str) -> Rows:
    """Read text; of rows with too many or too few fields, the numbers are kept."""
    with pa.input_stream(str(path), compression="detect") as stream:
        first = stream.read(1 << 16).split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    fields = next(csv.reader([first.removeprefix("\ufeff")]), [""])
    named = not fields[0].strip().lstrip("-").isdigit()
    if not named and len(fields) not in _FIELDS_2011:
        raise InputError(
            f"{file}: its first line is no line of names, and {len(fields)} fields are those "
            f"of no table of 2011; those have {', '.join(map(str, _FIELDS_2011))}"
        )
    names = fields if named else _fields_2011(len(fields))
    used = [name for called in NAMES.values() for name in called if name in names]
    unreadable: list[int] = []

    def note(row: pyarrow.csv.InvalidRow) -> str:
        unreadable.append(row.number - named)
        return "skip"

    table = pyarrow.csv.read_csv(
        str(path),
        # rows have numbers in one thread only
        read_options=pyarrow.csv.ReadOptions(
            use_threads=False, column_names=None if named else names
        ),
        # the public sample has arrays over several lines
        parse_options=pyarrow.csv.ParseOptions(
            newlines_in_values=True, invalid_row_handler=note
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(used, pa.string()),
            include_columns=used,
            strings_can_be_null=True,
            check_utf8=False,  # a row of other bytes is malformed, the file is not
        ),
    )
    return _rows(file, table, unreadable, names)


def _fields_2011(count: int) -> list[str]:
    first = _FIELDS_2011[count]
    return [*first, *(f"field {number}" for number in range(len(first) + 1, count + 1))]


def _read_json(path: Path, file: str) -> Rows:
    """Read lines; if one cannot be read or its values are of another type, one by one."""
    try:
        return _rows(file, pyarrow.json.read_json(str(path)), ())
    except pa.ArrowInvalid:
        with pa.input_stream(str(path), compression="detect") as stream:
            lines = [line for line in stream.read().splitlines() if line.strip()]
    objects = [_object_of(line) for line in lines]
    used = [name for called in NAMES.values() for name in called]
    found = {name for one in objects if one is not None for name in one}
    table = {
        name: pa.array([_text_of(one.get(name)) for one in objects if one is not None])
        for name in used
        if name in found
    }
    unreadable = [number for number, one in enumerate(objects, 1) if one is None]
    return _rows(file, pa.table(table), unreadable)


def _object_of(line: bytes) -> dict[str, object] | None:
    try:
        read = json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
    return read if isinstance(read, dict) else None


def _text_of(value: object) -> str | None:
    return None if value is None else str(value)
