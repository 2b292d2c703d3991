"""Relevant events, in SQL: those that some pattern can take, known before they are moved."""

from collections.abc import Iterable

from shedlight.language import DataType, Pattern, Schema
from shedlight.language.ast.expression import Attribute, Expression, transform, walk
from shedlight.language.ast.pattern import WindowUnit, elements
from shedlight.language.check.expr_types import data_type_of
from shedlight.language.eval.spark_sql import spark_sql
from shedlight.matching.operators.cep_operator import data_type_in


def relevant_sql(schema: Schema, patterns: Iterable[Pattern]) -> str | None:
    """Write which events some pattern can take; None if all may count, or it cannot be said.

    All events count where a window is one of events. Of conditions on times it cannot be said,
    for in SQL they depend on the time zone of the session.
    """

    def scope(node: Expression) -> DataType:
        return data_type_in(schema, node)

    texts = []
    for pattern in patterns:
        if pattern.within is not None and pattern.within.unit is WindowUnit.EVENTS:
            return None
        for element in elements(pattern.where):
            condition = transform(element.condition, _of_row)
            if any(data_type_of(n, scope) is DataType.TIMESTAMP for n in walk(condition)):
                return None
            texts.append(f"coalesce({spark_sql(condition, scope, DataType.BOOLEAN)}, false)")
    return " OR ".join(dict.fromkeys(texts))


def _of_row(node: Expression) -> Expression | None:
    return Attribute("", node.path) if isinstance(node, Attribute) else None
