"""Versions of the application of a checkpoint: since when each pattern is as it is."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shedlight.graph import Application, OperatorSpec, Stream, operator_order
from shedlight.graph.application import parse_stream
from shedlight.matching.operators.reorder import NEVER
from shedlight.matching.output.timed_out import timed_out_name
from shedlight.shedding.thresholds import BEGINNING


class Beginning(NamedTuple):
    """Where a pattern begins that came with a change of the application."""

    version: int  # of the application that it came with
    time: int  # from which event time on it sees events, in microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Which version an application is, and since when its patterns are as they are.

    A pattern that is not in `patterns` has been there from the beginning; what timed out of a
    pattern is listed with it.
    """

    number: int = 1  # of the application as it is now
    patterns: Mapping[Stream, Beginning] = field(default_factory=dict)
    # how far the sources of each pattern were read at the last change, in microseconds
    reached: Mapping[Stream, int] = field(default_factory=dict)

    def has_changed(self, stream: Stream, since: int) -> bool:
        """Say whether a pattern is another one than in an earlier version, or was not there."""
        return stream in self.patterns and self.patterns[stream].version > since

    def began(self, streams: Iterable[Stream], since: int = 0) -> Mapping[Stream, int]:
        """Say from when on patterns see events, of those that came after a version."""
        return {s: self.patterns[s].time for s in streams if self.has_changed(s, since)}

    def in_outbox(self, stream: Stream) -> Stream:
        """Name the complex events of a pattern: another pattern of its name has another name.

        So nobody takes what the earlier one has left in an outbox for what it finds.
        """
        if stream not in self.patterns:
            return stream
        return stream._replace(name=f"{stream.name}@{self.patterns[stream].version}")


def versions_to_json(versions: Versions) -> dict[str, Any]:
    """Write them down."""
    return {
        "number": versions.number,
        "patterns": {str(s): list(each) for s, each in versions.patterns.items()},
        "reached": {str(s): time for s, time in versions.reached.items()},
    }


def versions_from_json(row: Mapping[str, Any]) -> Versions:
    """Read what was written down."""
    began = {parse_stream(name): Beginning(*each) for name, each in row["patterns"].items()}
    reached = {parse_stream(name): int(time) for name, time in row["reached"].items()}
    return Versions(number=int(row["number"]), patterns=began, reached=reached)


def find_unchanged(before: Application, now: Application) -> frozenset[Stream]:
    """List the patterns that are as they were, and all that they read, down to sources.

    One that is asked for what times out begins anew: what it was not to see was shed.
    """
    unchanged = {Stream(name) for name in now.sources if name in before.sources}
    for spec in operator_order(now):
        earlier = before.operators.get(spec.name)
        if earlier is None or (earlier.node, earlier.inputs) != (spec.node, spec.inputs):
            continue
        if not unchanged.issuperset(spec.inputs):
            continue
        texts = {name: str(pattern) for name, pattern in earlier.patterns.items()}
        same = {n for n, pattern in spec.patterns.items() if texts.get(n) == str(pattern)}
        same -= {n for n in same if _times_out(now, spec, n) > _times_out(before, spec, n)}
        unchanged.update(Stream(name, spec.name) for name in same)
    return frozenset(stream for stream in unchanged if stream.operator)


def _times_out(application: Application, spec: OperatorSpec, pattern: str) -> bool:
    return Stream(timed_out_name(pattern), spec.name) in application.timed_out


def next_versions(
    before: Application, now: Application, versions: Versions, latest: Mapping[str, int]
) -> Versions:
    """Say since when patterns are as they are once an application has changed to another.

    `latest` has the latest timestamp in all that was read of each source, in microseconds.
    """
    unchanged, number = find_unchanged(before, now), versions.number + 1
    patterns: dict[Stream, Beginning] = {}
    reached: dict[Stream, int] = {}
    for spec in operator_order(now):
        sources = {stream.name for stream in _sources(now, spec)}
        times = [latest[name] for name in sources if latest.get(name, NEVER) != NEVER]
        for stream in spec.outputs:
            reached[stream] = 1 + max(times) if times else BEGINNING
            began: Beginning | None = Beginning(number, reached[stream])
            if stream in unchanged:
                began = versions.patterns.get(stream)
            if began is not None:
                timed_out = stream._replace(name=timed_out_name(stream.name))
                patterns |= {stream: began, timed_out: began}
    return Versions(number=number, patterns=patterns, reached=reached)


def _sources(application: Application, spec: OperatorSpec) -> Iterator[Stream]:
    """List the sources that an operator depends on; some of them twice."""
    for stream in spec.inputs:
        if stream.operator is None:
            yield stream
        else:
            yield from _sources(application, application.operators[stream.operator])
