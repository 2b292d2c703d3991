"""Conditions across events as programs for the stack VM of `guard_vm.py`.

What concerns one event alone (`E1.cpu * 2` in `E3.cpu > E1.cpu * 2`) is computed for whole
batches, as columns; these are the *cells* of an event. The rest of a condition becomes a
program that loads cells of the events that its elements have taken.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import numpy as np

from shedlight.language.ast import expression as ex
from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Binary, Expression, Operator
from shedlight.language.check.expr_types import DataTypeError, data_type_of
from shedlight.language.eval.column import to_micros
from shedlight.language.eval.decimals import sortable_text
from shedlight.language.functions import (
    arithmetic_data_type,
    exact_decimals,
    numeric_data_type,
)
from shedlight.matching.compile import opcodes as op

# The outcomes of a comparison (-1, 0 or 1) that make a relation true, as bits.
_OUTCOMES = {
    Operator.EQUAL: 0b010,
    Operator.NOT_EQUAL: 0b101,
    Operator.LESS: 0b001,
    Operator.LESS_EQUAL: 0b011,
    Operator.GREATER: 0b100,
    Operator.GREATER_EQUAL: 0b110,
}
_WHOLE = {
    Operator.ADD: op.ADD,
    Operator.SUBTRACT: op.SUBTRACT,
    Operator.MULTIPLY: op.MULTIPLY,
    Operator.MODULO: op.MODULO,
    Operator.INT_DIVIDE: op.INT_DIVIDE,
}
_DECIMAL = {
    Operator.ADD: op.ADD_DECIMAL,
    Operator.SUBTRACT: op.SUBTRACT_DECIMAL,
    Operator.MULTIPLY: op.MULTIPLY_DECIMAL,
    Operator.DIVIDE: op.DIVIDE_DECIMAL,
    Operator.MODULO: op.MODULO_DECIMAL,
}


@dataclass(frozen=True, slots=True)
class GuardProgram:
    """A condition as instructions, and the elements it needs."""

    # operation and argument; a constant is an argument, a decimal number bit by bit
    code: tuple[tuple[int, int], ...]
    elements: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GuardPrograms:
    """The conditions of a pattern."""

    programs: tuple[GuardProgram, ...]  # one per condition
    cells: tuple[Expression, ...]  # what is computed of each event, on the row at hand
    data_types: tuple[DataType, ...]  # the data types of the cells
    texts: tuple[str, ...]  # constants that are text; programs have their numbers

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the cells are computed of."""
        nodes = (node for cell in self.cells for node in ex.walk(cell))
        return frozenset(n.path[0] for n in nodes if isinstance(n, ex.Attribute) and n.path)


def build_programs(
    conditions: tuple[Expression, ...],
    element_of: dict[str, int],
    data_type_of_row: Callable[[Expression], DataType],
) -> GuardPrograms:
    """Compile the conditions of a pattern that mention several variables.

    Elements are given by variable; data types of attributes without their variable.

    Raises:
        DataTypeError: A function that cannot combine events of several elements.
    """
    assembler = _Assembler(element_of, data_type_of_row)
    programs = tuple(assembler.program(condition) for condition in conditions)
    return GuardPrograms(
        programs,
        tuple(assembler.cells),
        tuple(data_type_of(cell, data_type_of_row) for cell in assembler.cells),
        tuple(assembler.texts),
    )


class _Assembler:
    """Collects cells and constants while it writes programs."""

    def __init__(
        self, element_of: dict[str, int], data_type_of_row: Callable[[Expression], DataType]
    ) -> None:
        self.element_of, self.data_type_of_row = element_of, data_type_of_row
        self.cells: dict[Expression, int] = {}
        self.texts: dict[str, int] = {}

    def program(self, condition: Expression) -> GuardProgram:
        code = tuple(self._code(condition))
        if _depth(code) > op.MAX_STACK:
            raise DataTypeError(
                condition, "the condition is nested too deeply", "split it at AND"
            )
        names = sorted(self.element_of[name] for name in ex.variables(condition))
        return GuardProgram(code, tuple(names))

    def _data_type(self, expression: Expression) -> DataType:
        def scope(node: Expression) -> DataType:
            return self.data_type_of_row(ex.without_variable(node))

        return data_type_of(expression, scope)

    def _code(self, node: Expression) -> Iterator[tuple[int, int]]:
        names = ex.variables(node)
        if len(names) == 1:
            yield self._load(node, *names)
            return
        match node:
            case ex.Literal(value):
                yield self._constant(value)
            case ex.Unary(ex.Sign.NOT, operand):
                yield from self._code(operand)
                yield op.NEITHER, 0
            case ex.Unary(_, operand):
                data_type = numeric_data_type(self._data_type(operand))
                yield from self._as(operand, data_type)
                whole = data_type is DataType.BIGINT
                yield (op.NEGATE if whole else op.NEGATE_DECIMAL), 0
            case ex.Call("abs", (operand,)):
                yield from self._absolute(operand)
            case Binary():
                yield from self._binary(node)
            case ex.IsNull(operand, is_negated):
                yield from self._code(operand)
                yield op.IS_NULL, 0
                if is_negated:
                    yield op.NEITHER, 0
            case ex.Case(branches, otherwise):
                yield from self._case(node, branches, otherwise)
            case ex.Cast(operand, DataType.DOUBLE):
                yield from self._as(operand, DataType.DOUBLE)
            case _:
                yield from self._code(_spelled_out(node))

    def _absolute(self, operand: Expression) -> Iterator[tuple[int, int]]:
        data_type = numeric_data_type(self._data_type(operand))
        yield from self._as(operand, data_type)
        whole = data_type is DataType.BIGINT
        yield (op.ABSOLUTE if whole else op.ABSOLUTE_DECIMAL), 0

    def _load(self, node: Expression, variable: str) -> tuple[int, int]:
        cell = self.cells.setdefault(ex.without_variable(node), len(self.cells))
        return op.LOAD, cell * 65536 + self.element_of[variable]

    def _constant(self, value: object) -> tuple[int, int]:
        if value is None:
            return op.NULL, 0
        if isinstance(value, str):
            return op.NUMBER, self.texts.setdefault(value, len(self.texts))
        if isinstance(value, date):
            return op.NUMBER, to_micros(value)
        if isinstance(value, float):
            return op.DECIMAL, int(np.float64(value).view(np.int64))
        return op.NUMBER, int(value)  # type: ignore[call-overload]

    def _as(self, node: Expression, data_type: DataType) -> Iterator[tuple[int, int]]:
        own = self._data_type(node)
        if DataType.DECIMAL in {own, data_type} and own not in {data_type, DataType.NULL}:
            yield self._between_decimals(node, data_type)
            return
        yield from self._code(node)
        if data_type is DataType.DOUBLE and own is DataType.BIGINT:
            yield op.TO_DECIMAL, 0

    def _between_decimals(self, node: Expression, data_type: DataType) -> tuple[int, int]:
        """Take a number as a decimal, or a decimal as a double: of one event, as a cell."""
        if isinstance(node, ex.Literal):
            return self._constant(sortable_text(Decimal(repr(node.value))))
        names = ex.variables(node)
        if len(names) != 1:
            problem = f"`{node}` mixes decimals of several elements with other numbers"
            raise DataTypeError(node, problem, "use CAST(... AS double) on each decimal")
        return self._load(ex.Cast(node, data_type), *names)

    def _binary(self, node: Binary) -> Iterator[tuple[int, int]]:
        operator = node.operator
        if operator in {Operator.AND, Operator.OR}:
            yield from self._code(node.left)
            yield from self._code(node.right)
            yield (op.BOTH if operator is Operator.AND else op.EITHER), 0
            return
        operands = (node.left, node.right)
        data_types = [self._data_type(operand) for operand in operands]
        common = self._common_type(operator, operands, data_types)
        yield from self._as(node.left, common)
        yield from self._as(node.right, common)
        decimal = common is DataType.DOUBLE
        if operator in ex.COMPARISONS:
            compare = op.COMPARE_DECIMAL if decimal else op.COMPARE
            is_text = DataType.STRING in data_types or common is DataType.DECIMAL
            yield (op.COMPARE_TEXT if is_text else compare), 0
            yield op.RELATE + _OUTCOMES[operator], 0
        else:
            yield (_DECIMAL if decimal else _WHOLE)[operator], 0

    @staticmethod
    def _common_type(
        operator: Operator, operands: Sequence[Expression], data_types: Sequence[DataType]
    ) -> DataType:
        """Find the data type in which numbers are compared, or computed with."""
        if operator not in ex.COMPARISONS:
            data_type = arithmetic_data_type(operator, data_types)
            return DataType.DOUBLE if data_type is DataType.DOUBLE else DataType.BIGINT
        if DataType.DECIMAL in data_types and (
            DataType.DOUBLE not in data_types or exact_decimals(operands, data_types)
        ):
            return DataType.DECIMAL
        return DataType.DOUBLE if DataType.DOUBLE in data_types else DataType.BIGINT

    def _case(
        self,
        node: Expression,
        branches: tuple[tuple[Expression, Expression], ...],
        otherwise: Expression,
    ) -> Iterator[tuple[int, int]]:
        data_type = self._data_type(node)
        for test, result in branches:
            yield from self._code(test)
            yield from self._as(result, data_type)
        yield from self._as(otherwise, data_type)
        yield from ((op.PICK, 0) for _ in branches)


def _spelled_out(node: Expression) -> Expression:
    """Say a function or IN by simpler means."""
    match node:
        case ex.In(operand, options, is_negated):
            same: Expression = Binary(Operator.EQUAL, operand, options[0])
            for option in options[1:]:
                same = Binary(Operator.OR, same, Binary(Operator.EQUAL, operand, option))
            return ex.Unary(ex.Sign.NOT, same) if is_negated else same
        case ex.Call("coalesce", arguments):
            *firsts, last = arguments
            branches = tuple((ex.IsNull(value, negated=True), value) for value in firsts)
            return ex.Case(branches, last) if branches else last
        case ex.Call("if", (test, then, otherwise)):
            return ex.Case(((test, then),), otherwise)
        case ex.Call("nullif", (value, other)):
            same = Binary(Operator.EQUAL, value, other)
            return ex.Case(((same, ex.Literal(None)),), value)
        case ex.Call("least" | "greatest" as name, (first, *others)):
            relation = Operator.LESS_EQUAL if name == "least" else Operator.GREATER_EQUAL
            for other in others:
                keeps = Binary(Operator.OR, ex.IsNull(other), Binary(relation, first, other))
                first = ex.Case(((keeps, first),), other)
            return first
    raise DataTypeError(
        node,
        f"`{node}` cannot combine events of several elements",
        "across events there are arithmetic, comparison, AND, OR, NOT, IS NULL, IN, CASE, "
        "coalesce, if, nullif, abs, least and greatest",
    )


def _depth(code: tuple[tuple[int, int], ...]) -> int:
    """Find how many values a program has on the stack at most."""
    depth = most = 0
    for operation, _ in code:
        depth += 1 if operation <= op.NULL else 0 if operation < op.BOTH else -1
        depth -= operation == op.PICK
        most = max(most, depth)
    return most
