"""What a shard counts of strata of keys in a micro-batch, and what it says of single keys.

Of keys that are no heavy hitters it says how many events were kept and how many results there
are, so that the driver learns what they yield: of a part of the keys, if there are many events.
Where a plan asks for it, it says which keys have a partial match.
"""

import base64
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shedlight.graph import OperatorSpec, Stream
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.compile.type_labels import OTHER
from shedlight.matching.jit import Array
from shedlight.matching.kernel.match_state import open_keys
from shedlight.matching.operators.cep_operator import CepOperator, Masks, OperatorState
from shedlight.matching.operators.classify import gather
from shedlight.matching.operators.step import ReadyBatch
from shedlight.shedding.guard import relevant_types
from shedlight.shedding.key_bitmap import KeyBitmap
from shedlight.shedding.stratum_shares import StrataTable
from shedlight.shedding.unshed_sample import choose_keys

MAX_KEPT = 32_768  # of so many kept events of an operator keys are counted, about

Counts = Mapping[str, Mapping[str, int]]  # by stratum, and by label


@dataclass(frozen=True, slots=True)
class StrataMetrics:
    """What a shard counted of the strata of an operator's keys."""

    kept: Mapping[str, Counts] = field(default_factory=dict)  # by pattern
    found: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by pattern, stratum
    # of inputs whose events are not counted before they come here
    arrivals: Counts = field(default_factory=dict)
    # three rows of numbers: keys, how many events of each were kept, and how many results
    keys: str = ""
    opened: Mapping[str, str] = field(default_factory=dict)  # the bits of open keys, by pattern


@dataclass(frozen=True, slots=True, eq=False)
class StrataBatch:
    """A batch of an operator whose keys are shed in strata."""

    table: StrataTable
    matchers: tuple[Matcher, ...]
    ready: ReadyBatch
    kept: Masks
    emitted: Array | None  # which events there are without what only shadows found; None: all

    def metrics(
        self,
        results: Mapping[str, Array],
        uncounted: Sequence[int],
        opened: Mapping[str, str],
    ) -> StrataMetrics:
        """Count, with the keys of what was found and the bits of open keys, by pattern."""
        hashes = next(iter(self.ready.keys.values()))[0]
        strata, kept = self.table.find(hashes), dict[str, Counts]()
        times_kept = np.zeros(len(hashes), np.int64)
        for matcher in self.matchers:
            uses = relevant_types(matcher, self.ready.types.signatures)
            mask = gather(uses, self.ready.numbers)
            if matcher.name in self.kept:
                mask = mask & self.kept[matcher.name]
            times_kept += mask
            kept[matcher.name] = self._count(strata, mask)
        return StrataMetrics(
            kept,
            {name: self._count_results(keys) for name, keys in results.items()},
            self._arrivals(strata, uncounted),
            self._keys(hashes, times_kept, results),
            opened,
        )

    def _count(self, strata: Array, mask: Array) -> Counts:
        """Count events by stratum and label."""
        size = len(self.ready.types.signatures)
        cells = np.bincount(strata[mask] * size + self.ready.numbers[mask])
        counts: dict[str, dict[str, int]] = {}
        for cell in np.flatnonzero(cells).tolist():
            stratum, number = divmod(cell, size)
            by_label = counts.setdefault(self.table.names[stratum], {})
            label = self.ready.types.label(number) or OTHER
            by_label[label] = by_label.get(label, 0) + int(cells[cell])
        return counts

    def _count_results(self, keys: Array) -> dict[str, int]:
        numbers = np.bincount(self.table.find(keys), minlength=len(self.table.names))
        return {n: c for n, c in zip(self.table.names, numbers.tolist(), strict=True) if c}

    def _arrivals(self, strata: Array, uncounted: Sequence[int]) -> Counts:
        if not uncounted:
            return {}
        mine = np.isin(self.ready.inputs, uncounted)
        return self._count(strata, mine if self.emitted is None else mine & self.emitted)

    def _keys(self, hashes: Array, times_kept: Array, results: Mapping[str, Array]) -> str:
        """Say of keys how many events were kept, and how many results there are."""
        found = np.concatenate([np.zeros(0, np.int64), *results.values()])
        share = 1.0
        while share * np.count_nonzero(times_kept) > MAX_KEPT:
            share /= 2
        rows = np.flatnonzero(times_kept)
        rows = rows[self._are_counted(hashes[rows], share)]
        found = found[self._are_counted(found, share)]
        keys = np.unique(np.concatenate([hashes[rows], found]))
        kept = np.bincount(
            np.searchsorted(keys, hashes[rows]), times_kept[rows], minlength=len(keys)
        )
        numbers = np.bincount(np.searchsorted(keys, found), minlength=len(keys))
        return to_text(np.stack([keys, kept.astype(np.int64), numbers]))

    def _are_counted(self, hashes: Array, share: float) -> Array:
        chosen = np.isin(hashes, self.table.heavy, invert=True)
        return chosen if share >= 1 else chosen & choose_keys(hashes, share)


def open_texts(
    spec: OperatorSpec,
    operator: CepOperator,
    state: OperatorState,
    asked: Container[Stream],
    shards: int,
) -> dict[str, str]:
    """Write which keys are open, of patterns of which that is asked for."""
    each = zip(spec.outputs, operator.matchers, state.states, strict=True)
    return {
        matcher.name: to_text(KeyBitmap.of(open_keys(held)[:, 0], shards).words)
        for stream, matcher, held in each
        if stream in asked
    }


def to_text(numbers: Array) -> str:
    """Write whole numbers as they are in memory."""
    return base64.b64encode(np.asarray(numbers, "<i8").tobytes()).decode()


def from_text(text: str, rows: int | None = None) -> Array:
    """Read them, in so many rows."""
    numbers = np.frombuffer(base64.b64decode(text), "<i8")
    return numbers if rows is None else numbers.reshape(rows, -1)
