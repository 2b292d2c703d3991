"""A small stack machine for conditions across events, compiled once for all patterns.

A program loads cells of the events that its elements have taken and combines them. Results are
those of the column code: null where an operand is null or an operation fails, NaN equal to
itself and greater than any number.
"""

from typing import NamedTuple

import numpy as np

from shedlight.automaton.compiled import apart, step
from shedlight.automaton.pools import NONE, Array

# The operations.
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


@apart
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
