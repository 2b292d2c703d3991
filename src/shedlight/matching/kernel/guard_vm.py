"""A small stack VM for conditions across events, compiled once for all patterns.

A program loads cells of the events that its elements have taken and combines them. Results are
those of the column code: null where an operand is null or an operation fails, NaN equal to
itself and greater than any number.
"""

from typing import NamedTuple

import numpy as np

from shedlight.matching.compile import opcodes as op
from shedlight.matching.compile.guards import GuardPrograms
from shedlight.matching.jit import Array, i64, jit_inline, jit_noinline
from shedlight.matching.kernel.records import NONE

_LOWEST = -9223372036854775808


class Code(NamedTuple):
    """Programs as arrays, and the stack they run on."""

    code: Array  # [instruction] operation and argument
    ends: Array  # by element: where the conditions that its events decide begin, and end
    stack: Array
    decimals: Array  # the same memory, read as decimal numbers
    nulls: Array


class Cells(NamedTuple):
    """The cells of all events at hand: [row, cell]."""

    numbers: Array  # or decimal numbers, bit by bit
    nulls: Array
    offsets: Array  # of the texts; the constants come first
    texts: Array


@jit_inline
def _compare_text(offsets: Array, texts: Array, left: int, right: int) -> int:
    """Compare two texts by their bytes."""
    start, start2 = offsets[left], offsets[right]
    size, size2 = offsets[left + 1] - start, offsets[right + 1] - start2
    for i in range(min(size, size2)):
        a, b = texts[start + i], texts[start2 + i]
        if a != b:
            return -1 if a < b else 1
    return int(size > size2) - int(size < size2)


@jit_inline
def _whole(operation: int, a: int, b: int) -> tuple[int, bool]:  # noqa: PLR0911
    """Compute with whole numbers; what does not fit 64 bits is null."""
    if operation == op.COMPARE:
        return int(a > b) - int(a < b), False
    if operation == op.ADD:
        result = a + b
        return result, (a ^ result) & (b ^ result) < 0
    if operation == op.SUBTRACT:
        result = a - b
        return result, (a ^ b) & (a ^ result) < 0
    if operation == op.MULTIPLY:
        result = a * b
        if a == -1:
            return result, b == _LOWEST
        return result, a != 0 and result // a != b
    if b == 0:
        return b, True
    if b == -1:
        divides = operation == op.INT_DIVIDE
        return -a if divides else 0, divides and a == _LOWEST
    quotient = a // b
    if quotient < 0 and quotient * b != a:
        quotient += 1
    return quotient if operation == op.INT_DIVIDE else a - quotient * b, False


@jit_inline
def _decimal(operation: int, a: float, b: float) -> float:
    """Compute with decimal numbers; `b` is not zero in a division."""
    if operation == op.ADD_DECIMAL:
        return a + b
    if operation == op.SUBTRACT_DECIMAL:
        return a - b
    if operation == op.MULTIPLY_DECIMAL:
        return a * b
    if operation == op.DIVIDE_DECIMAL:
        return a / b
    return np.fmod(a, b)


@jit_inline
def _one_operand(code: Code, operation: int, top: int) -> None:
    value = code.stack[top]
    if operation > op.RELATE:
        code.stack[top] = (operation - op.RELATE) >> ((value + 1) & 3) & 1
    elif operation == op.TO_DECIMAL:
        code.decimals[top] = float(value)
    elif operation == op.NEGATE_DECIMAL:
        code.decimals[top] = -code.decimals[top]
    elif operation == op.NEITHER:
        code.stack[top] = 1 - value
    elif operation == op.ABSOLUTE_DECIMAL:
        code.decimals[top] = abs(code.decimals[top])
    elif operation in (op.NEGATE, op.ABSOLUTE):
        code.nulls[top] |= value == _LOWEST
        code.stack[top] = abs(value) if operation == op.ABSOLUTE else -value
    else:
        code.stack[top] = int(code.nulls[top])
        code.nulls[top] = False


@jit_inline
def _two_operands(code: Code, cells: Cells, operation: int, top: int) -> None:
    left, right = code.stack[top], code.stack[top + 1]
    null, null2 = code.nulls[top], code.nulls[top + 1]
    if operation <= op.EITHER:  # three truth values: a settled operand settles the result
        settled = operation - op.BOTH
        sure = (not null and left == settled) or (not null2 and right == settled)
        code.stack[top] = settled if sure else 1 - settled
        code.nulls[top] = not sure and (null or null2)
    elif null or null2:
        code.nulls[top] = True
    elif operation <= op.INT_DIVIDE:
        code.stack[top], code.nulls[top] = _whole(operation, left, right)
    elif operation == op.COMPARE_TEXT:
        code.stack[top] = _compare_text(cells.offsets, cells.texts, left, right)
    else:
        a, b = code.decimals[top], code.decimals[top + 1]
        if operation == op.COMPARE_DECIMAL:
            greater = a > b or (a != a and b == b)  # noqa: PLR0124  # the test for NaN
            less = a < b or (b != b and a == a)  # noqa: PLR0124
            code.stack[top] = int(greater) - int(less)
        else:
            code.nulls[top] = b == 0 and operation >= op.DIVIDE_DECIMAL
            code.decimals[top] = _decimal(operation, a, b)


@jit_noinline
def holds(  # noqa: PLR0913, PLR0915, PLR0917  # no more is passed than is used
    code: Code,
    cells: Cells,
    element: int,
    row: int,
    bound: Array,
    binding: int,
    known: tuple[int, int],
) -> bool:
    """Whether the conditions that an event decides hold if an element takes it.

    A condition also holds where one of its elements has no event (`bound` has NONE). What is
    known is the argument with which a cell is loaded, or NONE, and the number in that cell.
    """
    top = i64(-1)
    instruction, end = i64(code.ends[element]), code.ends[element + 1]
    while instruction < end:
        operation, argument = code.code[instruction, 0], code.code[instruction, 1]
        instruction += 1
        if operation <= op.NULL:
            top += 1
            code.stack[top], code.nulls[top] = argument, operation == op.NULL
            if operation == op.LOAD and argument == known[0]:
                code.stack[top] = known[1]
            elif operation == op.LOAD:
                taken, cell = argument & 65535, argument >> 16
                source = row if taken == element else i64(bound[binding, taken])
                code.stack[top] = cells.numbers[source, cell]
                code.nulls[top] = cells.nulls[source, cell]
        elif operation < op.BOTH:
            _one_operand(code, operation, top)
        elif operation < op.PICK:
            top -= 1
            _two_operands(code, cells, operation, top)
        elif operation == op.PICK:
            top -= 2
            chosen = top + 2 if code.nulls[top] or code.stack[top] != 1 else top + 1
            code.stack[top], code.nulls[top] = code.stack[chosen], code.nulls[chosen]
        elif operation == op.SKIP:
            taken = argument & 65535
            is_known = taken == element or taken == known[0] & 65535
            if not is_known and bound[binding, taken] == NONE:
                instruction = argument >> 16
        elif code.nulls[top] or code.stack[top] != 1:
            return False
        else:
            top = i64(-1)
    return True


def code_arrays(programs: GuardPrograms, triggers: tuple[tuple[int, ...], ...]) -> Code:
    """Lay the conditions that the events of each element decide out as arrays."""
    code: list[tuple[int, int]] = []
    ends = [0]
    for conditions in triggers:
        for program in (programs.programs[number] for number in conditions):
            needs, end = len(program.elements), len(code) + len(program.code) + 1
            code += [(op.SKIP, (end + needs) << 16 | element) for element in program.elements]
            code += program.code
            code.append((op.CHECK, 0))
        ends.append(len(code))
    stack = np.zeros(op.MAX_STACK, np.int64)
    return Code(
        np.array(code, np.int64).reshape(-1, 2),
        np.array(ends, np.int64),
        stack,
        stack.view(np.float64),
        np.zeros(op.MAX_STACK, np.bool_),
    )
