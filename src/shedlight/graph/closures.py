"""Protected closures: what must be complete for a pattern to claim that something is absent.

A NOT, a window of so many events and a sink of what timed out *watch* streams: an event there
that was only shed would be taken for absent. So all that goes into what a pattern watches, up
to the sources, is kept whole: always, or by a key that all of it has in common, or not at all,
and then the pattern emits nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shedlight.graph.application import Application, OperatorSpec, ShedBy, Stream
from shedlight.graph.lineage import (
    StreamGraph,
    build_stream_graph,
    counts_events,
    follow_key,
    join_groups,
    may_accept,
)
from shedlight.graph.topology import operators_on
from shedlight.language.ast import pattern as ast

EPOCH_WINDOWS = 40
"""For so many windows the same keys are kept: a change of keys costs what is open then."""

_WITHOUT_TIME = 60_000_000  # stands for a window of events, which has no length


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
    def protected(self) -> frozenset[Stream]:
        """The patterns of which single events must not be shed."""
        return frozenset({*self.switches, *self.groups})

    @property
    def feeders(self) -> frozenset[Stream]:
        """The patterns that have a key in common with a watcher and need not be whole."""
        bound = {s for c in self.by_watcher.values() for s in (c.watcher, *c.members)}
        return frozenset(stream for stream in self.groups if stream not in bound)


_Lengths = dict[Stream, int | None]
"""The windows on the longest way upstream of patterns, as far as they were added up."""


def find_closures(application: Application) -> Closures:
    """Find the closure of each pattern that watches something."""
    watchers = {
        stream: reasons
        for stream in application.streams
        if stream.operator and (reasons := tuple(_reasons(application, stream)))
    }
    if not watchers:
        return Closures()
    graph, lengths = build_stream_graph(application), dict[Stream, int | None]()
    closures = {
        stream: _closure(graph, lengths, stream, reasons)
        for stream, reasons in watchers.items()
    }
    joined = ((c.watcher, *c.upstream) for c in closures.values() if c.by_key)
    groups = join_groups(joined)
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


def exempt_patterns(application: Application) -> Mapping[str, tuple[Stream, ...]]:
    """List the patterns of protected closures at each node with a bound by percentile.

    Their events are admitted whatever is queued: to shed single ones would invent absences.
    """
    bounded = [name for name, node in application.nodes.items() if node.percentile is not None]
    protected = find_closures(application).protected if bounded else frozenset()
    here = {name: operators_on(application, name) for name in bounded}
    return {
        name: streams
        for name, specs in here.items()
        if (streams := tuple(s for spec in specs for s in spec.outputs if s in protected))
    }


def _reasons(application: Application, stream: Stream) -> Iterator[str]:
    pattern = application.pattern(stream)
    if ast.negated_elements(pattern.where):
        yield "a NOT"
    if counts_events(pattern):
        yield f"WITHIN {pattern.within}"
    if stream in application.timed_out:
        yield "a sink of what timed out"


def window_length(pattern: ast.Pattern) -> int | None:
    """Give the window in microseconds; None if it is one of events."""
    if counts_events(pattern):
        return None
    return pattern.within.length if pattern.within else 0


def _closure(
    graph: StreamGraph, lengths: _Lengths, stream: Stream, reasons: tuple[str, ...]
) -> Closure:
    spec = graph.application.operators[str(stream.operator)]
    pattern = spec.patterns[stream.name]
    watches_all = reasons != ("a NOT",)
    part = pattern.where
    under = ast.elements(part) if watches_all else ast.negated_elements(part)
    watched = tuple(
        s
        for s in spec.inputs
        if counts_events(pattern) or may_accept(under, s, graph.columns[s])
    )
    members = graph.ancestors(watched)
    horizon = _horizon(graph, lengths, watched)
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


def _horizon(graph: StreamGraph, lengths: _Lengths, streams: tuple[Stream, ...]) -> int | None:
    """Add up the windows on the longest way upstream; None if one has no length."""
    longest: int | None = 0
    for stream in streams:
        if stream.operator is None:
            continue
        if stream not in lengths:
            window = window_length(graph.application.pattern(stream))
            before = _horizon(graph, lengths, graph.inputs[stream])
            lengths[stream] = None if window is None or before is None else window + before
        length = lengths[stream]
        longest = None if longest is None or length is None else max(longest, length)
    return longest


def _keyed(graph: StreamGraph, stream: Stream) -> tuple[Mapping[Stream, str], str]:
    """Say of all patterns upstream whether they have a pattern's key: why not, or nothing.

    The second is why the pattern itself is not shed by key.
    """
    spec = graph.application.operators[str(stream.operator)]
    if not spec.patterns[stream.name].partition_by:
        return {}, f"{stream} has no PARTITION BY"
    if problem := _shed_by_event(spec):
        return {}, problem
    return follow_key(graph, stream, _shed_by_event), ""


def _shed_by_event(spec: OperatorSpec) -> str:
    by_event = spec.shed_by is ShedBy.EVENT
    return f"operator {spec.name} has shed_by: event" if by_event else ""
