"""What the supervisor says of its queries."""

import threading
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from shedlight.engines.spark.run.supervisor import Supervisor


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
