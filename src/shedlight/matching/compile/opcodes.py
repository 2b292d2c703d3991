"""The instructions of guard programs: what `compile/guards.py` writes and the guard VM runs."""

MAX_STACK = 64

# Numbers are in groups, which the VM tells apart by comparing: as a number of its own with the
# outcomes as argument, RELATE made the scan a tenth slower.
LOAD, NUMBER, DECIMAL, NULL = range(4)  # put a value on the stack
TO_DECIMAL, NEGATE, NEGATE_DECIMAL, NEITHER = range(4, 8)  # this and those after: one operand
ABSOLUTE, ABSOLUTE_DECIMAL, IS_NULL = range(8, 11)
RELATE = 10  # and the outcomes of a comparison, as bits (1 to 6), that make it true: 11 to 16
BOTH, EITHER = range(17, 19)  # this and those that follow have two
COMPARE, ADD, SUBTRACT, MULTIPLY, MODULO, INT_DIVIDE = range(19, 25)
COMPARE_TEXT, COMPARE_DECIMAL, ADD_DECIMAL, SUBTRACT_DECIMAL, MULTIPLY_DECIMAL = range(25, 30)
DIVIDE_DECIMAL, MODULO_DECIMAL = range(30, 32)
PICK = 32  # one of two values by a third
SKIP = 33  # go on elsewhere if an element has no event
CHECK = 34  # the end of a condition: go on if it holds
