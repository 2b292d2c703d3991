"""Keep flags: which patterns keep an event, as it carries it from the JVM or by its hash.

Patterns that keep the unshed sample have a second flag: whether the plan alone keeps the event.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from shedlight.engines.spark.support.placement import ChainSpec, has_shares
from shedlight.engines.spark.support.plan_store import WORD
from shedlight.engines.spark.support.sample_spec import BY_PLAN, EMITTED, FOUND
from shedlight.graph import OperatorSpec, Stream
from shedlight.graph.topology import key_name
from shedlight.matching.jit import Array
from shedlight.matching.operators.cep_operator import CepOperator, Masks
from shedlight.matching.operators.step import ReadyBatch
from shedlight.shedding.found_keys import NOTHING, FoundKeys
from shedlight.shedding.guard import ClosureGuard
from shedlight.shedding.shares import Shares
from shedlight.shedding.shedder import event_hashes, keeps_all, kept_events, key_hashes
from shedlight.shedding.strata import EventHashes, kept_by_strata
from shedlight.shedding.thresholds import salted_hashes

KEPT = "#kept"  # what the name of such a column begins with


def flag_names(operator: str, patterns: int) -> list[str]:
    """Name the columns that say which patterns of an operator keep an event."""
    return [f"{KEPT}{number} {operator}" for number in range(-(-patterns // WORD))]


def flag_types(patterns: int) -> list[pa.DataType]:
    """Give the data types of these columns: narrow ones, for all events carry them."""
    words = -(-patterns // WORD)
    left = patterns - (words - 1) * WORD
    narrow = next((bits for bits in (8, 16, 32) if left < bits), 64)
    last = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[narrow]
    return [pa.int64()] * (words - 1) + [last]


def flag_streams(chain: ChainSpec, spec: OperatorSpec) -> tuple[Stream, ...]:
    """List the patterns of an operator's flags: all of them, then again the sample's."""
    return (*spec.outputs, *chain.context.sample.patterns_of(spec))


def own_flags(chain: ChainSpec, spec: OperatorSpec) -> list[str]:
    """Name the flags of an operator in their order, if its events carry any."""
    if not has_shares(spec, chain.context.shares):
        return []
    streams = flag_streams(chain, spec)
    kinds = ["kept"] * len(spec.outputs) + ["by plan"] * (len(streams) - len(spec.outputs))
    return [f"{stream.name} {kind}" for stream, kind in zip(streams, kinds, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class KeepMasks:
    """Which events of a batch the patterns of an operator get to see."""

    kept: Masks = field(default_factory=dict)
    # which of them by the plan alone; of patterns that keep the unshed sample
    by_plan: Masks = field(default_factory=dict)
    # which events there are without what only shadows found; None: all
    emitted: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class HashPlan:
    """What patterns keep where it is decided here, and what is known of keys in strata."""

    shares: Shares
    found: FoundKeys = NOTHING


def keep_masks(
    chain: ChainSpec,
    spec: OperatorSpec,
    operator: CepOperator,
    ready: ReadyBatch,
    plan: HashPlan,
    sampled: Masks | None = None,
) -> KeepMasks:
    """Say which events each pattern gets to see: as they carry it, or by their hashes here.

    `sampled` says which events are of the unshed sample, by pattern.
    """
    decided = KeepMasks()
    if has_shares(spec, chain.context.shares):
        decided = _decided(chain, spec, operator, ready, plan, sampled or {})
    if not chain.context.sample.reads_marked(spec):
        return decided
    found = ready.table.column(FOUND).fill_null(EMITTED | BY_PLAN).to_numpy()
    emitted, by_plan = found & EMITTED > 0, found & BY_PLAN > 0
    return KeepMasks(
        _narrowed(decided.kept, spec.patterns, emitted),
        _narrowed(decided.by_plan, sampled or {}, by_plan),
        None if emitted.all() else emitted,
    )


def _narrowed(masks: Masks, patterns: Iterable[str], mask: Array) -> Masks:
    if mask.all():
        return masks
    return {name: masks[name] & mask if name in masks else mask for name in patterns}


def _decided(
    chain: ChainSpec,
    spec: OperatorSpec,
    operator: CepOperator,
    ready: ReadyBatch,
    plan: HashPlan,
    sampled: Masks,
) -> KeepMasks:
    streams = flag_streams(chain, spec)
    words = [ready.table.column(name) for name in flag_names(spec.name, len(streams))]
    carries = np.asarray(words[0].is_valid()) if words[0].null_count else None
    kept, by_plan = dict[str, Array](), dict[str, Array]()
    for number, stream in enumerate(streams):
        with_sample = number < len(spec.outputs)
        mask: Array | None = None
        if carries is None or carries.any():
            mask = _flags(words[number // WORD], number % WORD)
        if carries is not None:
            here = _masks_by_hash(chain, stream, operator, ready, plan)
            if with_sample and stream.name in sampled:
                here = here | sampled[stream.name]
            mask = here if mask is None else np.where(carries, mask, here)
        if mask is not None and not mask.all():
            (kept if with_sample else by_plan)[stream.name] = mask
    return KeepMasks(kept, by_plan)


def since_begun(chain: ChainSpec, spec: OperatorSpec, ready: ReadyBatch) -> Masks:
    """Say which events patterns see that came with a change: none from before they began."""
    began = chain.context.versions.began(spec.outputs)
    masks = {stream.name: ready.time >= time for stream, time in began.items()}
    return {name: mask for name, mask in masks.items() if not mask.all()}


def narrow(masks: KeepMasks, by: Masks) -> KeepMasks:
    """Have patterns see no more than these events."""
    if not by:
        return masks
    kept = {
        name: masks.kept[name] & mask if name in masks.kept else mask
        for name, mask in by.items()
    }
    by_plan = {
        name: mask & by[name] if name in by else mask for name, mask in masks.by_plan.items()
    }
    return replace(masks, kept={**masks.kept, **kept}, by_plan=by_plan)


def with_guards(
    operator: CepOperator, ready: ReadyBatch, masks: Masks, guards: Mapping[str, ClosureGuard]
) -> Masks:
    """Have patterns in protected closures see only keys that are whole."""
    guarded = dict(masks)
    for matcher in operator.matchers:
        if matcher.name in guards:
            whole = guards[matcher.name].mask(matcher, ready)
            mask = guarded.get(matcher.name)
            if whole is not None:
                guarded[matcher.name] = whole if mask is None else mask & whole
    return guarded


def _flags(word: pa.ChunkedArray, bit: int) -> Array | None:
    """Read the flags of a pattern; None if all events have it."""
    words = (word.fill_null(0) if word.null_count else word).to_numpy()
    if np.bitwise_and.reduce(words) >> bit & 1:
        return None
    return np.asarray(words >> bit & 1, np.bool_)


def _masks_by_hash(
    chain: ChainSpec,
    stream: Stream,
    operator: CepOperator,
    ready: ReadyBatch,
    plan: HashPlan,
) -> Array:
    """Say which events a pattern keeps by their hashes, or by those of their keys."""
    shares = plan.shares.get(stream)
    if shares is None:
        return np.ones(len(ready.time), np.bool_)
    matcher = next(one for one in operator.matchers if one.name == stream.name)
    if shares.strata:
        key = matcher.pattern.partition_by
        window = chain.context.windows.get(key_name(key), 1)
        by_stratum = EventHashes(
            ready.keys[key][0],
            key_hashes(ready.table, key, ready.time, window),
            event_hashes(ready.table, operator.ids),
            plan.found.opened(stream.name),
        )
        return kept_by_strata(
            shares, plan.found.table, ready.types, ready.numbers, by_stratum
        ).mask
    if keeps_all(shares, ready.types, ready.numbers):
        return np.ones(len(ready.time), np.bool_)
    key = matcher.pattern.partition_by if shares.by_key else ()
    guard = chain.context.guards.get(stream)
    if key and guard is not None and guard.epoch:
        hashes = salted_hashes(ready.keys[key][0], ready.time // guard.epoch)
    elif key:
        hashes = key_hashes(
            ready.table, key, ready.time, chain.context.windows.get(key_name(key), 1)
        )
    else:
        hashes = event_hashes(ready.table, operator.ids)
    return kept_events(shares, ready.types, ready.numbers, hashes).mask
