"""The instructions of guard programs: what `compile/guards.py` writes and the guard VM runs."""

MAX_STACK = 64

# Numbers are in groups, which the VM tells apart by comparing.
LOAD, NUMBER, DECIMAL, NULL = range(4)  # put a value on the stack
TO_DECIMAL, NEGATE, NEGATE_DECIMAL, NEITHER, IS_NULL = range(4, 9)  # have one operand
RELATE = (
    9  # as well: the outcome of a comparison (-1, 0 or 1), true or not by the argument's bit
)
BOTH, EITHER = range(10, 12)  # this and those that follow have two
COMPARE, ADD, SUBTRACT, MULTIPLY, MODULO, INT_DIVIDE = range(12, 18)
COMPARE_TEXT, COMPARE_DECIMAL, ADD_DECIMAL, SUBTRACT_DECIMAL, MULTIPLY_DECIMAL = range(18, 23)
DIVIDE_DECIMAL, MODULO_DECIMAL = range(23, 25)
PICK = 25  # one of two values by a third
SKIP = 26  # go on elsewhere if an element has no event
CHECK = 27  # the end of a condition: go on if it holds
