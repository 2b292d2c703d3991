"""What a user can put right, found in the message of a query that failed."""

from collections.abc import Mapping

from pyspark.errors import StreamingQueryException

from shedlight.engines.spark.sources import REFUSED
from shedlight.errors import InputError, ShedlightError, StateError

_ERRORS: Mapping[str, type[ShedlightError]] = {
    REFUSED: InputError,
    f"{StateError.__module__}.{StateError.__name__}: ": StateError,
    f"{InputError.__module__}.{InputError.__name__}: ": InputError,
}
"""What the message of a query's failure says before what is wrong."""


def explained(error: StreamingQueryException | str) -> Exception:
    """Find what is wrong; if it is nothing of ours, the error stands as it is."""
    for start, kind in _ERRORS.items():
        _, found, text = str(error).partition(start)
        if found:
            return kind(text.partition(" SQLSTATE")[0].split("\n\n")[0].strip())
    return error if isinstance(error, Exception) else ShedlightError(str(error))
