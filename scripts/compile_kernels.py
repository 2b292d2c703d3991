"""Compile the kernels before the tests: else each of their processes compiles them."""

import pyarrow as pa

from shedlight.engines.kernel_cache import compiled_kernels
from shedlight.language import parse_pattern
from shedlight.matching.operators.cep_operator import (
    build_operator,
    new_operator_state,
    schema_of,
    step_operator,
)
from shedlight.matching.operators.reorder import StreamInput

EVENTS = pa.table({"time": [1, 2], "id": [1, 2], "x": [1.0, 2.0]})
PATTERNS = (
    "SELECT a.x WHERE SEQ(a.x < 2, b.x > 1) WITHIN 1 s",
    "SELECT a.x WHERE SEQ(a.x < 2, b.x > 1) AND b.x > a.x WITHIN 1 s",
)

if __name__ == "__main__":
    if not all(compiled_kernels().values()):
        print("compiling the matchers, once: it takes half a minute", flush=True)
        schema = schema_of(EVENTS.schema)
        patterns = {f"P{i}": parse_pattern(t, schema).pattern for i, t in enumerate(PATTERNS)}
        operator = build_operator(
            [(StreamInput("s", ("id",), "time"), EVENTS.schema)], patterns
        )
        step_operator(operator, new_operator_state(operator), {0: EVENTS}, frozenset({0}))
