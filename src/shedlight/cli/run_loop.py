"""Runs an application until it is over, and goes on with another when its file changes."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from types import FrameType

from shedlight.cli.console import say
from shedlight.cli.run_view import LiveView, shown
from shedlight.cli.watch import INTERVAL_S, FileWatch
from shedlight.engines.spark.run.streaming import Live
from shedlight.errors import ShedlightError
from shedlight.graph import Application

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_until_over(
    application: Application,
    start: Callable[[Application], Live],
    view: LiveView,
    seconds: float | None,
    watch: FileWatch | None,
) -> None:
    """Run for some time, or until it is stopped; `start` is called for each application."""
    running = start(application)
    view.begin()
    while True:
        left = None if seconds is None else seconds - view.seconds
        with _stopping_on_signals(running), running, shown(view):
            changed = _wait(running, application, left, watch)
            if watch is not None and changed is not None:
                watch.application = changed  # also if the JVM dies before it runs
        if watch is None or changed is None:
            return
        try:
            running, application = start(changed), changed
        except ShedlightError as error:
            say(f"the run goes on as it was: {error}")
            watch.application = application
            running = start(application)
        view.begin_changed(application)


def _wait(
    running: Live, application: Application, seconds: float | None, watch: FileWatch | None
) -> Application | None:
    """Wait until a run is over; or give the application that it is to be from now on."""
    if watch is None:
        running.wait(seconds)
        return None
    over = inf if seconds is None else time.monotonic() + seconds
    while running.wait(max(0.0, min(INTERVAL_S, over - time.monotonic()))):
        changed = watch.changed(running.check_change)
        if changed is not None and changed != application:
            say(f"{watch.file} has changed; the run goes on with what is unchanged ...")
            return changed
        if time.monotonic() >= over:
            return None
    return None


@contextmanager
def _stopping_on_signals(running: "Live") -> Iterator[None]:
    """Stop after the micro-batch at Ctrl-C or SIGTERM; at the second one at once."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        for received in _STOP_SIGNALS:
            signal.signal(received, signal.default_int_handler)
        say("stopping after this micro-batch ...")
        running.ask_to_stop()

    before = {number: signal.signal(number, stop) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
