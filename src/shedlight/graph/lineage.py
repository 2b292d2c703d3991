"""Which patterns feed which, and keys followed upstream through what patterns select."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from shedlight.graph.application import Application, OperatorSpec, Stream
from shedlight.graph.columns import Columns, stream_columns
from shedlight.graph.topology import key_name
from shedlight.language.ast import expression as ex
from shedlight.language.ast import pattern as ast
from shedlight.matching.compile.predicates import ValueTest, value_test

_SOURCE = ("source",)
_OF_ONE_EVENT = {
    ex.AggregateFunction.FIRST,
    ex.AggregateFunction.LAST,
    ex.AggregateFunction.MIN,
    ex.AggregateFunction.MAX,
}
_Path = tuple[str, ...]

Objection = Callable[[OperatorSpec], str]
"""Says why an operator's patterns do not count as having a key; nothing: they do."""


@dataclass(frozen=True, slots=True, eq=False)
class StreamGraph:
    """An application, the columns of its streams, and the patterns that feed each pattern."""

    application: Application
    columns: Mapping[Stream, Columns]
    inputs: Mapping[Stream, tuple[Stream, ...]]

    def ancestors(self, streams: Iterable[Stream]) -> tuple[Stream, ...]:
        """List patterns among streams and all patterns that feed them, as declared."""
        reached: set[Stream] = set()
        ahead = [stream for stream in streams if stream.operator]
        while ahead:
            stream = ahead.pop()
            if stream not in reached:
                reached.add(stream)
                ahead += self.inputs[stream]
        return tuple(stream for stream in self.application.streams if stream in reached)


def build_stream_graph(application: Application) -> StreamGraph:
    """Find the columns of all streams of an application, and what feeds what."""
    columns = stream_columns(application)
    inputs = {
        stream: tuple(_pattern_inputs(spec, pattern, columns))
        for spec in application.operators.values()
        for stream, pattern in zip(spec.outputs, spec.patterns.values(), strict=True)
    }
    return StreamGraph(application, columns, inputs)


def _pattern_inputs(
    spec: OperatorSpec, pattern: ast.Pattern, columns: Mapping[Stream, Columns]
) -> Iterator[Stream]:
    under = ast.elements(pattern.where)
    for stream in spec.inputs:
        takes_all = counts_events(pattern)
        if stream.operator and (takes_all or may_accept(under, stream, columns[stream])):
            yield stream


def ancestors(application: Application, streams: Iterable[Stream]) -> tuple[Stream, ...]:
    """List patterns among streams and all patterns that feed them, as declared."""
    return build_stream_graph(application).ancestors(streams)


def counts_events(pattern: ast.Pattern) -> bool:
    """Say whether a pattern has a window of so many events."""
    return pattern.within is not None and pattern.within.unit is ast.WindowUnit.EVENTS


def may_accept(under: tuple[ast.Element, ...], stream: Stream, columns: Columns) -> bool:
    """Whether one of these elements can accept an event of a stream.

    Not one that asks for another source, or for a value of a column that the stream lacks.
    """
    if stream.operator is None:
        return bool(under)

    def passes(test: ValueTest) -> bool:
        if test.column.path == _SOURCE:
            return (stream.name in test.values) is not test.negated
        return test.column.path[0] in columns

    return any(
        all(
            passes(test)
            for test in map(value_test, ex.conjuncts(ex.without_variable(element.condition)))
            if test
        )
        for element in under
    )


def follow_key(
    graph: StreamGraph, stream: Stream, objection: Objection = lambda _: ""
) -> Mapping[Stream, str]:
    """Say of all patterns upstream whether they have a pattern's key: why not, or nothing."""
    pattern = graph.application.pattern(stream)
    answers: dict[Stream, str] = {}
    key = tuple(column.path for column in pattern.partition_by)
    _follow(graph, stream, key, objection, answers)
    return answers


def _follow(
    graph: StreamGraph,
    stream: Stream,
    key: tuple[_Path, ...],
    objection: Objection,
    answers: dict[Stream, str],
) -> None:
    for before in graph.inputs[stream]:
        spec = graph.application.operators[str(before.operator)]
        pattern = spec.patterns[before.name]
        paths = tuple(_selected(pattern, path) for path in key)
        mine = tuple(column.path for column in pattern.partition_by)
        problem = objection(spec)
        if not problem and (None in paths or paths != mine):
            text = key_name([ex.Attribute("", path) for path in key])
            problem = f"{before} is not partitioned by what becomes {text} of {stream}"
        known = answers.get(before)
        answers[before] = known or problem
        if not problem and known is None:
            _follow(graph, before, mine, objection, answers)
        elif problem and not known:
            for further in graph.ancestors(graph.inputs[before]):
                answers[further] = answers.get(further) or problem


def _selected(pattern: ast.Pattern, path: _Path) -> _Path | None:
    """Find the attribute of the events that becomes an attribute of complex events."""
    if pattern.each and not pattern.select:
        return path
    for item in ast.selected_items(pattern):
        if item.name == path[0]:
            match item.expression:
                case ex.WholeEvent():
                    return path[1:] or None
                case ex.Attribute(_, inner):
                    return (*inner, *path[1:])
                case ex.Aggregate(function, _, inner) if function in _OF_ONE_EVENT:
                    return (*inner, *path[1:])
    return None


def join_groups(sets: Iterable[tuple[Stream, ...]]) -> Mapping[Stream, str]:
    """Join sets of patterns that have one in common, and name each group by its first."""
    groups: dict[Stream, str] = {}
    for joined in sets:
        old = {groups[stream] for stream in joined if stream in groups}
        name = min(old, default=f"key of {joined[0]}")
        groups |= dict.fromkeys(joined, name)
        groups |= {stream: name for stream, group in groups.items() if group in old}
    return groups
