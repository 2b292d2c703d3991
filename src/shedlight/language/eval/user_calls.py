"""Functions of the user on columns of Arrow, the same in Python and on Spark."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from shedlight.errors import InputError
from shedlight.language.ast.expression import UserCall
from shedlight.language.eval.column import (
    as_arrow_type,
    to_arrow,
    to_column,
    to_one_chunk,
)


def compute_call(
    call: UserCall, arguments: Sequence[pa.Array | pa.ChunkedArray], rows: int
) -> pa.Array:
    """Call a function of Python for so many rows.

    It gets its arguments as the language has them: whole numbers of 64 bits, doubles, text,
    timestamps in UTC.

    Raises:
        InputError: It is one of Spark, it fails, or what it gives does not fit.
    """
    function = call.function.call
    if isinstance(function, str):
        raise InputError(
            f"{call} is a function of Spark ({function!r}), which only Spark can call: use "
            "`find` or `run` on it, or give a function of Python in its place"
        )
    wanted = as_arrow_type(call.function.returns)
    if not rows:
        return pa.nulls(0, wanted)
    taken = [to_arrow(to_column(argument)) for argument in arguments]
    try:
        given = function(*taken)
    except Exception as error:
        raise InputError(
            f"the function {call.name} failed: {type(error).__name__}: {error}"
        ) from error
    found = _to_array(call, given, wanted)
    if len(found) != rows:
        raise InputError(
            f"the function {call.name} gave {len(found):,} values for {rows:,} events; it is "
            "called with columns and must give a value for each row"
        )
    return found


def _to_array(call: UserCall, given: Any, wanted: pa.DataType) -> pa.Array:  # noqa: ANN401  # anything
    try:
        if not isinstance(given, pa.Array | pa.ChunkedArray):
            given = pa.array(given, from_pandas=True)
        return to_one_chunk(given).cast(wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        shown = given.type if isinstance(given, pa.Array | pa.ChunkedArray) else type(given)
        raise InputError(
            f"the function {call.name} gave {shown}, which cannot be a column of "
            f"{call.function.returns}: {error}"
        ) from error
