"""Large states that a worker keeps from one micro-batch to the next."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from shedlight.engines.spark.step.chain import ChainRuntime, ChainState
from shedlight.engines.spark.step.filed_state import FiledState
from shedlight.matching.state.container import Section

MAX_HELD_BYTES = 1 << 28
"""So many bytes of sections a worker keeps; the arrays of their states are as much again."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldState:
    """The state of a shard, and its files if it is large."""

    chain: ChainRuntime  # as it was built; event types of its state have the numbers of it
    state: ChainState
    filed: FiledState | None = None
    sections: Sequence[Section] = ()  # what its files have

    @property
    def last_file(self) -> str | None:
        """The file that was written last; its name says which state this is."""
        return self.filed.files[-1] if self.filed else None

    @property
    def size(self) -> int:
        """How many bytes its sections have."""
        return sum(len(section.body) for section in self.sections)


@dataclass(frozen=True, slots=True)
class HeldStates:
    """The states that a worker wrote last, by the folder of their shard.

    Beyond `max_bytes` those are given up that were written longest ago, but for the last one.
    """

    max_bytes: int = MAX_HELD_BYTES
    _by_folder: dict[Path, HeldState] = field(default_factory=dict)

    def get(self, folder: Path) -> HeldState | None:
        """Find the state of a shard."""
        return self._by_folder.get(folder)

    def hold(self, folder: Path, state: HeldState) -> None:
        """Keep the state of a shard."""
        self._by_folder.pop(folder, None)
        self._by_folder[folder] = state
        total = sum(held.size for held in self._by_folder.values())
        while total > self.max_bytes and len(self._by_folder) > 1:
            oldest = next(iter(self._by_folder))
            total -= self._by_folder.pop(oldest).size


@cache
def held_in_worker() -> HeldStates:
    """Give the states that this process keeps, of all nodes and shards that it works for.

    Spark sends the function of a step with the values it uses, to each task anew; so this is
    asked for and not a value.
    """
    return HeldStates()
