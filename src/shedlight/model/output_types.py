"""The attributes of a pattern's complex events that its text makes known.

Their source is the pattern. A selected attribute that an element compares with one constant is
that constant, and a column that they do not have is null. The rest is not known, and so
conditions on it cannot be decided.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shedlight.graph.application import Stream
from shedlight.graph.columns import Columns
from shedlight.language.ast import expression as ex
from shedlight.language.ast import pattern as ast
from shedlight.language.eval.column import Column, constant_column
from shedlight.language.eval.evaluate import evaluate, is_true
from shedlight.matching.compile.predicates import Value, value_test
from shedlight.matching.compile.type_labels import Vocabulary
from shedlight.matching.output.complex_events import SOURCE

_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class KnownAttributes:
    """Which attributes of a pattern's complex events are known."""

    values: Mapping[_Path, Value]  # the constants, by column and field
    columns: Columns  # the columns that they have

    def knows(self, attribute: ex.Attribute) -> bool:
        """Whether the value of an attribute is known."""
        return attribute.path in self.values or attribute.column not in self.columns

    def codes(self, vocabulary: Vocabulary) -> Mapping[int, int]:
        """Find the components of a signature that are known, and their codes."""
        known: dict[int, int] = {}
        for column, (component, codes) in vocabulary.closed.items():
            if self.knows(column):
                value = self.values.get(column.path)
                other = len(codes) + (value is None)
                known[component] = other if value is None else codes.get(value, other)
        for condition, number in vocabulary.open.items():
            inner = [node for node in ex.walk(condition) if isinstance(node, ex.Attribute)]
            if all(map(self.knows, inner)):
                truth = is_true(evaluate(condition, 1, self._lookup))
                known[len(vocabulary.closed) + number] = int(truth[0])
        return known

    def _lookup(self, node: ex.Expression) -> Column:
        if not isinstance(node, ex.Attribute):
            raise TypeError(f"not a value of one event: {node}")
        return constant_column(self.values.get(node.path))


def known_attributes(stream: Stream, pattern: ast.Pattern, columns: Columns) -> KnownAttributes:
    """Collect what is known of a pattern's complex events, which have these columns."""
    values: dict[_Path, Value] = {}
    constants = [
        (each.variable, test.column.path, next(iter(test.values)))
        for each in _always_matched(pattern.where)
        for test in map(value_test, ex.conjuncts(ex.without_variable(each.condition)))
        if test and not test.negated and len(test.values) == 1
    ]
    for item in ast.selected_items(pattern):
        if isinstance(item.expression, ex.Literal) and type(item.expression.value) in (
            int,
            str,
        ):
            values[(item.name,)] = item.expression.value  # type: ignore[assignment]
        variable, start = _selected_attribute(item.expression)
        for owner, path, value in constants:
            if owner == variable and path[: len(start)] == start:
                values[(item.name, *path[len(start) :])] = value
    return KnownAttributes({**values, (SOURCE,): stream.name}, columns)


def _always_matched(part: ast.Part) -> Iterator[ast.Element]:
    """List the elements that every match has."""
    if isinstance(part, ast.Element):
        yield part
    elif isinstance(part, ast.Repeat) and part.least:
        yield from _always_matched(part.part)
    elif isinstance(part, ast.Seq | ast.And):
        for inner in part.parts:
            if not isinstance(inner, ast.Not):
                yield from _always_matched(inner)


def _selected_attribute(expression: ex.Expression) -> tuple[str, _Path]:
    """Name the event and the attribute that is selected as it is; no event has no name."""
    match expression:
        case ex.WholeEvent(variable):
            return variable, ()
        case ex.Attribute(variable, path):
            return variable, path
        case ex.Aggregate(
            ex.AggregateFunction.FIRST
            | ex.AggregateFunction.LAST
            | ex.AggregateFunction.MIN
            | ex.AggregateFunction.MAX,
            variable,
            path,
        ):
            return variable, path
    return "", ()
