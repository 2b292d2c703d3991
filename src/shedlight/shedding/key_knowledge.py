"""What is learned of the keys of one key attribute: heavy hitters, and what others yield."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shedlight.graph.application import Application
from shedlight.graph.topology import longest_windows, readers
from shedlight.matching.jit import Array
from shedlight.shedding.heavy_hitters import RecentWork
from shedlight.shedding.key_yields import KeyYields
from shedlight.shedding.stratum_shares import StrataTable
from shedlight.shedding.thresholds import END

_NO_WINDOW = 60_000_000  # stands for that of patterns of one event, in microseconds
_AGING = 0.98  # what an event of a key says of its yield a window later


@dataclass(frozen=True, slots=True, eq=False)
class KeyKnowledge:
    """What is known of keys, and their strata as they were when these were last found."""

    window: int  # the longest of all patterns of the key, in microseconds
    is_classed: bool  # whether keys are classed by what they yield
    table: StrataTable = field(default_factory=StrataTable)
    work: RecentWork = field(default_factory=RecentWork)
    yields: KeyYields = field(default_factory=KeyYields)
    time: int | None = None  # the event time until which yields were aged

    def age(self, time: int) -> "KeyKnowledge":
        """Let yields age by the event time that has passed, in windows."""
        if time >= END:
            return self
        if self.time is None or time <= self.time:
            return replace(self, time=time)
        windows = (time - self.time) / self.window
        return replace(self, time=time, yields=self.yields.age(_AGING**windows))

    def add(self, relevant: Array, kept: Array, results: Array) -> "KeyKnowledge":
        """Add events that patterns can take, those kept, and results, by their keys."""
        return replace(
            self,
            work=self.work.add(relevant),
            yields=self.yields.add(relevant, kept, results),
        )

    def renew(self) -> "KeyKnowledge":
        """Find the strata anew."""
        heavy = self.work.heavy_hitters(self.table.heavy)
        classes = self.yields.classes() if self.is_classed else {}
        return replace(self, table=StrataTable.of(heavy, classes), work=self.work.age())


def know_keys(
    application: Application, operators: Mapping[str, str]
) -> dict[str, KeyKnowledge]:
    """Give what is known before the first event, by key, of operators with the names of theirs.

    Keys are not classed where another operator reads what is found: what they yield in the end
    is not known.
    """
    windows = longest_windows(application)
    read = {
        key
        for name, key in operators.items()
        if any(readers(application, each) for each in application.operators[name].outputs)
    }
    return {
        key: KeyKnowledge(windows.get(key, _NO_WINDOW), key not in read)
        for key in operators.values()
    }
