"""What the supervisor says of its queries, and how it stops one that is never idle."""

import threading
import time
from itertools import count
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from shedlight.engines.spark.run import supervisor
from shedlight.engines.spark.run.supervisor import Supervisor, await_batch_end


@pytest.mark.parametrize(
    ("active", "message", "triggered", "busy"),
    [
        (False, "Stopped", False, True),
        (True, "Initializing StreamExecution", False, True),
        (True, "Initializing sources", False, True),
        (True, "Processing new data", True, True),
        (True, "Waiting for next trigger", False, False),
        (True, "Waiting for data to arrive", False, False),
    ],
)
def test_a_query_that_has_not_looked_for_events_is_busy(active, message, triggered, busy):
    """Only one that looked and found nothing rests."""
    status = {"message": message, "isTriggerActive": triggered, "isDataAvailable": False}
    query = cast("StreamingQuery", SimpleNamespace(isActive=active, status=status))
    supervisor = Supervisor({"n": lambda: query}, 0, 0.0, threading.Event())
    supervisor.start()
    assert supervisor.is_busy("n") is busy


class BusyQuery:
    """A query under load: it is always in a micro-batch, each of which takes so many looks."""

    def __init__(self, looks: int) -> None:
        self._looks, self._number = looks, count()
        self.isActive, self.status = True, {"isTriggerActive": True}

    @property
    def lastProgress(self) -> dict[str, int] | None:  # noqa: N802  # Spark's name
        """Give the micro-batch that ended last."""
        batch = next(self._number) // self._looks
        return {"batchId": batch - 1} if batch else None


def test_under_load_one_micro_batch_is_waited_for():
    """The next one has begun when this one ends; its end is not waited for."""
    query = BusyQuery(looks=3)
    began = time.monotonic()
    await_batch_end(cast("StreamingQuery", query))
    assert time.monotonic() - began < 2
    assert query.lastProgress == {"batchId": 0}


def test_a_micro_batch_that_does_not_end_is_not_waited_for(monkeypatch):
    """Not for longer than the grace."""
    monkeypatch.setattr(supervisor, "_SHUTDOWN_GRACE_S", 0.3)
    began = time.monotonic()
    await_batch_end(cast("StreamingQuery", BusyQuery(looks=10_000)))
    assert 0.3 <= time.monotonic() - began < 2
