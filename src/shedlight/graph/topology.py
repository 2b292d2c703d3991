"""Who reads what: the graph of an application, followed in either direction.

All results are in order of declaration, so that two runs are the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from shedlight.graph.application import Application, OperatorSpec, Sink, Stream
from shedlight.language.ast.expression import Attribute
from shedlight.language.ast.pattern import WindowUnit


def operator_order(application: Application) -> tuple[OperatorSpec, ...]:
    """List the operators so that each comes after all that feed it.

    Raises:
        ValueError: They feed each other in a cycle; `find_cycle` says in which.
    """
    before = _feeding(application)
    try:
        names = tuple(TopologicalSorter(before).static_order())
    except CycleError as error:
        raise ValueError(f"operators feed each other: {' -> '.join(error.args[1])}") from error
    return tuple(application.operators[name] for name in names)


def find_cycle(application: Application) -> tuple[str, ...]:
    """Find operators that feed each other in a cycle, the first one named again at the end."""
    try:
        TopologicalSorter(_feeding(application)).prepare()
    except CycleError as error:
        circle = error.args[1][:-1]
        members = set(circle)
        first = circle.index(next(name for name in application.operators if name in members))
        return (*circle[first:], *circle[:first], circle[first])
    return ()


def _feeding(application: Application) -> Mapping[str, Sequence[str]]:
    """Give, for each operator, the operators that feed it."""
    return {
        spec.name: [
            s.operator
            for s in spec.inputs
            if s.operator and s.operator in application.operators
        ]
        for spec in application.operators.values()
    }


def readers(application: Application, stream: Stream) -> tuple[OperatorSpec, ...]:
    """List the operators that read a stream."""
    return tuple(spec for spec in application.operators.values() if stream in spec.inputs)


def sinks_of(application: Application, stream: Stream) -> tuple[Sink, ...]:
    """List the sinks that a stream goes to."""
    return tuple(sink for sink in application.sinks.values() if sink.takes == stream)


def operators_on(application: Application, node: str) -> tuple[OperatorSpec, ...]:
    """List the operators of a node."""
    return tuple(spec for spec in application.operators.values() if spec.node == node)


def successors(application: Application, stream: Stream) -> tuple[Stream, ...]:
    """List the patterns that see the events of a stream first-hand."""
    return tuple(s for spec in readers(application, stream) for s in spec.outputs)


def descendants(application: Application, stream: Stream) -> tuple[Stream, ...]:
    """List the patterns that a stream has any influence on, also through other patterns."""
    outputs = _read_by(application)
    reached: set[Stream] = set()
    ahead = [stream]
    while ahead:
        for spec in outputs.get(ahead.pop(), ()):
            new = [one for one in spec.outputs if one not in reached]
            reached.update(new)
            ahead += new
    return tuple(one for one in application.streams if one in reached)


def ancestors(application: Application, stream: Stream) -> tuple[Stream, ...]:
    """List the sources and patterns that have any influence on a stream."""
    reached: set[Stream] = set()
    ahead = [stream]
    while ahead:
        new = set(_inputs(application, ahead.pop())) - reached
        reached |= new
        ahead += new
    return tuple(one for one in application.streams if one in reached)


def _inputs(application: Application, stream: Stream) -> Iterable[Stream]:
    return () if stream.operator is None else application.operators[stream.operator].inputs


def _read_by(application: Application) -> Mapping[Stream, Sequence[OperatorSpec]]:
    found: dict[Stream, list[OperatorSpec]] = {}
    for spec in application.operators.values():
        for stream in spec.inputs:
            found.setdefault(stream, []).append(spec)
    return found


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
