"""Events in an order, whose rows stay where they are until somebody asks for them.

Matching looks at few columns of all events and at all columns of few events. To move every row
of every column into order would cost more than matching itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.language.ast.expression import Attribute, Expression
from shedlight.language.eval.column import Column, to_column
from shedlight.matching.jit import Array, compiled


@dataclass(frozen=True, slots=True, eq=False)
class PermutedTable:
    """Events in an order, or some of them."""

    table: pa.Table  # their columns
    order: Array | None = None  # the row of each event; None: all are there, in order

    def __len__(self) -> int:
        return len(self.table) if self.order is None else len(self.order)

    def column(self, name: str) -> pa.ChunkedArray:
        """Give a column in order."""
        column = self.table.column(name)
        return column if self.order is None else column.take(pa.array(self.order))

    def select(self, names: Sequence[str]) -> pa.Table:
        """Give some columns in order."""
        chosen = self.table.select(list(names))
        return chosen if self.order is None else chosen.take(pa.array(self.order))

    def numbers(self, name: str) -> Array:
        """Give a column of numbers without a null, in order."""
        values = self.table.column(name).to_numpy()
        return np.asarray(values if self.order is None else values[self.order])

    def rows(self, positions: Array) -> Array:
        """Give the rows of the events at some positions."""
        return positions if self.order is None else np.asarray(self.order[positions])

    def at(self, positions: Array) -> "PermutedTable":
        """Give the events at some positions."""
        return PermutedTable(self.table, self.rows(positions))

    def without(self, names: Sequence[str]) -> "PermutedTable":
        """Leave columns out."""
        return PermutedTable(self.table.drop_columns(list(names)), self.order)

    def between(self, low: int, high: int) -> "PermutedTable":
        """Give the events from one position to another, in order."""
        if self.order is None:
            return PermutedTable(self.table.slice(low, high - low))
        return PermutedTable(self.table.take(pa.array(self.order[low:high])))


@compiled
def is_sorted(times: Array, apart: int = 0) -> bool:
    """Say whether times rise by at least so much each; so plain that several go at once."""
    falls = 0
    for i in range(1, times.shape[0]):
        falls += times[i] < times[i - 1] + apart
    return falls == 0


def row_values(table: pa.Table | PermutedTable, node: Expression) -> pa.ChunkedArray:
    """Find the values of an attribute of the row at hand, as they are."""
    if not isinstance(node, Attribute):
        raise TypeError(f"not an attribute: {node}")
    column = table.column(node.path[0])
    for field in node.path[1:]:
        column = pa.chunked_array(
            [pc.struct_field(chunk, field) for chunk in column.chunks],
            column.type.field(field).type,
        )
    return column


def row_column(table: pa.Table | PermutedTable, node: Expression) -> Column:
    """Find the column of an attribute of the row at hand."""
    return to_column(row_values(table, node))
