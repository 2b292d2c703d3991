"""Operator chains and their shards: which operators of a node run in which shards.

Operators of a node form a chain if one reads the other, or if both read the same stream and
partition by the same keys; chains run side by side, and read a stream each for itself. A chain
whose patterns all partition by the same key, and select it where operators of the chain read
them, has several shards, and the hash of its key says which shard an event goes to; any other
chain has one. Shards are numbered through the node.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

import pyarrow as pa

from shedlight.engines.spark.support.sample_spec import SampleSpec, find_sample
from shedlight.engines.spark.support.versions import Versions
from shedlight.errors import ApplicationError
from shedlight.graph import Application, OperatorSpec, Stream, operator_order
from shedlight.graph.closures import find_closures
from shedlight.graph.lineage import ancestors
from shedlight.graph.topology import longest_windows
from shedlight.language.ast.expression import Attribute
from shedlight.language.ast.pattern import Element, Group, Or, Part, Pattern, Repeat
from shedlight.matching.operators.reorder import StreamInput
from shedlight.shedding.guard import GuardSpec, find_guards
from shedlight.shedding.shares import Shares


@dataclass(frozen=True, slots=True)
class OperatorChain:
    """Operators of a node that share shards."""

    operators: tuple[OperatorSpec, ...]  # each after those that feed it
    key: tuple[Attribute, ...]  # says which shard an event goes to; empty: there is one
    shards: range  # the numbers of its shards

    @property
    def outputs(self) -> tuple[Stream, ...]:
        """The complex events of its patterns."""
        return tuple(stream for spec in self.operators for stream in spec.outputs)

    @property
    def external(self) -> tuple[Stream, ...]:
        """The streams that it reads and does not make itself."""
        own = set(self.outputs)
        read = dict.fromkeys(stream for spec in self.operators for stream in spec.inputs)
        return tuple(stream for stream in read if stream not in own)

    def readers(self, stream: Stream) -> tuple[OperatorSpec, ...]:
        """List its operators that read a stream."""
        return tuple(spec for spec in self.operators if stream in spec.inputs)


def node_order(application: Application) -> tuple[str, ...]:
    """List the nodes that have operators, each after those that feed it; no circles."""
    specs = application.operators
    feeding: dict[str, set[str]] = {spec.node: set() for spec in specs.values()}
    for spec in specs.values():
        fed_by = {specs[stream.operator].node for stream in spec.inputs if stream.operator}
        feeding[spec.node] |= fed_by - {spec.node}
    try:
        return tuple(TopologicalSorter(feeding).static_order())
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise ApplicationError(
            f"nodes feed each other: {circle}; on Spark a node is one query, so put the "
            "operators that are in this circle on one node, or on more of them"
        ) from error


def operator_chains(
    application: Application, node: str, shards: int, first: int = 0
) -> tuple[OperatorChain, ...]:
    """Find the operator chains of a node; one with a key has so many shards.

    They are numbered from the first on, for which there may have been others before.
    """
    here = [spec for spec in operator_order(application) if spec.node == node]
    chains: list[OperatorChain] = []
    start = first
    for operators in _connected(here):
        key = _common_key(operators)
        number = shards if key else 1
        chains.append(OperatorChain(tuple(operators), key, range(start, start + number)))
        start += number
    return tuple(chains)


def _connected(specs: Sequence[OperatorSpec]) -> list[list[OperatorSpec]]:
    """Put operators together that feed each other, or read one stream by the same keys."""
    made = {stream for spec in specs for stream in spec.outputs}
    feeding = _joined(specs, lambda spec: made & {*spec.inputs, *spec.outputs})
    keys = {spec.name: _keys(group) for group in feeding for spec in group}
    return _joined(
        specs, lambda spec: {(s, keys[spec.name]) for s in (*spec.inputs, *spec.outputs)}
    )


def _joined(
    specs: Sequence[OperatorSpec], marks_of: Callable[[OperatorSpec], set[Any]]
) -> list[list[OperatorSpec]]:
    """Put operators together that have a mark in common, each list in the order given."""
    components: list[set[Any]] = []
    for spec in specs:
        marks = marks_of(spec)
        apart = [one for one in components if one.isdisjoint(marks)]
        joined = marks.union(*(one for one in components if not one.isdisjoint(marks)))
        components = [*apart, joined]
    return [
        [spec for spec in specs if not component.isdisjoint(marks_of(spec))]
        for component in components
    ]


def _keys(operators: Iterable[OperatorSpec]) -> frozenset[tuple[Attribute, ...]]:
    patterns = (pattern for spec in operators for pattern in spec.patterns.values())
    return frozenset(pattern.partition_by for pattern in patterns)


def _common_key(operators: Sequence[OperatorSpec]) -> tuple[Attribute, ...]:
    """Find the key of operators that can be divided by it; empty: they cannot."""
    keys = _keys(operators)
    key = next(iter(keys)) if len(keys) == 1 else ()
    read = {stream for spec in operators for stream in spec.inputs}
    within = (
        spec.patterns[stream.name]
        for spec in operators
        for stream in spec.outputs
        if stream in read
    )
    return key if all(_has_key(pattern, key) for pattern in within) else ()


def _has_key(pattern: Pattern, key: tuple[Attribute, ...]) -> bool:
    """Say whether complex events of a pattern are of the key of the events that they are of.

    They have it under its own name, from elements that no match can be without.
    """
    if pattern.each and not pattern.select:
        return True
    bound = {""} if pattern.each else set(_bound(pattern.where))
    found = {
        item.name: item.expression.path
        for item in pattern.select
        if isinstance(item.expression, Attribute) and item.expression.variable in bound
    }
    return all(len(each.path) == 1 and found.get(each.column) == each.path for each in key)


def _bound(part: Part) -> Iterator[str]:
    """List the variables of elements that have an event in every match."""
    if isinstance(part, Element):
        yield part.variable
    elif isinstance(part, Repeat):
        yield from _bound(part.part) if part.least else ()
    elif isinstance(part, Group) and not isinstance(part, Or):
        for each in part.parts:
            yield from _bound(each)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """What the chains of all nodes have to know of each other; it travels to the workers."""

    # what patterns keep at first; a pattern that is not in it never sheds
    shares: Shares = field(default_factory=dict)
    # the longest window of each key, for shedding by key
    windows: Mapping[str, int] = field(default_factory=dict)
    # the patterns whose complex events list the ids of their events
    with_event_ids: frozenset[Stream] = frozenset()
    published_streams: frozenset[Stream] = frozenset()  # what other nodes or sinks read
    published_watermarks: frozenset[str] = frozenset()  # of operators that other nodes read
    late: frozenset[str] = frozenset()  # the operators whose late events go to a side output
    timed_out: frozenset[Stream] = frozenset()  # whose timed-out partial matches are read
    # what patterns in protected closures depend on: it may be shed, or evicted by a cap
    guards: Mapping[Stream, GuardSpec] = field(default_factory=dict)
    by_channel: frozenset[Stream] = frozenset()  # what gets to other nodes by a channel
    # the patterns upstream of each operator, and its own, that some guard depends on
    guarded_upstream: Mapping[str, tuple[Stream, ...]] = field(default_factory=dict)
    # how long a guard looks back at most, in microseconds; None: for ever
    lookback: int | None = 0
    sample: SampleSpec = field(default_factory=SampleSpec)  # the keys that are never shed
    versions: Versions = field(default_factory=Versions)  # since when patterns are as they are

    def comes_once(self, spec: OperatorSpec) -> bool:
        """Say whether nothing that an operator reads can come twice, as by a channel."""
        return all(s.operator and s not in self.by_channel for s in spec.inputs)

    @property
    def guards_shed(self) -> bool:
        """Whether anything that a guard depends on may be shed."""
        needed = {stream for guard in self.guards.values() for stream in guard.streams}
        return not needed.isdisjoint(self.shares)


def node_context(application: Application, shares: Shares) -> NodeContext:
    """Find what the nodes of an application have to know of each other."""
    specs = application.operators
    sunk = frozenset(sink.stream for sink in application.sinks.values())
    crossing = {
        stream
        for spec in specs.values()
        for stream in spec.inputs
        if stream.operator and specs[stream.operator].node != spec.node
    }
    closures = find_closures(application)
    guards = find_guards(application, closures)
    reported = {*crossing, *guards}  # watermarks carry what guards need
    return NodeContext(
        shares=shares,
        windows=longest_windows(application),
        with_event_ids=sunk,
        published_streams=sunk | crossing,
        published_watermarks=frozenset(str(stream.operator) for stream in reported),
        late=frozenset(
            spec.name
            for spec in specs.values()
            for stream in spec.inputs
            if stream.operator is None and application.sources[stream.name].late
        ),
        timed_out=application.timed_out,
        guards=guards,
        by_channel=frozenset(crossing if application.channels else ()),
        guarded_upstream=_guarded_upstream(application, guards),
        lookback=_lookback(guards.values()),
        sample=find_sample(application, closures, shares),
    )


def _guarded_upstream(
    application: Application, guards: Mapping[Stream, GuardSpec]
) -> Mapping[str, tuple[Stream, ...]]:
    needed = {stream for guard in guards.values() for stream in guard.streams}
    return {
        spec.name: tuple(s for s in ancestors(application, spec.outputs) if s in needed)
        for spec in application.operators.values()
        if needed
    }


def _lookback(guards: Iterable[GuardSpec]) -> int | None:
    """Add up all windows: no complex event goes back further."""
    total = 0
    for guard in guards:
        if guard.window is None or guard.horizon is None:
            return None
        total += guard.window + guard.horizon
    return total


@dataclass(frozen=True, slots=True)
class EarlierShards:
    """The shards that a chain had before it was divided anew."""

    shards: range  # their numbers
    # the shards that sent the watermarks of each external stream then
    origins: Mapping[Stream, tuple[int, ...]]
    folder: str  # where their states are, within that of a node's


@dataclass(frozen=True, slots=True)
class ChainSpec:
    """What all shards of a chain have to know; it travels to the workers."""

    placement: OperatorChain  # the operators, and their shards
    inputs: Mapping[Stream, tuple[StreamInput, pa.Schema]]  # external streams, with columns
    origins: Mapping[Stream, tuple[int, ...]]  # the shards that send the watermarks of each
    context: NodeContext = field(default_factory=NodeContext)
    earlier: EarlierShards | None = None  # whose states a new shard begins with


def has_shares(spec: OperatorSpec, shares: Shares) -> bool:
    """Say whether a plan has shares for any pattern of an operator."""
    return any(stream in shares for stream in spec.outputs)


def is_passthrough(chain: ChainSpec, stream: Stream) -> bool:
    """Say whether complex events of another node come as they were packed there.

    They do where none is shed and all go to one shard.
    """
    if stream.operator is None or len(chain.placement.shards) > 1:
        return False
    return not any(
        has_shares(spec, chain.context.shares) for spec in chain.placement.readers(stream)
    )
