"""The instructions of guard programs: what `compile/guards.py` writes and the guard VM runs."""

MAX_STACK = 64

# The operations: those that put a value on the stack, those with one operand, and the others.
(
    LOAD,
    NUMBER,
    DECIMAL,
    NULL,
    TO_DECIMAL,
    NEGATE,
    NEGATE_DECIMAL,
    NEITHER,
    IS_NULL,
    EQUAL,
    NOT_EQUAL,
    LESS,
    LESS_EQUAL,
    GREATER,
    GREATER_EQUAL,
    BOTH,
    EITHER,
    COMPARE,
    ADD,
    SUBTRACT,
    MULTIPLY,
    MODULO,
    INT_DIVIDE,
    COMPARE_TEXT,
    COMPARE_DECIMAL,
    ADD_DECIMAL,
    SUBTRACT_DECIMAL,
    MULTIPLY_DECIMAL,
    DIVIDE_DECIMAL,
    MODULO_DECIMAL,
    PICK,
    SKIP,  # go on elsewhere if an element has no event
    CHECK,  # the end of a condition: go on if it holds
) = range(33)

# The outcomes of a comparison (-1, 0 or 1) that make a relation true, as bits.
OUTCOMES = {
    EQUAL: 0b010,
    NOT_EQUAL: 0b101,
    LESS: 0b001,
    LESS_EQUAL: 0b011,
    GREATER: 0b100,
    GREATER_EQUAL: 0b110,
}
