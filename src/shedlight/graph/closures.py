"""Protected closures: what must be complete for a pattern to claim that something is absent.

A NOT, a window of so many events and a sink of what timed out *watch* streams: an event there
that was only shed would be taken for absent. So all that goes into what a pattern watches, up
to the sources, is kept whole: always, or by a key that all of it has in common, or not at all,
and then the pattern emits nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from shedlight.graph.application import Application, OperatorSpec, ShedBy, Stream
from shedlight.graph.columns import Columns, stream_columns
from shedlight.graph.topology import key_name
from shedlight.language.ast import expression as ex
from shedlight.language.ast import pattern as ast
from shedlight.matching.compile.predicates import ValueTest, value_test

EPOCH_WINDOWS = 40
"""For so many windows the same keys are kept: a change of keys costs what is open then."""

_WITHOUT_TIME = 60_000_000  # stands for a window of events, which has no length
_SOURCE = ("source",)
_OF_ONE_EVENT = {
    ex.AggregateFunction.FIRST,
    ex.AggregateFunction.LAST,
    ex.AggregateFunction.MIN,
    ex.AggregateFunction.MAX,
}
_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Graph:
    """An application, and the columns of its streams."""

    application: Application
    columns: Mapping[Stream, Columns]

    def inputs(self, stream: Stream) -> tuple[Stream, ...]:
        """List the patterns that feed a pattern."""
        spec = self.application.operators[str(stream.operator)]
        pattern = spec.patterns[stream.name]
        under = ast.elements(pattern.where)
        return tuple(
            each
            for each in spec.inputs
            if each.operator
            and (_counts_events(pattern) or _may_accept(under, each, self.columns[each]))
        )

    def ancestors(self, streams: Iterable[Stream]) -> tuple[Stream, ...]:
        """List patterns among streams and all patterns that feed them, as declared."""
        reached: set[Stream] = set()
        ahead = [stream for stream in streams if stream.operator]
        while ahead:
            stream = ahead.pop()
            if stream not in reached:
                reached.add(stream)
                ahead += self.inputs(stream)
        return tuple(stream for stream in self.application.streams if stream in reached)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """What a pattern watches, through which patterns, and how it can be shed."""

    watcher: Stream  # the pattern
    reasons: tuple[str, ...]  # why: a NOT, a window of events, a sink of what timed out
    watches_all: bool  # whether all that the watcher uses is watched, or what is under NOT
    watched: tuple[Stream, ...]  # the streams that it watches, sources among them
    members: tuple[Stream, ...]  # the patterns upstream that must be complete
    # other patterns upstream that have the key in common, so that a key is kept by all or none
    feeders: tuple[Stream, ...] = ()
    by_key: bool = False  # whether all of it is shed by a common key
    no_key: str = ""  # why not
    # for how long before a match the closure must have been whole, in microseconds: the sum of
    # the windows upstream; None: from the beginning on, for a window upstream has no length
    horizon: int | None = 0

    @property
    def upstream(self) -> tuple[Stream, ...]:
        """The patterns whose shares decide what the watcher may emit."""
        return (*self.members, *self.feeders)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closures:
    """All protected closures of an application."""

    by_watcher: Mapping[Stream, Closure] = field(default_factory=dict)
    # the group of each pattern that is shed by a key in common with others: one hash for all
    groups: Mapping[Stream, str] = field(default_factory=dict)
    # how long the hashes of these keys are salted alike, in microseconds
    epoch: int = 1
    # for each pattern that is whole or not, the watchers that need it; they are on or off
    switches: Mapping[Stream, tuple[Stream, ...]] = field(default_factory=dict)

    @property
    def feeders(self) -> frozenset[Stream]:
        """The patterns that have a key in common with a watcher and need not be whole."""
        bound = {s for c in self.by_watcher.values() for s in (c.watcher, *c.members)}
        return frozenset(stream for stream in self.groups if stream not in bound)


def find_closures(application: Application) -> Closures:
    """Find the closure of each pattern that watches something."""
    graph = _Graph(application, stream_columns(application))
    closures = {
        stream: _closure(graph, spec, stream, reasons)
        for spec in application.operators.values()
        for stream in spec.outputs
        if (reasons := tuple(_reasons(application, stream)))
    }
    if not closures:
        return Closures()
    groups = _groups(closures)
    windows = [window_length(application.pattern(stream)) or 0 for stream in groups]
    switches: dict[Stream, list[Stream]] = {}
    for closure in closures.values():
        for stream in () if closure.by_key else (closure.watcher, *closure.members):
            switches.setdefault(stream, []).append(closure.watcher)
    return Closures(
        by_watcher=closures,
        groups=groups,
        epoch=EPOCH_WINDOWS * (max(windows, default=0) or _WITHOUT_TIME),
        switches={stream: tuple(watchers) for stream, watchers in switches.items()},
    )


def _reasons(application: Application, stream: Stream) -> Iterator[str]:
    pattern = application.pattern(stream)
    if ast.negated_elements(pattern.where):
        yield "a NOT"
    if _counts_events(pattern):
        yield f"WITHIN {pattern.within}"
    if stream in application.timed_out:
        yield "a sink of what timed out"


def _counts_events(pattern: ast.Pattern) -> bool:
    return pattern.within is not None and pattern.within.unit is ast.WindowUnit.EVENTS


def window_length(pattern: ast.Pattern) -> int | None:
    """Give the window in microseconds; None if it is one of events."""
    if _counts_events(pattern):
        return None
    return pattern.within.length if pattern.within else 0


def _closure(
    graph: _Graph, spec: OperatorSpec, stream: Stream, reasons: tuple[str, ...]
) -> Closure:
    pattern = spec.patterns[stream.name]
    watches_all = reasons != ("a NOT",)
    part = pattern.where
    under = ast.elements(part) if watches_all else ast.negated_elements(part)
    watched = tuple(
        s
        for s in spec.inputs
        if _counts_events(pattern) or _may_accept(under, s, graph.columns[s])
    )
    members = graph.ancestors(watched)
    horizon = _horizon(graph, watched)
    keyed, problem = _keyed(graph, stream)
    if not problem:
        problem = next((why for s in members if (why := keyed.get(s, ""))), "")
    if not problem and horizon is None:
        problem = "a window of events upstream has no length in time"
    others = [s for s in graph.ancestors(spec.inputs) if s not in members]
    return Closure(
        watcher=stream,
        reasons=reasons,
        watches_all=watches_all,
        watched=watched,
        members=members,
        feeders=() if problem else tuple(s for s in others if keyed.get(s) == ""),
        by_key=not problem,
        no_key=problem,
        horizon=horizon,
    )


def _may_accept(under: tuple[ast.Element, ...], stream: Stream, columns: Columns) -> bool:
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


def _horizon(graph: _Graph, streams: tuple[Stream, ...]) -> int | None:
    """Add up the windows on the longest way upstream; None if one has no length."""
    longest = 0
    for stream in streams:
        if stream.operator is None:
            continue
        window = window_length(graph.application.pattern(stream))
        before = _horizon(graph, graph.inputs(stream))
        if window is None or before is None:
            return None
        longest = max(longest, window + before)
    return longest


# Keys, followed upstream through what patterns select


def _keyed(graph: _Graph, stream: Stream) -> tuple[dict[Stream, str], str]:
    """Say of all patterns upstream whether they have a pattern's key: why not, or nothing.

    The second is why the pattern itself is not shed by key.
    """
    spec = graph.application.operators[str(stream.operator)]
    key = spec.patterns[stream.name].partition_by
    if not key:
        return {}, f"{stream} has no PARTITION BY"
    if spec.shed_by is ShedBy.EVENT:
        return {}, f"operator {spec.name} has shed_by: event"
    answers: dict[Stream, str] = {}
    _follow(graph, stream, tuple(column.path for column in key), answers)
    return answers, ""


def _follow(
    graph: _Graph, stream: Stream, key: tuple[_Path, ...], answers: dict[Stream, str]
) -> None:
    for before in graph.inputs(stream):
        spec = graph.application.operators[str(before.operator)]
        pattern = spec.patterns[before.name]
        paths = tuple(_selected(pattern, path) for path in key)
        mine = tuple(column.path for column in pattern.partition_by)
        problem = ""
        if spec.shed_by is ShedBy.EVENT:
            problem = f"operator {spec.name} has shed_by: event"
        elif None in paths or paths != mine:
            text = key_name([ex.Attribute("", path) for path in key])
            problem = f"{before} is not partitioned by what becomes {text} of {stream}"
        answers[before] = answers.get(before) or problem
        if not problem:
            _follow(graph, before, mine, answers)
        else:
            for further in graph.ancestors(graph.inputs(before)):
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


def ancestors(application: Application, streams: Iterable[Stream]) -> tuple[Stream, ...]:
    """List patterns among streams and all patterns that feed them, as declared."""
    return _Graph(application, stream_columns(application)).ancestors(streams)


def _groups(closures: Mapping[Stream, Closure]) -> Mapping[Stream, str]:
    """Join patterns that are shed by keys in common, and name each group by its first."""
    groups: dict[Stream, str] = {}
    for closure in closures.values():
        if closure.by_key:
            joined = (closure.watcher, *closure.upstream)
            old = {groups[stream] for stream in joined if stream in groups}
            name = min(old, default=f"key of {closure.watcher}")
            groups |= dict.fromkeys(joined, name)
            groups |= {stream: name for stream, group in groups.items() if group in old}
    return groups
