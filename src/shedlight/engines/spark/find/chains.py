"""Patterns as operator chains of the stateful step: one for each key that patterns have.

Patterns of one key share the shards of that key; those without a key have a shard of their own.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from shedlight.engines.spark.step.chain import ChainRuntime, define_chain
from shedlight.engines.spark.support.placement import ChainSpec, NodeContext, OperatorChain
from shedlight.graph import OperatorSpec, Stream
from shedlight.language import Pattern
from shedlight.language.ast.expression import Attribute
from shedlight.matching.operators.reorder import StreamInput

EVENTS = Stream("events")
"""What the rows of the DataFrame are to the chains."""

KeyGroups = tuple[tuple[tuple[Attribute, ...], Mapping[str, Pattern]], ...]
"""The keys that patterns have, each with its patterns."""


def group_by_key(patterns: Mapping[str, Pattern]) -> KeyGroups:
    """Put patterns together that partition by the same key."""
    groups: dict[tuple[Attribute, ...], dict[str, Pattern]] = {}
    for name, pattern in patterns.items():
        groups.setdefault(pattern.partition_by, {})[name] = pattern
    return tuple(groups.items())


def define_chains(
    stream: StreamInput, schema: pa.Schema, groups: KeyGroups, shards: int
) -> tuple[ChainRuntime, ...]:
    """Make a chain of one operator for the patterns of each key, which has so many shards."""
    chains, start = [], 0
    for number, (key, patterns) in enumerate(groups):
        spec = OperatorSpec(
            name=f"find{number}", node="find", inputs=(EVENTS,), patterns=patterns
        )
        size = shards if key else 1
        placement = OperatorChain((spec,), key, range(start, start + size))
        start += size
        context = NodeContext(published_streams=frozenset(spec.outputs))
        inputs = {EVENTS: (stream, schema)}
        chains.append(define_chain(ChainSpec(placement, inputs, {EVENTS: (0,)}, context)))
    return tuple(chains)


def output_columns(chains: Sequence[ChainRuntime]) -> dict[str, pa.Schema]:
    """Give the columns of the complex events of each pattern."""
    return {
        stream.name: schema
        for chain in chains
        for stream, schema in chain.definition.outputs.items()
    }
