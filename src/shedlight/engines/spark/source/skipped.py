"""Events that a run skips: those that had arrived before its checkpoint began.

The time is written down once and holds for good: a run that goes on from the checkpoint reads
what the first would have read. Later, nothing is skipped. Patterns would take what is missing
for absent.
"""

import logging
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so

from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.engines.spark.support.storage import StoredPath, create_file
from shedlight.errors import StateError
from shedlight.language.eval.spark_sql import quote_name

_LOG = logging.getLogger(__name__)


def skipped_before(file: StoredPath, now: float | None, *, has_begun: bool) -> int | None:
    """Give the arrival before which events are skipped, in microseconds; None: none are.

    What the file says stands. Without it events are skipped until `now`, in seconds since
    1970, if that is given and the checkpoint has not begun.
    """
    if file.exists():
        return _read(file)
    if now is None:
        return None
    if has_begun:
        _LOG.warning("the checkpoint has begun: nothing is skipped; a new one would")
        return None
    _LOG.warning("what arrived before %s is skipped", datetime.fromtimestamp(now, UTC))
    return round(now * 1e6)


def keep_skipped(file: StoredPath, before: int | None) -> None:
    """Keep before which arrival events are skipped, if that is not there yet."""
    if before is not None and not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        create_file(file, str(before))


def skip_stored(events: DataFrame, before: int | None) -> DataFrame:
    """Leave out events that arrived before a time, in microseconds."""
    return events if before is None else events.where(F.col(quote_name(ARRIVAL)) >= before)


def _read(file: StoredPath) -> int:
    try:
        return int(file.read_text())
    except ValueError as error:
        raise StateError(
            f"{file} is damaged ({error}); put it back as it was, or start with a new "
            "checkpoint"
        ) from error
