"""What a user must know of how patterns are shed: what they watch, and what they count.

Of nodes without a bound there is nothing to say: nothing is shed there.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shedlight.errors import join_words
from shedlight.graph.application import Application, Stream, bound_kind
from shedlight.graph.closures import Closure, exempt_patterns, find_closures
from shedlight.graph.lineage import ancestors
from shedlight.graph.topology import key_name
from shedlight.language import Pattern, Window
from shedlight.language.ast import expression as ex
from shedlight.language.ast import pattern as ast

Notes = Mapping[str, str]
"""Sentences about a pattern, by a word for what they are about."""

_MAX_NAMED = 6  # how many streams a sentence names
_COUNTING = {ex.AggregateFunction.COUNT, ex.AggregateFunction.SUM}


def note_shedding(application: Application) -> Mapping[Stream, Notes]:
    """Say of patterns how they are shed, where that is not plain; nothing without a bound."""
    if not any(node.bound for node in application.nodes.values()):
        return {}
    closures = find_closures(application).by_watcher
    exempt = {
        stream: application.nodes[node].percentile
        for node, streams in exempt_patterns(application).items()
        for stream in streams
    }
    notes = {}
    for stream in application.streams:
        if stream.operator:
            closure = closures.get(stream)
            about = {} if closure is None else _about_closure(application, closure)
            counted = list(_counts_of_kept(application, stream, closure))
            if counted:
                about["counts"] = f"{join_words(counted, 'and')}: what was kept, not what came"
            if stream in exempt:
                about["admission"] = (
                    f"exempt from the bound {bound_kind(exempt[stream])}: single events of a "
                    "protected closure are never shed"
                )
            if about:
                notes[stream] = about
    return notes


def closure_values(application: Application, closure: Closure) -> dict[str, Any]:
    """Convert a closure to values of JSON."""
    key = key_name(application.pattern(closure.watcher).partition_by)
    shed = "by key" if closure.by_key else "on or off"
    return {
        "for": list(closure.reasons),
        "watches": list(map(str, closure.watched)),
        "members": list(map(str, closure.members)),
        "shed": shed if _is_bounded(application, closure) else "never",
        "key": key if closure.by_key else None,
        "no_key": closure.no_key,
        "horizon_seconds": None if closure.horizon is None else closure.horizon / 1e6,
    }


def name_streams(streams: Iterable[Stream]) -> str:
    """Write streams as part of a sentence; of many give the first.

    Example:
        >>> name_streams([Stream("A", "w1"), Stream("B", "w1")])
        'w1.A and w1.B'
    """
    names = list(map(str, streams))
    more = len(names) - _MAX_NAMED
    if more > 1:
        names[_MAX_NAMED:] = [f"{more:,} more"]
    return join_words(names, "and")


def _about_closure(application: Application, closure: Closure) -> dict[str, str]:
    further = [stream for stream in closure.members if stream not in closure.watched]
    through = f", and through them {name_streams(further)}" if further else ""
    watches = (
        f"{name_streams(closure.watched)}, for {join_words(closure.reasons, 'and')}{through}"
    )
    return {"watches": watches, "shed": _how(application, closure)}


def _is_bounded(application: Application, closure: Closure) -> bool:
    """Whether anything of a closure is on a node with a bound."""
    streams = (closure.watcher, *closure.upstream)
    nodes = (application.operators[str(stream.operator)].node for stream in streams)
    return any(application.nodes[node].bound for node in nodes)


def _how(application: Application, closure: Closure) -> str:
    if not _is_bounded(application, closure):
        return "never, for nothing of it is on a node with a bound"
    if closure.by_key:
        key = key_name(application.pattern(closure.watcher).partition_by)
        also = f" here and at {name_streams(closure.upstream)}" if closure.upstream else ""
        kept = f"a key is kept with all of its events{also}, or not at all"
        return f"by {key}: {kept}{_since(closure)}"
    whole = f"goes into {name_streams(closure.members)}" if closure.members else "it watches"
    return (
        f"as a whole: all that {whole} is kept, or it is off and emits nothing"
        f"{_since(closure)}; not by key, for {closure.no_key}"
    )


def _since(closure: Closure) -> str:
    """Say what is left out after something of a closure was shed."""
    if closure.horizon is None:
        return "; once off it stays off, for a window of events upstream has no length in time"
    if not closure.horizon:
        return ""
    again = "a key is kept again" if closure.by_key else "it is on again"
    return f"; what begins within {Window(closure.horizon)} after {again} is left out"


def _counts_of_kept(
    application: Application, stream: Stream, closure: Closure | None
) -> Iterator[str]:
    """List the aggregates of a pattern that count events of which some may be shed."""
    if closure is not None and closure.watches_all:
        return
    found = dict.fromkeys(_open_counts(application.pattern(stream)))
    if found and any(
        application.nodes[application.operators[str(s.operator)].node].bound
        for s in ancestors(application, (stream,))
    ):
        yield from found


def _open_counts(pattern: Pattern) -> Iterator[str]:
    """List the COUNTs and SUMs over elements that may take more events or fewer."""
    repeated = {
        element.variable
        for part in ast.walk_parts(pattern.where)
        if isinstance(part, ast.Repeat) and part.least != part.most
        for element in ast.elements(part)
    }
    for expression in ast.expressions(pattern):
        for inner in ex.walk(expression):
            match inner:
                case ex.Aggregate(function, variable) if (
                    function in _COUNTING and variable in repeated
                ):
                    yield str(inner)
