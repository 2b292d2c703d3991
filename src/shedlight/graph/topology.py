"""Who reads what: the graph of an application, followed in either direction.

All results are in order of declaration, so that two runs are the same.
"""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from shedlight.graph.application import Application, OperatorSpec, Stream
from shedlight.language.ast.expression import Attribute
from shedlight.language.ast.pattern import Element, Pattern, WindowUnit, elements


def operator_order(application: Application) -> tuple[OperatorSpec, ...]:
    """List the operators so that each comes after all that feed it.

    Raises:
        ValueError: They feed each other in a cycle; `find_cycle` says in which.
    """
    try:
        names = tuple(TopologicalSorter(_feeders(application)).static_order())
    except CycleError as error:
        raise ValueError(f"operators feed each other: {' -> '.join(error.args[1])}") from error
    return tuple(application.operators[name] for name in names)


def find_cycle(application: Application) -> tuple[str, ...]:
    """Find operators that feed each other in a cycle, the first one named again at the end."""
    try:
        TopologicalSorter(_feeders(application)).prepare()
    except CycleError as error:
        cycle = error.args[1][:-1]
        first = cycle.index(next(name for name in application.operators if name in cycle))
        return (*cycle[first:], *cycle[:first], cycle[first])
    return ()


def _feeders(application: Application) -> Mapping[str, Sequence[str]]:
    """Give, for each operator, the operators that feed it."""
    operators = application.operators
    return {
        name: [s.operator for s in spec.inputs if s.operator and s.operator in operators]
        for name, spec in operators.items()
    }


def selected_key(pattern: Pattern) -> tuple[str, ...]:
    """Name the columns of complex events with the partition key; none if one is missing."""
    if pattern.each and not pattern.select:
        return tuple(key.column for key in pattern.partition_by)
    selected = {
        item.expression.path: item.name
        for item in reversed(pattern.select)
        if isinstance(item.expression, Attribute)
    }
    names = [selected.get(key.path) for key in pattern.partition_by]
    return () if None in names else tuple(filter(None, names))


def readers(application: Application, stream: Stream) -> tuple[OperatorSpec, ...]:
    """List the operators that read a stream."""
    return tuple(spec for spec in application.operators.values() if stream in spec.inputs)


def operators_on(application: Application, node: str) -> tuple[OperatorSpec, ...]:
    """List the operators of a node."""
    return tuple(spec for spec in application.operators.values() if spec.node == node)


def descendants(application: Application, stream: Stream) -> tuple[Stream, ...]:
    """List the patterns that a stream has any influence on, also through other patterns."""
    outputs: dict[Stream, list[Stream]] = {}
    for spec in application.operators.values():
        for read in spec.inputs:
            outputs.setdefault(read, []).extend(spec.outputs)
    reached: set[Stream] = set()
    ahead = [stream]
    while ahead:
        new = set(outputs.get(ahead.pop(), ())) - reached
        reached |= new
        ahead += new
    return tuple(s for s in application.streams if s in reached)


def list_elements(spec: OperatorSpec) -> tuple[Element, ...]:
    """List the elements of all patterns of an operator."""
    return tuple(e for pattern in spec.patterns.values() for e in elements(pattern.where))


def key_name(key: Sequence[Attribute]) -> str:
    """Name a key."""
    return ", ".join(map(str, key))


_WITHOUT_TIME = 60_000_000  # stands for a window of events, which has no length in time


def longest_windows(application: Application) -> Mapping[str, int]:
    """Find the longest window of all patterns of each key, in microseconds."""
    longest: dict[str, int] = {}
    for spec in application.operators.values():
        for pattern in spec.patterns.values():
            if pattern.within:
                is_time = pattern.within.unit is WindowUnit.TIME
                key = key_name(pattern.partition_by)
                longest[key] = max(longest.get(key, 0), pattern.within.length if is_time else 0)
    return {key: length or _WITHOUT_TIME for key, length in longest.items()}
