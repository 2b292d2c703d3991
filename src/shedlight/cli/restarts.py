"""Starts a run of Spark again, from its checkpoint, when the JVM is gone."""

import time
from collections.abc import Callable
from typing import TypeVar

from shedlight.cli.console import say
from shedlight.engines.spark.session.preflight import SessionError, SessionLostError

_STABLE_RUN_S = 60.0  # a JVM that lived for so long has not died in a row
_T = TypeVar("_T")


def run_with_restarts(
    attempt: Callable[[], _T], restarts: int, clock: Callable[[], float] = time.monotonic
) -> _T:
    """Run, and run again if the JVM died, so many times in a row.

    Raises:
        SessionError: It died too often.
    """
    deaths = 0
    while True:
        began = clock()
        try:
            return attempt()
        except SessionLostError as error:
            deaths = 1 if clock() - began > _STABLE_RUN_S else deaths + 1
            if deaths > restarts:
                times = "" if deaths == 1 else f" {deaths} times in a row"
                raise SessionError(
                    f"{error}{times}; see what killed it: the system does if memory is short "
                    "(--conf spark.driver.memory=... is what the JVM may have)"
                ) from error
            say(f"{error}; starting again from the checkpoint, {deaths} of {restarts}")
