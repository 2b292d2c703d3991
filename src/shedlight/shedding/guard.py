"""Matching of patterns in a protected closure: by stretches in which a key is whole.

What such a pattern finds is what it finds without shedding on each stretch of event time in
which its key was whole in all that it depends on. So it sees a key while the key is whole, and
when the key is no longer, its partial matches are cancelled: they are neither completed nor
absent nor timed out. A watcher also leaves out what began too soon after the stretch did, for
what it watches may have begun before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from shedlight.graph.application import Application, Stream
from shedlight.graph.closures import Closures, window_length
from shedlight.graph.lineage import ancestors
from shedlight.language.ast import pattern as ast
from shedlight.language.eval.column import to_column
from shedlight.matching.compile.matcher import BEGAN, Matcher
from shedlight.matching.compile.predicates import Alphabet, Signature, all_signatures
from shedlight.matching.jit import Array
from shedlight.matching.kernel import records as rec
from shedlight.matching.kernel.match_state import MatchState, cancel, open_keys
from shedlight.matching.operators.reorder import FOREVER, NEVER
from shedlight.matching.operators.step import ReadyBatch, match, select_matches
from shedlight.matching.output.matches import Matches
from shedlight.shedding.thresholds import BEGINNING, Piece, ThresholdHistory, WholeKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSpec:
    """What a pattern in a closure depends on."""

    streams: tuple[Stream, ...]  # those that must be whole: itself, and patterns upstream
    epoch: int  # how long keys are salted alike, in microseconds; 0: it has no key
    # a watcher's: for how long before a match all must have been whole; None: ever
    horizon: int | None = 0
    # how long a partial match can be open, in microseconds; None: for ever
    window: int | None = None
    # whether all types that it can take must be whole, or those that a NOT watches for
    needs_all: bool = True


def find_guards(application: Application, closures: Closures) -> Mapping[Stream, GuardSpec]:
    """Say of each pattern in a closure what it depends on."""
    guards: dict[Stream, GuardSpec] = {}
    watched_again = {s for each in closures.by_watcher.values() for s in each.members}
    for stream in application.streams:
        closure, group = closures.by_watcher.get(stream), closures.groups.get(stream)
        if closure is None and group is None and stream not in closures.switches:
            continue
        upstream = ancestors(application, (stream,)) if closure is None else closure.upstream
        if closure is None and group is not None:
            upstream = tuple(s for s in upstream if closures.groups.get(s) == group)
        guards[stream] = GuardSpec(
            streams=tuple(dict.fromkeys((stream, *upstream))),
            epoch=0 if group is None else closures.epoch,
            horizon=0 if closure is None else closure.horizon,
            window=window_length(application.pattern(stream)),
            needs_all=closure is None or closure.watches_all or stream in watched_again,
        )
    return guards


@dataclass(frozen=True, slots=True, eq=False)
class ClosureGuard:
    """What a pattern in a closure may see and emit in a batch."""

    spec: GuardSpec
    history: ThresholdHistory  # the least share of all that it depends on
    since: int  # the watermark before the batch

    @property
    def keys(self) -> WholeKeys:
        """Which keys are whole when."""
        return WholeKeys(self.history, self.spec.epoch)

    @property
    def is_whole(self) -> bool:
        """Whether nothing that it depends on was shed or evicted, as far back as is known."""
        return bool((self.history.shares >= 1).all())

    def mask(self, matcher: Matcher, ready: ReadyBatch) -> Array | None:
        """Say which events are of keys that are whole when they happen; None: all of them."""
        if self.is_whole:
            return None
        began = self._began_whole(matcher, ready)
        pieces = self._pieces(ready)
        if all(piece.share >= 1 for piece in pieces):
            return began
        hashes, mask = _key_hashes(matcher, ready), np.ones(len(ready.time), np.bool_)
        for low, high, start, _, share in pieces:
            mask[low:high] = self.keys.is_whole(hashes[low:high], start, share)
        return mask if began is None else mask & began

    def _began_whole(self, matcher: Matcher, ready: ReadyBatch) -> Array | None:
        """Say which events are not complex events that began before the stretch; None: all."""
        if BEGAN not in ready.table.table.column_names:
            return None
        began = to_column(ready.table.column(BEGAN))
        starts = np.where(began.valid, began.values, ready.time)
        return self.keys.between(starts, ready.time, _key_hashes(matcher, ready))

    def match(
        self, matcher: Matcher, state: MatchState, ready: ReadyBatch, kept: Array | None
    ) -> tuple[MatchState, list[Matches]]:
        """Match a batch, piece by piece; see `match` for the arguments."""
        if self.is_whole:
            state, matches = match(matcher, state, ready, kept)
            return state, [matches]
        found, pieces = [], self._pieces(ready)
        last = len(pieces) - 1
        for number, piece in enumerate(pieces):
            batch, mask = ready, kept
            if last:
                watermark = ready.watermark if number == last else piece.end
                batch = ready.between(piece.low, piece.high, watermark)
                mask = None if kept is None else kept[piece.low : piece.high]
            if piece.share < 1:
                state = self._cancel(matcher, state, piece)
            if self.spec.window is None and piece.low == piece.high and number < last:
                continue  # time alone ends nothing
            state, matches = match(matcher, state, batch, mask)
            state, matches = self._filter(state, matches)
            found.append(matches)
        return state, found

    def _pieces(self, ready: ReadyBatch) -> list[Piece]:
        """Cut a batch where other keys become whole."""
        times, start = ready.time, self.since
        if start == NEVER:  # nothing is open
            if not len(times):
                return [Piece(0, 0, NEVER, FOREVER, 1.0)]
            start = int(times[0])
        last = int(times[-1]) if len(times) else start
        end = max(ready.watermark, last + 1)
        if self.spec.window is None and end == FOREVER:
            end = last + 1  # nothing is open for the sake of time
        return self.keys.pieces(times, start, end, self.spec.window)

    def _cancel(self, matcher: Matcher, state: MatchState, piece: Piece) -> MatchState:
        """Cancel the partial matches of keys that are not whole any more."""
        keys = open_keys(state)
        gone = keys[~self.keys.is_whole(keys[:, 0], piece.start, piece.share)]
        return cancel(matcher, state, gone) if len(gone) else state

    def _filter(self, state: MatchState, matches: Matches) -> tuple[MatchState, Matches]:
        """Leave out what began too soon after its stretch, and count it as cancelled."""
        if self.spec.horizon == 0:
            return state, matches
        chosen = self._is_late_enough(matches)
        number = len(matches) - int(np.count_nonzero(chosen))
        timed_out = matches.timed_out
        matches = replace(select_matches(matches, chosen), timed_out=timed_out)
        if timed_out is not None:
            chosen = self._is_late_enough(timed_out)
            number += len(timed_out) - int(np.count_nonzero(chosen))
            matches = replace(matches, timed_out=select_matches(timed_out, chosen))
        if number:
            counts = state.records.counts.copy()
            counts[rec.CANCELLED] += number
            state = replace(state, records=state.records._replace(counts=counts))
        return state, matches

    def _is_late_enough(self, matches: Matches) -> Array:
        """Say which matches began when their key had been whole for long enough."""
        horizon = self.spec.horizon
        needed = (
            np.full(len(matches), BEGINNING) if horizon is None else matches.start - horizon
        )
        return self.keys.between(needed, matches.start, matches.key)


def has_evicted(before: MatchState, after: MatchState) -> bool:
    """Say whether partial matches went because there were too many."""
    return bool(after.records.counts[rec.EVICTED] > before.records.counts[rec.EVICTED])


def covered(ready: ReadyBatch, since: int) -> tuple[int, int]:
    """Say from which time to which a batch decides; before the first event nothing is shed."""
    if since == NEVER:
        since = int(ready.time[0]) if len(ready.time) else ready.watermark
    return since, ready.watermark


def types_to_keep(matcher: Matcher, signatures: Sequence[Signature], spec: GuardSpec) -> Array:
    """Say which types must all be kept for a pattern to be whole."""
    if spec.needs_all:
        return relevant_types(matcher, signatures)
    nots = ast.negated_elements(matcher.pattern.where)
    numbers = {i for i, each in enumerate(matcher.automaton.elements) if each in nots}
    symbols = map(matcher.symbol, signatures)
    return np.array([not numbers.isdisjoint(symbol) for symbol in symbols], np.bool_)


def labels_to_keep(
    matcher: Matcher, alphabet: Alphabet, spec: GuardSpec
) -> tuple[str, ...] | None:
    """Name the types that must all be kept, also those not seen yet; None: too many to list."""
    signatures = all_signatures(alphabet)
    if signatures is None:
        return None
    flags = types_to_keep(matcher, signatures, spec)
    return tuple(alphabet.label(each) for each in compress(signatures, flags))


def relevant_types(matcher: Matcher, signatures: Sequence[Signature]) -> Array:
    """Say which types a pattern can take; in a window of so many events, every one counts."""
    within = matcher.pattern.within
    if within is not None and within.unit is ast.WindowUnit.EVENTS:
        return np.ones(len(signatures), np.bool_)
    return np.array([bool(matcher.symbol(signature)) for signature in signatures], np.bool_)


def _key_hashes(matcher: Matcher, ready: ReadyBatch) -> Array:
    keys = ready.keys.get(matcher.pattern.partition_by)
    return np.zeros(len(ready.time), np.int64) if keys is None else keys[0]
