"""Which sinks an unshed sample of keys can speak of: those with a key from source to sink."""

from collections.abc import Mapping
from dataclasses import dataclass

from shedlight.graph.application import Application, Sink, Stream
from shedlight.graph.closures import Closures
from shedlight.graph.lineage import StreamGraph, build_stream_graph, follow_key, join_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSinks:
    """What the unshed sample of an application can speak of.

    Attributes:
        patterns: The patterns from the sources to each sink whose key is known all the way.
        unknown: Why nothing is known of each other sink.
        groups: The patterns that keep the sample's keys, with the group of patterns that each
            has its key in common with.
    """

    patterns: Mapping[str, tuple[Stream, ...]]
    unknown: Mapping[str, str]
    groups: Mapping[Stream, str]


def find_sampled_sinks(application: Application, closures: Closures) -> SampledSinks:
    """Find the sinks that have a key from source to sink."""
    graph = build_stream_graph(application)
    patterns = {
        name: graph.ancestors((sink.input,)) for name, sink in application.sinks.items()
    }
    problems = {
        name: _problem(graph, closures, sink, patterns[name])
        for name, sink in application.sinks.items()
    }
    known = {name: patterns[name] for name, problem in problems.items() if not problem}
    return SampledSinks(
        patterns=known,
        unknown={name: problem for name, problem in problems.items() if problem},
        groups=join_groups(known.values()),
    )


def _problem(
    graph: StreamGraph, closures: Closures, sink: Sink, patterns: tuple[Stream, ...]
) -> str:
    """Say why no key goes from the sources to a sink; nothing: one does."""
    if not graph.application.pattern(sink.input).partition_by:
        return f"{sink.input} has no PARTITION BY"
    problems = [problem for problem in follow_key(graph, sink.input).values() if problem]
    if problems:
        return problems[0]
    protected = {*closures.by_watcher, *closures.groups, *closures.switches}
    within = [stream for stream in patterns if stream in protected]
    return f"{within[0]} is in a protected closure" if within else ""
