"""Malformed records in files and tables: what is wrong with each, and the record itself.

They cannot be parsed, or have no time or no id.

The words are those of the side output `malformed` of a run on Spark.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from shedlight.engines.event_files import json_lines
from shedlight.language.ast.data_type import DataType
from shedlight.language.eval.column import Flags, data_type_of_arrow

SCHEMA = pa.schema([("source", pa.string()), ("problem", pa.string()), ("record", pa.string())])
"""Of malformed records; the record is its columns as JSON."""


def unparsable_record(source: str, text_format: str, record: str) -> pa.Table:
    """Make a malformed record of text that cannot be parsed."""
    row = (source, f"a record cannot be parsed as {text_format}", record)
    return pa.table([[value] for value in row], schema=SCHEMA)


def find_problems(
    events: pa.Table, ids: Sequence[str], time: str, has_time: Flags
) -> pa.Array | None:
    """Say what is wrong with each event, given which have a time; None: nothing with any.

    Example:
        >>> events = pa.table({"n": [1, None, 3], "at": ["2026-01-05", "2026-01-05", "soon"]})
        >>> find_problems(events, ["n"], "at", np.array([True, True, False])).to_pylist()
        [None, "'n' is null", "'at' is no time in ISO-8601"]
    """
    is_text = data_type_of_arrow(events.schema.field(time).type) is DataType.STRING
    unread = "no time in ISO-8601" if is_text else "too far away to be a time"
    tests = {f"{name!r} is null": np.asarray(events[name].is_null()) for name in (*ids, time)}
    tests[f"{time!r} is {unread}"] = ~np.broadcast_to(has_time, len(events))
    if not any(test.any() for test in tests.values()):
        return None
    first = np.select(list(tests.values()), np.arange(len(tests)), len(tests))
    return pa.array([*tests, None], pa.string()).take(pa.array(first))


def split_records(
    source: str, table: pa.Table, problems: pa.Array | None
) -> tuple[pa.Table, pa.Table]:
    """Part a table into its events, and its malformed records with what is wrong with them."""
    if problems is None:
        return table, SCHEMA.empty_table()
    malformed = table.filter(problems.is_valid())
    columns = [[source] * len(malformed), problems.drop_null(), list(json_lines(malformed))]
    records = pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)
    return table.filter(problems.is_null()), records
