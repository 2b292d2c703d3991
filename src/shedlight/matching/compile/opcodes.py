"""The instructions of guard programs: what `compile/guards.py` writes and the guard VM runs."""

MAX_STACK = 64

# Numbers are in groups, which the VM tells apart by comparing: as a number of its own with the
# outcomes as argument, RELATE made the scan a tenth slower.
LOAD, NUMBER, DECIMAL, NULL = range(4)  # put a value on the stack
TO_DECIMAL, NEGATE, NEGATE_DECIMAL, NEITHER, IS_NULL = range(4, 9)  # have one operand
RELATE = 8  # and the outcomes of a comparison, as bits (1 to 6), that make it true: 9 to 14
BOTH, EITHER = range(15, 17)  # this and those that follow have two
COMPARE, ADD, SUBTRACT, MULTIPLY, MODULO, INT_DIVIDE = range(17, 23)
COMPARE_TEXT, COMPARE_DECIMAL, ADD_DECIMAL, SUBTRACT_DECIMAL, MULTIPLY_DECIMAL = range(23, 28)
DIVIDE_DECIMAL, MODULO_DECIMAL = range(28, 30)
PICK = 30  # one of two values by a third
SKIP = 31  # go on elsewhere if an element has no event
CHECK = 32  # the end of a condition: go on if it holds
