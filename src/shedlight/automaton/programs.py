"""Conditions across events: programs for a small stack machine that is compiled once.

What concerns one event alone (`E1.cpu * 2` in `E3.cpu > E1.cpu * 2`) is computed for whole
batches, as columns; these are the *cells* of an event. A program loads cells of the events that
its elements have taken and combines them. Its results are those of the column code: null where
an operand is null or an operation fails, NaN equal to itself and greater than any number.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shedlight.automaton.compiled import step
from shedlight.automaton.pools import NONE, Array
from shedlight.language.expression import (
    COMPARISONS,
    Binary,
    Call,
    Case,
    Cast,
    Expression,
    In,
    IsNull,
    Literal,
    Operator,
    Sign,
    Unary,
    variables,
    without_variable,
)
from shedlight.language.kind import Kind
from shedlight.language.typecheck import KindError, kind_of

MOST_STACK = 64

(
    LOAD,
    NUMBER,
    DECIMAL,
    NULL,
    TO_DECIMAL,
    ADD,
    SUBTRACT,
    MULTIPLY,
    MODULO,
    INT_DIVIDE,
    NEGATE,
    ADD_DECIMAL,
    SUBTRACT_DECIMAL,
    MULTIPLY_DECIMAL,
    DIVIDE_DECIMAL,
    MODULO_DECIMAL,
    NEGATE_DECIMAL,
    COMPARE,
    COMPARE_DECIMAL,
    COMPARE_TEXT,
    EQUAL,
    NOT_EQUAL,
    LESS,
    LESS_EQUAL,
    GREATER,
    GREATER_EQUAL,
    BOTH,
    EITHER,
    NEITHER,
    IS_NULL,
    PICK,
) = range(31)

_RELATIONS = {
    Operator.EQUAL: EQUAL,
    Operator.NOT_EQUAL: NOT_EQUAL,
    Operator.LESS: LESS,
    Operator.LESS_EQUAL: LESS_EQUAL,
    Operator.GREATER: GREATER,
    Operator.GREATER_EQUAL: GREATER_EQUAL,
}
_WHOLE = {
    Operator.ADD: ADD,
    Operator.SUBTRACT: SUBTRACT,
    Operator.MULTIPLY: MULTIPLY,
    Operator.MODULO: MODULO,
    Operator.INT_DIVIDE: INT_DIVIDE,
}
_DECIMAL = {
    Operator.ADD: ADD_DECIMAL,
    Operator.SUBTRACT: SUBTRACT_DECIMAL,
    Operator.MULTIPLY: MULTIPLY_DECIMAL,
    Operator.DIVIDE: DIVIDE_DECIMAL,
    Operator.MODULO: MODULO_DECIMAL,
}


@dataclass(frozen=True, slots=True)
class Program:
    """A condition as instructions (operation, argument), and the elements it needs."""

    code: tuple[tuple[int, int], ...]
    elements: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Programs:
    """The conditions of a pattern.

    Attributes:
        programs: One per condition.
        cells: What is computed of each event: expressions on the row at hand.
        kinds: The kinds of the cells.
        numbers: Constants that are whole numbers (or places in `texts`).
        decimals: Constants that are decimal numbers.
        texts: Constants that are text.
    """

    programs: tuple[Program, ...]
    cells: tuple[Expression, ...]
    kinds: tuple[Kind, ...]
    numbers: tuple[int, ...]
    decimals: tuple[float, ...]
    texts: tuple[str, ...]


def build_programs(
    conditions: tuple[Expression, ...],
    element_of: dict[str, int],
    kind_of_row: Callable[[Expression], Kind],
) -> Programs:
    """Compile the conditions of a pattern.

    Args:
        conditions: Conditions that mention several variables.
        element_of: The number of the element of a variable.
        kind_of_row: The kind of an attribute without its variable.

    Raises:
        KindError: A function that cannot combine events of several elements.
    """
    assembler = _Assembler(element_of, kind_of_row)
    programs = tuple(assembler.program(condition) for condition in conditions)
    return Programs(
        programs,
        tuple(assembler.cells),
        tuple(kind_of(cell, kind_of_row) for cell in assembler.cells),
        tuple(assembler.numbers),
        tuple(assembler.decimals),
        tuple(assembler.texts),
    )


class _Assembler:
    """Collects cells and constants while it writes programs."""

    def __init__(
        self, element_of: dict[str, int], kind_of_row: Callable[[Expression], Kind]
    ) -> None:
        self.element_of, self.kind_of_row = element_of, kind_of_row
        self.cells: dict[Expression, int] = {}
        self.numbers: dict[int, int] = {}
        self.decimals: dict[float, int] = {}
        self.texts: dict[str, int] = {}

    def program(self, condition: Expression) -> Program:
        code = tuple(self._code(condition))
        if _depth(code) > MOST_STACK:
            raise KindError(condition, "the condition is nested too deeply", "split it at AND")
        names = sorted(self.element_of[name] for name in variables(condition))
        return Program(code, tuple(names))

    def _kind(self, expression: Expression) -> Kind:
        def scope(node: Expression) -> Kind:
            return self.kind_of_row(without_variable(node))

        return kind_of(expression, scope)

    def _code(self, node: Expression) -> Iterator[tuple[int, int]]:
        names = variables(node)
        if len(names) == 1:
            yield self._load(node, *names)
            return
        match node:
            case Literal(value):
                yield self._constant(value)
            case Unary(Sign.NOT, operand):
                yield from self._code(operand)
                yield NEITHER, 0
            case Unary(_, operand):
                yield from self._code(operand)
                whole = self._kind(operand) is Kind.BIGINT
                yield (NEGATE if whole else NEGATE_DECIMAL), 0
            case Binary():
                yield from self._binary(node)
            case IsNull(operand, is_negated):
                yield from self._code(operand)
                yield IS_NULL, 0
                if is_negated:
                    yield NEITHER, 0
            case Case(branches, otherwise):
                yield from self._case(node, branches, otherwise)
            case Cast(operand, Kind.DOUBLE):
                yield from self._as(operand, Kind.DOUBLE)
            case _:
                yield from self._code(_spelled_out(node))

    def _load(self, node: Expression, variable: str) -> tuple[int, int]:
        cell = self.cells.setdefault(without_variable(node), len(self.cells))
        return LOAD, cell * 65536 + self.element_of[variable]

    def _constant(self, value: object) -> tuple[int, int]:
        if value is None:
            return NULL, 0
        if isinstance(value, str):
            return NUMBER, self._number(self.texts.setdefault(value, len(self.texts)))
        if isinstance(value, float):
            return DECIMAL, self.decimals.setdefault(value, len(self.decimals))
        return NUMBER, self._number(int(value))  # type: ignore[call-overload]

    def _number(self, value: int) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def _as(self, node: Expression, kind: Kind) -> Iterator[tuple[int, int]]:
        yield from self._code(node)
        if kind is Kind.DOUBLE and self._kind(node) is Kind.BIGINT:
            yield TO_DECIMAL, 0

    def _binary(self, node: Binary) -> Iterator[tuple[int, int]]:
        operator = node.operator
        if operator in {Operator.AND, Operator.OR}:
            yield from self._code(node.left)
            yield from self._code(node.right)
            yield (BOTH if operator is Operator.AND else EITHER), 0
            return
        kinds = {self._kind(node.left), self._kind(node.right)}
        decimal = Kind.DOUBLE in kinds or operator is Operator.DIVIDE
        common = Kind.DOUBLE if decimal else Kind.BIGINT
        yield from self._as(node.left, common)
        yield from self._as(node.right, common)
        if operator in COMPARISONS:
            text = Kind.STRING in kinds
            yield (COMPARE_TEXT if text else COMPARE_DECIMAL if decimal else COMPARE), 0
            yield _RELATIONS[operator], 0
        else:
            yield (_DECIMAL if decimal else _WHOLE)[operator], 0

    def _case(
        self,
        node: Expression,
        branches: tuple[tuple[Expression, Expression], ...],
        otherwise: Expression,
    ) -> Iterator[tuple[int, int]]:
        kind = self._kind(node)
        for test, result in branches:
            yield from self._code(test)
            yield from self._as(result, kind)
        yield from self._as(otherwise, kind)
        yield from ((PICK, 0) for _ in branches)


def _spelled_out(node: Expression) -> Expression:
    """Say a function or IN by simpler means."""
    match node:
        case In(operand, options, is_negated):
            same: Expression = Binary(Operator.EQUAL, operand, options[0])
            for option in options[1:]:
                same = Binary(Operator.OR, same, Binary(Operator.EQUAL, operand, option))
            return Unary(Sign.NOT, same) if is_negated else same
        case Call("coalesce", arguments):
            *firsts, last = arguments
            return Case(tuple((IsNull(one, negated=True), one) for one in firsts), last)
        case Call("if", (test, one, other)):
            return Case(((test, one),), other)
        case Call("nullif", (one, other)):
            return Case(((Binary(Operator.EQUAL, one, other), Literal(None)),), one)
        case Call("abs", (one,)):
            negative = Binary(Operator.LESS, one, Literal(0))
            return Case(((negative, Unary(Sign.MINUS, one)),), one)
        case Call("least" | "greatest" as name, (first, *rest)):
            relation = Operator.LESS_EQUAL if name == "least" else Operator.GREATER_EQUAL
            for other in rest:
                keeps = Binary(Operator.OR, IsNull(other), Binary(relation, first, other))
                first = Case(((keeps, first),), other)
            return first
    raise KindError(
        node,
        f"`{node}` cannot combine events of several elements",
        "across events there are arithmetic, comparison, AND, OR, NOT, IS NULL, IN, CASE, "
        "coalesce, if, nullif, abs, least and greatest",
    )


def _depth(code: tuple[tuple[int, int], ...]) -> int:
    """Find how many values a program has on the stack at most."""
    pushes = {LOAD, NUMBER, DECIMAL, NULL}
    same = {TO_DECIMAL, NEGATE, NEGATE_DECIMAL, NEITHER, IS_NULL, *range(EQUAL, BOTH)}
    now = most = 0
    for operation, _ in code:
        now += 1 if operation in pushes else 0 if operation in same else -1
        now -= operation == PICK
        most = max(most, now)
    return most


class Code(NamedTuple):
    """Programs as arrays, and the stack they run on."""

    operations: Array
    arguments: Array
    ends: Array  # where each program ends
    needs: Array  # [program, element] whether it needs an event of the element
    numbers: Array
    decimals: Array
    stack: Array
    decimal_stack: Array
    nulls: Array


class Cells(NamedTuple):
    """The cells of all events at hand: [row, cell]."""

    numbers: Array
    decimals: Array  # the same memory, read as decimal numbers
    nulls: Array
    offsets: Array  # of the texts; the constants come first
    texts: Array


def code_arrays(programs: Programs, elements: int) -> Code:
    """Lay programs out as arrays."""
    code = [one for program in programs.programs for one in program.code]
    lengths = [len(program.code) for program in programs.programs]
    needs = np.zeros((len(programs.programs), elements), np.bool_)
    for i, program in enumerate(programs.programs):
        needs[i, list(program.elements)] = True
    return Code(
        np.array([operation for operation, _ in code], np.int32),
        np.array([argument for _, argument in code], np.int64),
        np.cumsum(lengths, dtype=np.int64) if lengths else np.zeros(0, np.int64),
        needs,
        np.array(programs.numbers, np.int64),
        np.array(programs.decimals, np.float64),
        np.zeros(MOST_STACK, np.int64),
        np.zeros(MOST_STACK, np.float64),
        np.zeros(MOST_STACK, np.bool_),
    )


@step
def _compare_text(cells: Cells, one: int, other: int) -> int:
    """Compare two texts by their bytes."""
    start, end = cells.offsets[one], cells.offsets[one + 1]
    start2, end2 = cells.offsets[other], cells.offsets[other + 1]
    for i in range(min(end - start, end2 - start2)):
        a, b = cells.texts[start + i], cells.texts[start2 + i]
        if a != b:
            return -1 if a < b else 1
    return int(end - start > end2 - start2) - int(end - start < end2 - start2)


@step
def _compare_decimals(a: float, b: float) -> int:
    """Compare two numbers; NaN is equal to itself and greater than any other."""
    if a != a:  # noqa: PLR0124  # the test for NaN that compiles best
        return 0 if b != b else 1  # noqa: PLR0124
    if b != b:  # noqa: PLR0124
        return -1
    return int(a > b) - int(a < b)


@step
def _whole(code: Code, operation: int, top: int) -> None:
    """Compute with whole numbers; what does not fit 64 bits is null."""
    a, b = code.stack[top], code.stack[top + 1]
    lowest = np.int64(-9223372036854775808)
    if operation == ADD:
        code.stack[top] = a + b
        if (a ^ code.stack[top]) & (b ^ code.stack[top]) < 0:
            code.nulls[top] = True
    elif operation == SUBTRACT:
        code.stack[top] = a - b
        if (a ^ b) & (a ^ code.stack[top]) < 0:
            code.nulls[top] = True
    elif operation == MULTIPLY:
        code.stack[top] = a * b
        if a != 0 and (
            (a == -1 and b == lowest) or (b == -1 and a == lowest) or code.stack[top] // a != b
        ):
            code.nulls[top] = True
    elif b == 0 or (b == -1 and a == lowest and operation == INT_DIVIDE):
        code.nulls[top] = True
    elif b == -1:
        code.stack[top] = 0 if operation == MODULO else -a
    else:
        quotient = a // b
        if quotient < 0 and quotient * b != a:
            quotient += 1
        code.stack[top] = quotient if operation == INT_DIVIDE else a - quotient * b


@step
def _decimal(code: Code, operation: int, top: int) -> None:
    """Compute with decimal numbers; division by zero is null."""
    a, b = code.decimal_stack[top], code.decimal_stack[top + 1]
    if operation == ADD_DECIMAL:
        code.decimal_stack[top] = a + b
    elif operation == SUBTRACT_DECIMAL:
        code.decimal_stack[top] = a - b
    elif operation == MULTIPLY_DECIMAL:
        code.decimal_stack[top] = a * b
    elif b == 0:
        code.nulls[top] = True
    elif operation == DIVIDE_DECIMAL:
        code.decimal_stack[top] = a / b
    else:
        code.decimal_stack[top] = np.fmod(a, b)


@step
def _related(operation: int, order: int) -> int:
    """Turn the outcome of a comparison into a truth value."""
    if operation == EQUAL:
        return int(order == 0)
    if operation == NOT_EQUAL:
        return int(order != 0)
    if operation == LESS:
        return int(order < 0)
    if operation == LESS_EQUAL:
        return int(order <= 0)
    if operation == GREATER:
        return int(order > 0)
    return int(order >= 0)


@step
def _one_operand(code: Code, operation: int, top: int) -> None:
    if operation == TO_DECIMAL:
        code.decimal_stack[top] = float(code.stack[top])
    elif operation == NEGATE:
        code.nulls[top] |= code.stack[top] == np.int64(-9223372036854775808)
        code.stack[top] = -code.stack[top]
    elif operation == NEGATE_DECIMAL:
        code.decimal_stack[top] = -code.decimal_stack[top]
    elif operation == NEITHER:
        code.stack[top] = 1 - code.stack[top]
    elif operation == IS_NULL:
        code.stack[top] = int(code.nulls[top])
        code.nulls[top] = False
    else:
        code.stack[top] = _related(operation, code.stack[top])


@step
def _logic(code: Code, operation: int, top: int) -> None:
    """AND and OR with three truth values: a settled operand settles the result."""
    settled = 0 if operation == BOTH else 1
    first = not code.nulls[top] and code.stack[top] == settled
    second = not code.nulls[top + 1] and code.stack[top + 1] == settled
    if first or second:
        code.stack[top] = settled
        code.nulls[top] = False
    else:
        code.stack[top] = 1 - settled
        code.nulls[top] |= code.nulls[top + 1]


@step
def _two_operands(code: Code, cells: Cells, operation: int, top: int) -> None:
    if operation in (BOTH, EITHER):
        _logic(code, operation, top)
        return
    code.nulls[top] |= code.nulls[top + 1]
    if code.nulls[top]:
        return
    if operation == COMPARE:
        a, b = code.stack[top], code.stack[top + 1]
        code.stack[top] = int(a > b) - int(a < b)
    elif operation == COMPARE_DECIMAL:
        code.stack[top] = _compare_decimals(
            code.decimal_stack[top], code.decimal_stack[top + 1]
        )
    elif operation == COMPARE_TEXT:
        code.stack[top] = _compare_text(cells, code.stack[top], code.stack[top + 1])
    elif operation < ADD_DECIMAL:
        _whole(code, operation, top)
    else:
        _decimal(code, operation, top)


@step
def _push(code: Code, cells: Cells, bound: Array, top: int, place: int) -> None:
    """Put a cell or a constant on the stack."""
    operation, argument = code.operations[place], code.arguments[place]
    code.nulls[top] = operation == NULL
    if operation == LOAD:
        row, cell = bound[argument & 65535], argument >> 16
        code.stack[top] = cells.numbers[row, cell]
        code.decimal_stack[top] = cells.decimals[row, cell]
        code.nulls[top] = cells.nulls[row, cell]
    elif operation == NUMBER:
        code.stack[top] = code.numbers[argument]
    elif operation == DECIMAL:
        code.decimal_stack[top] = code.decimals[argument]


@step
def holds(code: Code, cells: Cells, program: int, bound: Array) -> bool:
    """Whether a condition holds for the rows that its elements are bound to.

    It also holds where one of its elements has no event (`bound` has NONE).
    """
    for element in range(bound.shape[0]):
        if code.needs[program, element] and bound[element] == NONE:
            return True
    top = -1
    for place in range(code.ends[program - 1] if program else 0, code.ends[program]):
        operation = code.operations[place]
        if operation <= NULL:
            top += 1
            _push(code, cells, bound, top, place)
        elif operation == PICK:
            top -= 2
            source = top + 1 if not code.nulls[top] and code.stack[top] == 1 else top + 2
            code.stack[top] = code.stack[source]
            code.decimal_stack[top] = code.decimal_stack[source]
            code.nulls[top] = code.nulls[source]
        elif operation in (TO_DECIMAL, NEGATE, NEGATE_DECIMAL, NEITHER, IS_NULL) or (
            EQUAL <= operation < BOTH
        ):
            _one_operand(code, operation, top)
        else:
            top -= 1
            _two_operands(code, cells, operation, top)
    return not code.nulls[0] and code.stack[0] == 1
