"""The unshed sample as the nodes of an application have to know it.

A complex event that another operator of the sample reads says how it was found: as it is
emitted, with the sample's keys unshed, or with the plan's mask alone, or in both ways. So one
stream carries what the matching proper reads, and what shadows read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shedlight.graph import Application, OperatorSpec, Stream
from shedlight.graph.closures import Closures
from shedlight.graph.sampled import find_sampled_sinks
from shedlight.language.ast.expression import Attribute
from shedlight.matching.jit import Array
from shedlight.shedding.shares import Shares
from shedlight.shedding.unshed_sample import choose_keys

FOUND = "#found"  # the column that says how a complex event was found, by two flags
EMITTED, BY_PLAN = 1, 2
_FOUND_FIELD = pa.field(FOUND, pa.int8())


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSpec:
    """Which patterns keep the sample's keys; it travels to the workers."""

    share: float = 0.0  # of the keys; 0: there is no sample
    # the patterns that keep them, with the group of patterns that each has its key in common
    # with
    groups: Mapping[Stream, str] = field(default_factory=dict)
    sunk: frozenset[Stream] = frozenset()  # those whose results a sink gets
    marked: frozenset[Stream] = frozenset()  # those whose complex events say how they are found

    def patterns_of(self, spec: OperatorSpec) -> tuple[Stream, ...]:
        """List the patterns of an operator that keep the sample."""
        return tuple(stream for stream in spec.outputs if stream in self.groups)

    def numbers_by_key(
        self, spec: OperatorSpec
    ) -> Mapping[tuple[Attribute, ...], tuple[int, ...]]:
        """Give the numbers of these patterns among those of the operator, by their keys."""
        numbers: dict[tuple[Attribute, ...], tuple[int, ...]] = {}
        for number, stream in enumerate(spec.outputs):
            if stream in self.groups:
                key = spec.patterns[stream.name].partition_by
                numbers[key] = (*numbers.get(key, ()), number)
        return numbers

    def reads_marked(self, spec: OperatorSpec) -> bool:
        """Say whether an operator reads complex events that say how they were found."""
        return not self.marked.isdisjoint(spec.inputs)

    def choose(self, hashes: Array, heavy: Array) -> Array:
        """Say which keys are in the sample, by their hashes; heavy hitters are not."""
        chosen = choose_keys(hashes, self.share)
        if len(heavy):
            chosen[chosen] = ~np.isin(hashes[chosen], heavy)
        return chosen


def find_sample(application: Application, closures: Closures, shares: Shares) -> SampleSpec:
    """Find which patterns keep the sample: those of sinks to which something may be shed."""
    share = application.unshed_sample
    if not share or not shares:
        return SampleSpec()
    sinks = find_sampled_sinks(application, closures)
    shed = {group for stream, group in sinks.groups.items() if stream in shares}
    groups = {stream: group for stream, group in sinks.groups.items() if group in shed}
    return SampleSpec(
        share=share,
        groups=groups,
        sunk=frozenset(
            stream for n in sinks.patterns if (stream := application.sinks[n].stream) in groups
        ),
        marked=frozenset(
            stream
            for spec in application.operators.values()
            if any(output in groups for output in spec.outputs)
            for stream in spec.inputs
            if stream in groups
        ),
    )


def with_found(schema: pa.Schema) -> pa.Schema:
    """Add the column to those of complex events, or of an operator that reads some."""
    return schema.append(_FOUND_FIELD)


def without_found(schema: pa.Schema) -> pa.Schema:
    """Leave the column out: it is nothing that a pattern can ask for."""
    return pa.schema([column for column in schema if column.name != FOUND])
