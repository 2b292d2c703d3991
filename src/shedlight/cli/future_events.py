"""Events from the future that a command left out: how many, and what to do."""

from collections import Counter

from shedlight.cli.console import say
from shedlight.engines.time_jumps import FutureEvents
from shedlight.language.ast.pattern import Window


class FutureCounts:
    """Counts events that were left out; `add` takes what was left out of a file."""

    def __init__(self) -> None:
        self._numbers: Counter[tuple[str, int]] = Counter()

    def add(self, left_out: FutureEvents) -> None:
        """Take what was left out of a file."""
        self._numbers[left_out.source, left_out.max_jump] += left_out.number

    def clear(self) -> None:
        """Forget what was taken, for the file is read again."""
        self._numbers.clear()

    def report(self, advice: str) -> None:
        """Say how many of each source there are, and what to do."""
        for (name, max_jump), number in self._numbers.items():
            events = "event is" if number == 1 else "events are"
            say(
                f"{name}: {number:,} {events} left out, with a time more than "
                f"{Window(max_jump)} in the future; put times right, or {advice}"
            )
