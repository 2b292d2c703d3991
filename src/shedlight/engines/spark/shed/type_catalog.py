"""The event types of each operator of a node: one value, from its query to plans and back.

Spark counts and sheds events by the number of their type; observations, plans and the log have
labels. A catalog holds both, and which types are relevant to which pattern.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import compress

from shedlight.engines.spark.source.arrival import MAX_EXACT_TYPES
from shedlight.engines.spark.step.chain import ChainRuntime
from shedlight.engines.spark.support.placement import has_shares
from shedlight.graph import Stream
from shedlight.matching.compile.predicates import all_signatures
from shedlight.matching.compile.type_labels import OTHER


@dataclass(frozen=True)
class TypeCatalog:
    """The event types of an operator."""

    # the label of each type, by its number, empty if no condition holds; no labels at all:
    # there are too many types to number them
    labels: tuple[str, ...]
    # whether each pattern can take events of a type, by its number
    relevant: Mapping[Stream, tuple[bool, ...]]
    by_strata: bool = False  # whether keys are shed in strata, so that a plan knows them apart

    @property
    def is_numbered(self) -> bool:
        """Whether types have numbers, so that Spark counts and sheds by them."""
        return bool(self.labels)

    @cached_property
    def relevant_labels(self) -> Mapping[Stream, tuple[str, ...]]:
        """The labels of the types that each pattern can take."""
        return {
            pattern: tuple(dict.fromkeys(compress(self.labels, flags)))
            for pattern, flags in self.relevant.items()
        }

    def count_labels(self, numbers: Mapping[int, int]) -> Counter[str]:
        """Turn counts by number into counts by label."""
        counts: Counter[str] = Counter()
        for number, count in numbers.items():
            counts[self.labels[number] or OTHER] += count
        return counts


Catalogs = Mapping[str, TypeCatalog]  # the types of each operator of a node


def type_catalogs(
    chains: Iterable[ChainRuntime], strata: Container[str] = ()
) -> dict[str, TypeCatalog]:
    """Make the catalogs of all operators of a node.

    Some may shed their keys in strata; of them those do that have few types.
    """
    catalogs = {}
    for chain in chains:
        for spec, operator in zip(chain.spec.placement.operators, chain.operators, strict=True):
            signatures = all_signatures(operator.alphabet) or ()
            catalogs[spec.name] = TypeCatalog(
                tuple(map(operator.alphabet.label, signatures)),
                {
                    stream: tuple(bool(matcher.symbol(signature)) for signature in signatures)
                    for stream, matcher in zip(spec.outputs, operator.matchers, strict=True)
                },
                spec.name in strata
                and has_shares(spec, chain.spec.context.shares)
                and 0 < len(signatures) <= MAX_EXACT_TYPES,
            )
    return catalogs
