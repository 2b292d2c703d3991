"""Which events of a batch the patterns of an operator keep, in a simulation."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from shedlight.engines.simulator.api import Chooser
from shedlight.engines.simulator.closure_state import ClosureState
from shedlight.engines.simulator.sampled_keys import SampledKeys
from shedlight.graph.application import OperatorSpec, Stream
from shedlight.graph.topology import key_name, list_elements
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.compile.type_labels import build_vocabulary
from shedlight.matching.jit import Array
from shedlight.matching.operators.cep_operator import CepOperator
from shedlight.matching.operators.classify import gather
from shedlight.matching.operators.step import ReadyBatch
from shedlight.shedding.guard import (
    ClosureGuard,
    covered,
    labels_to_keep,
    relevant_types,
    types_to_keep,
)
from shedlight.shedding.key_bitmap import KeyBitmap
from shedlight.shedding.shares import PatternShares, Shares
from shedlight.shedding.shedder import KeepDecision, event_hashes, kept_events, key_hashes
from shedlight.shedding.strata import EventHashes, kept_by_strata
from shedlight.shedding.stratum_shares import StrataTable
from shedlight.shedding.thresholds import salted_hashes


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """What was decided about a batch, by pattern."""

    masks: dict[str, Array] = field(default_factory=dict)  # which events it keeps
    # types that the shares did not know
    unknown: dict[Stream, tuple[str, ...]] = field(default_factory=dict)
    guards: dict[str, ClosureGuard] = field(
        default_factory=dict
    )  # of those in a protected closure
    # which events are of the unshed sample, and which of these it would keep without it
    sampled: dict[str, Array] = field(default_factory=dict)
    again: dict[str, Array] = field(default_factory=dict)


class Decider:
    """Decides for the patterns of an operator.

    Args:
        spec: What the application says of it.
        operator: The same, compiled.
        windows: The longest window of all patterns of each key, in microseconds.
        closure_state: What must be whole, and for which keys it was so far.
        sampled: The keys of the unshed sample; None: there is none.

    Attributes:
        choosers: Who chooses for patterns, whatever their shares are.
        table: The strata of its keys.
        open_keys: The keys with a partial match, by pattern, as of the end of the last
            interval.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        operator: CepOperator,
        windows: Mapping[str, int],
        closure_state: ClosureState,
        sampled: SampledKeys | None = None,
    ) -> None:
        self.choosers: Mapping[Stream, Chooser] = {}
        self.table = StrataTable()
        self.open_keys: Mapping[str, KeyBitmap] = {}
        self._spec, self._operator, self._windows = spec, operator, windows
        self._closure_state, self._sampled = closure_state, sampled
        self._relevant: dict[str, Array] = {}
        self._to_keep: dict[str, tuple[str, ...] | None] = {}  # by pattern, to be whole
        self._labels: list[str] = []
        self._never_shed: list[bool] = []

    def labels(self, ready: ReadyBatch) -> list[str]:
        """Name the types so far."""
        for number in range(len(self._labels), len(ready.types.signatures)):
            self._labels.append(ready.types.label(number))
        return self._labels

    def relevant(self, ready: ReadyBatch) -> Mapping[str, Array]:
        """Say which types each pattern can take."""
        number = len(ready.types.signatures)
        if not self._relevant or len(next(iter(self._relevant.values()))) != number:
            self._relevant = {
                matcher.name: relevant_types(matcher, ready.types.signatures)
                for matcher in self._operator.matchers
            }
        return self._relevant

    def never_shed(self, ready: ReadyBatch) -> Array:
        """Say which types are never to be shed."""
        labels = self.labels(ready)
        for label in labels[len(self._never_shed) :]:
            self._never_shed.append(is_never_shed(self._spec, label))
        return np.array(self._never_shed, np.bool_)

    def decide(self, ready: ReadyBatch, since: int, shares: Shares) -> Decided:
        """Decide about what is ready after a watermark."""
        decided, hashes = Decided(), dict[str, Array]()
        for matcher in self._operator.matchers:
            stream = Stream(matcher.name, self._spec.name)
            mine = shares.get(stream)
            offered = mask = gather(self.relevant(ready)[stream.name], ready.numbers)
            if stream in self.choosers:
                by_event = self._hashes(ready, stream, PatternShares({}), hashes)
                mask = self.choosers[stream].choose(matcher, ready, mask, by_event)
            elif mine is not None:
                kept = self._kept(ready, stream, mine, hashes)
                mask = mask & kept.mask
                decided.unknown[stream] = kept.unknown
            if self._sampled is not None and stream in self._sampled.groups:
                keys = ready.keys[matcher.pattern.partition_by][0]
                chosen = offered & self._sampled.choose(stream, keys)
                decided.sampled[stream.name] = chosen
                decided.again[stream.name] = mask & chosen
                mask = mask | chosen
                self._sampled.count(stream, keys[offered])
            if stream in self._closure_state.guards:
                share = self._whole_share(matcher, mine)
                if stream in self.choosers:
                    share = float(mask[offered & self._needed(matcher, ready)].all())
                self._closure_state.record(stream, *covered(ready, since), share)
                guard = self._closure_state.guard(stream, since)
                decided.guards[stream.name] = guard
                whole = guard.mask(matcher, ready)
                mask = mask if whole is None else mask & whole
            decided.masks[stream.name] = mask
        return decided

    def _kept(
        self, ready: ReadyBatch, stream: Stream, shares: PatternShares, known: dict[str, Array]
    ) -> KeepDecision:
        """Say what a pattern keeps by its shares, of all keys or of strata of them."""
        if not shares.strata:
            hashes = self._hashes(ready, stream, shares, known)
            return kept_events(shares, ready.types, ready.numbers, hashes)
        hashes = self._hashes(ready, stream, PatternShares({}, by_key=True), known)
        keys = ready.keys[self._spec.patterns[stream.name].partition_by][0]
        by_event = self._hashes(ready, stream, PatternShares({}), known)
        opened = self.open_keys.get(stream.name, KeyBitmap())
        by_stratum = EventHashes(keys, hashes, by_event, opened)
        return kept_by_strata(shares, self.table, ready.types, ready.numbers, by_stratum)

    def _needed(self, matcher: Matcher, ready: ReadyBatch) -> Array:
        """Say which events must all be kept for a pattern to be whole: by key, all of them."""
        guard = self._closure_state.guards[Stream(matcher.name, self._spec.name)]
        if guard.epoch:
            return np.ones(len(ready.time), np.bool_)
        return gather(types_to_keep(matcher, ready.types.signatures, guard), ready.numbers)

    def _whole_share(self, matcher: Matcher, shares: PatternShares | None) -> float:
        """Say for which share of keys a pattern in a closure keeps what it must."""
        if shares is None:
            return 1.0
        guard = self._closure_state.guards[Stream(matcher.name, self._spec.name)]
        if matcher.name not in self._to_keep:
            self._to_keep[matcher.name] = labels_to_keep(
                matcher, self._operator.alphabet, guard
            )
        return shares.whole_share(self._to_keep[matcher.name])

    def _hashes(
        self, ready: ReadyBatch, stream: Stream, shares: PatternShares, known: dict[str, Array]
    ) -> Array:
        key = self._spec.patterns[stream.name].partition_by if shares.by_key else ()
        guard = self._closure_state.guards.get(stream)
        epoch = guard.epoch if guard and key else 0
        name = f"{key_name(key)} of a closure" if epoch else key_name(key)
        if name not in known:
            if epoch:
                known[name] = salted_hashes(ready.keys[key][0], ready.time // epoch)
            elif key:
                window = self._windows.get(name, 1)
                known[name] = key_hashes(ready.table, key, ready.time, window)
            else:
                known[name] = event_hashes(ready.table, self._operator.ids)
        return known[name]


def is_never_shed(spec: OperatorSpec, label: str) -> bool:
    """Say whether an operator never sheds a type: all that a label of `never_shed` says holds.

    Example:
        >>> from shedlight import Stream, parse_pattern
        >>> pattern = parse_pattern("SELECT E WHERE E.type = 7 AND E.cpu > 0.5").pattern
        >>> spec = OperatorSpec(
        ...     name="w",
        ...     node="n",
        ...     inputs=(Stream("s"),),
        ...     patterns={"Q": pattern},
        ...     never_shed=("type=7",),
        ... )
        >>> is_never_shed(spec, "type=7 & cpu > 0.5"), is_never_shed(spec, "cpu > 0.5")
        (True, False)
    """
    if not spec.never_shed:
        return False
    words = build_vocabulary(list_elements(spec))
    holds = words.parse(label) or {}
    required = [words.parse(each) or {} for each in spec.never_shed]
    return any(each.items() <= holds.items() if each else not holds for each in required)
