"""The ids of the complex events that a sink of files has got."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from shedlight.engines.event_files import format_of, is_event_file
from shedlight.engines.spark.session.paths import local_path
from shedlight.engines.spark.support.checkpoint import SINK_LOG, committed_files
from shedlight.errors import InputError
from shedlight.graph import Sink
from shedlight.matching.output.complex_events import ID


def delivered_ids(sink: Sink, path: Path | None = None, *, has_some: bool = False) -> pa.Array:
    """Read the ids that a sink has got, from its folder or from a copy of it.

    Of a folder that Spark writes the files count that its log names. One that `has_some`, by
    the checkpoint of its delivery, must be there.

    Raises:
        InputError: The sink has no files that can be read, or one of them is gone.
    """
    place = path if path is not None else _place_of(sink)
    if not place.exists():
        if has_some:
            raise InputError(
                f"{place} is gone, and sink {sink.name} was written there: what was in it "
                "would be recovered though it was delivered; put it back, or give --delivered "
                f"{sink.name}=FOLDER with all that was delivered"
            )
        return pa.array([], pa.string())
    given = sink.format if path is None else None
    if place.is_file():
        return _read_ids([place], given)
    return _read_ids(_files_of(sink.name, place, given), given)


def _place_of(sink: Sink) -> Path:
    """Find the folder of a sink of files."""
    is_plain = sink.format != "csv" or _is_plain_csv(sink.options)
    place = local_path(sink.path)
    if sink.format not in _READERS or not is_plain or place is None:
        where = f" at {sink.path}" if sink.path else ""
        where += "" if is_plain else ", with options other than header: true"
        raise InputError(
            f"what sink {sink.name} has got cannot be read here, for it is {sink.format}{where}"
            f": write its ids to a file with a column {ID!r}, and give --delivered "
            f"{sink.name}=FILE; or leave it out with --sink"
        )
    return place


def _is_plain_csv(options: Mapping[str, str]) -> bool:
    """Say whether files have the names of their columns, and nothing unusual."""
    return {name.lower(): text.lower() for name, text in options.items()} == {"header": "true"}


def _files_of(name: str, folder: Path, given: str | None) -> list[Path]:
    there = sorted(
        file for file in folder.rglob("*") if file.is_file() and is_event_file(file, given)
    )
    if not (folder / SINK_LOG).exists():
        return there
    logged = committed_files(folder)
    if logged is None:
        raise InputError(
            f"the log of sink {name}, {folder / SINK_LOG}, cannot be read whole; put back what "
            f"is missing of it, or give --delivered {name}=FILE"
        )
    gone = sorted(logged.keys() - {file.name for file in there})
    if gone:
        more = f" and {len(gone) - 1:,} more" if len(gone) > 1 else ""
        raise InputError(
            f"sink {name} lacks {folder / gone[0]}{more}, which its log names: what was in it "
            f"would be recovered though it was delivered; put it back, or give --delivered "
            f"{name}=FOLDER with all that was delivered"
        )
    return [file for file in there if file.name in logged]


def _read_ids(files: Iterable[Path], given: str | None) -> pa.Array:
    ids = [pa.chunked_array([], pa.string())]
    for file in files:
        if not file.stat().st_size:  # Spark writes such files of text, too
            continue
        try:
            table = _READERS[format_of(file, given)](str(file))
            ids.append(table[ID].cast(pa.string()))
        except (pa.ArrowException, KeyError, OSError) as error:
            raise InputError(
                f"{file}: the column {ID!r} cannot be read: {error}; put the file right, or "
                "give --delivered SINK=FILE"
            ) from error
    return pa.chunked_array([chunk for each in ids for chunk in each.chunks], pa.string())


def _read_parquet(file: str) -> pa.Table:
    from pyarrow import parquet  # noqa: PLC0415  # it loads all that Arrow knows of file systems

    return parquet.ParquetFile(file).read(columns=[ID])  # and not what a folder's name says


def _read_csv(file: str) -> pa.Table:
    convert = pyarrow.csv.ConvertOptions(
        column_types={ID: pa.string()}, include_columns=[ID], strings_can_be_null=False
    )
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    return pyarrow.csv.read_csv(file, parse_options=parse, convert_options=convert)


def _read_json(file: str) -> pa.Table:
    parse = pyarrow.json.ParseOptions(
        explicit_schema=pa.schema([(ID, pa.string())]), unexpected_field_behavior="ignore"
    )
    return pyarrow.json.read_json(file, parse_options=parse)


_READERS: Mapping[str, Callable[[str], pa.Table]] = {
    "parquet": _read_parquet,
    "csv": _read_csv,
    "json": _read_json,
}
