"""Projection: an application without the columns that nobody reads.

Which events match does not depend on what is selected of them. So a value that no pattern
downstream reads is left out, and so are the columns of a source that are read by nobody.

The identity of an event at an operator is made of the id columns of all inputs, null where an
input has none of that name: where identities count, these are read too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from shedlight.graph import Application, OperatorSpec, Stream, operator_order
from shedlight.language.ast.expression import Aggregate, Attribute, Literal, WholeEvent, walk
from shedlight.language.ast.pattern import Item, Pattern, expressions, selected_items

_NOTHING = Item(Literal(1), "nothing")  # stands for what is selected if nobody reads any of it


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """The columns of a stream that somebody reads."""

    names: frozenset[str] = frozenset()  # the columns
    everything: bool = False  # whether all columns are, for whole events are passed on

    def __or__(self, other: "ReadColumns") -> "ReadColumns":
        return ReadColumns(self.names | other.names, self.everything or other.everything)


def project_columns(
    application: Application, *, with_ids: bool = False
) -> tuple[Application, Mapping[Stream, ReadColumns]]:
    """Leave out of an application what nobody reads, and say what is read of each stream.

    If `with_ids`, the identities of events stay what they are.
    """
    read: dict[Stream, ReadColumns] = dict.fromkeys(application.streams, ReadColumns())
    operators = dict(application.operators)
    for spec in reversed(operator_order(application)):
        patterns = {
            stream.name: _drop_unread(spec.patterns[stream.name], read[stream])
            for stream in spec.outputs
        }
        operators[spec.name] = replace(spec, patterns=patterns)
        columns = _read_columns(patterns.values())
        if with_ids:
            columns |= _id_columns(application, spec)
        for stream in spec.inputs:
            read[stream] |= columns
    return replace(application, operators=operators), read


def _id_columns(application: Application, spec: OperatorSpec) -> ReadColumns:
    """Find the id columns of an operator's sources."""
    sources = [application.sources[s.name] for s in spec.inputs if s.operator is None]
    return ReadColumns(frozenset(name for source in sources for name in source.id))


def _drop_unread(pattern: Pattern, read: ReadColumns) -> Pattern:
    """Leave out selected values that nobody reads; with EACH, all that there is may be."""
    if read.everything or pattern.each:
        return pattern
    items = tuple(item for item in selected_items(pattern) if item.name in read.names)
    return replace(pattern, select=items or (_NOTHING,))


def _read_columns(patterns: Iterable[Pattern]) -> ReadColumns:
    nodes = [
        node
        for pattern in patterns
        for expression in expressions(pattern)
        for node in walk(expression)
    ]
    names = {n.path[0] for n in nodes if isinstance(n, Attribute | Aggregate) and n.path}
    everything = any(isinstance(node, WholeEvent) for node in nodes)
    return ReadColumns(frozenset(names), everything or any(not p.select for p in patterns))
