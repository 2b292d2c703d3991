"""Keys that patterns are partitioned by: their names, and how long windows over them are."""

from collections.abc import Mapping, Sequence

from shedlight.graph.application import Application
from shedlight.language.ast.expression import Attribute
from shedlight.language.ast.pattern import WindowUnit


def key_name(key: Sequence[Attribute]) -> str:
    """Name a key."""
    return ", ".join(map(str, key))


def longest_windows(application: Application) -> Mapping[str, int]:
    """Find the longest window of all patterns of each key, in microseconds."""
    longest: dict[str, int] = {}
    for spec in application.operators.values():
        for pattern in spec.patterns.values():
            if pattern.within and pattern.within.span is WindowUnit.TIME:
                key = key_name(pattern.partition_by)
                longest[key] = max(longest.get(key, 1), pattern.within.length)
    return longest
