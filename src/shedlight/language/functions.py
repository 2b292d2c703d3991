"""The named functions and operators of the expression language: what each takes and gives.

What they mean is in the back ends, `columns.py` and `spark_sql.py`, which know exactly the
names in `FUNCTIONS`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Operator

BOOLEANS = frozenset({DataType.BOOLEAN})
BIGINTS = frozenset({DataType.BIGINT})
NUMBERS = frozenset({DataType.BIGINT, DataType.DOUBLE})
TEXTS = frozenset({DataType.STRING})
TIMESTAMPS = frozenset({DataType.TIMESTAMP})
PLAIN = BOOLEANS | NUMBERS | TEXTS | TIMESTAMPS
"""The kinds that have values to compare: all but structs."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes and gives.

    Attributes:
        parameters: The kinds that each argument may have. The arguments that may have several
            agree on one; a bigint and a double agree on double.
        result: The kind of the result; None is the kind that the arguments agree on.
        repeats: Whether more arguments like the last may follow.
    """

    parameters: tuple[frozenset[DataType], ...]
    result: DataType | None
    repeats: bool = False

    def parameter(self, position: int) -> frozenset[DataType]:
        """Find the kinds that the argument at a position may have."""
        return self.parameters[min(position, len(self.parameters) - 1)]

    def takes(self, count: int) -> bool:
        """Say whether there may be so many arguments."""
        least = len(self.parameters)
        return count == least or (self.repeats and count > least)

    def __str__(self) -> str:
        names = [data_types_name(kinds) for kinds in self.parameters]
        return ", ".join([*names, "..."] if self.repeats else names)


def data_types_name(kinds: frozenset[DataType]) -> str:
    """Name a set of kinds that a parameter may have.

    Example:
        >>> kinds_name(NUMBERS)
        'number'
    """
    if len(kinds) == 1:
        return str(next(iter(kinds)))
    return "number" if kinds == NUMBERS else "value"


FUNCTIONS: Mapping[str, Signature] = {
    "abs": Signature((NUMBERS,), None),
    "ceil": Signature((NUMBERS,), DataType.BIGINT),
    "coalesce": Signature((PLAIN,), None, repeats=True),
    "concat": Signature((TEXTS,), DataType.STRING, repeats=True),
    "contains": Signature((TEXTS, TEXTS), DataType.BOOLEAN),
    "endswith": Signature((TEXTS, TEXTS), DataType.BOOLEAN),
    "floor": Signature((NUMBERS,), DataType.BIGINT),
    "greatest": Signature((PLAIN, PLAIN), None, repeats=True),
    "if": Signature((BOOLEANS, PLAIN, PLAIN), None),
    "isnan": Signature((NUMBERS,), DataType.BOOLEAN),
    "least": Signature((PLAIN, PLAIN), None, repeats=True),
    "length": Signature((TEXTS,), DataType.BIGINT),
    "lower": Signature((TEXTS,), DataType.STRING),
    "nullif": Signature((PLAIN, PLAIN), None),
    "sign": Signature((NUMBERS,), DataType.DOUBLE),
    "sqrt": Signature((NUMBERS,), DataType.DOUBLE),
    "startswith": Signature((TEXTS, TEXTS), DataType.BOOLEAN),
    "substring": Signature((TEXTS, BIGINTS, BIGINTS), DataType.STRING),
    "trim": Signature((TEXTS,), DataType.STRING),
    "unix_micros": Signature((TIMESTAMPS,), DataType.BIGINT),
    "upper": Signature((TEXTS,), DataType.STRING),
}
"""All named functions, by name in lower case."""


def common_data_type(kinds: Iterable[DataType]) -> DataType | None:
    """Find the kind that values agree on, or None if they do not.

    Example:
        >>> common_kind([Kind.BIGINT, Kind.NULL, Kind.DOUBLE])
        <Kind.DOUBLE: 'double'>
    """
    found = set(kinds) - {DataType.NULL}
    known = found - {DataType.UNKNOWN}
    if not known:
        return DataType.UNKNOWN if found else DataType.NULL
    if known == NUMBERS:
        return DataType.DOUBLE
    if len(known) > 1:
        return None
    return DataType.UNKNOWN if found == {DataType.BIGINT, DataType.UNKNOWN} else known.pop()


def arithmetic_data_type(operator: Operator, kinds: Iterable[DataType]) -> DataType:
    """Find the kind of the result of an arithmetic operator on numbers."""
    if operator is Operator.DIVIDE:
        return DataType.DOUBLE
    if operator is Operator.INT_DIVIDE:
        return DataType.BIGINT
    return numeric_data_type(common_data_type(kinds))


def argument_data_types(
    signature: Signature, kinds: Sequence[DataType]
) -> tuple[DataType, ...]:
    """Find the kinds that a function takes its arguments as; they must fit it."""
    parameters = [signature.parameter(position) for position in range(len(kinds))]
    free = [kind for kind, allowed in zip(kinds, parameters, strict=True) if len(allowed) > 1]
    agreed = common_data_type(free) or DataType.NULL
    return tuple(
        next(iter(allowed))
        if len(allowed) == 1
        else (numeric_data_type(agreed) if allowed == NUMBERS else agreed)
        for allowed in parameters
    )


def result_data_type(signature: Signature, taken: Sequence[DataType]) -> DataType:
    """Find the kind of a function's result, of the kinds that `argument_data_types` gave."""
    return taken[-1] if signature.result is None else signature.result


def numeric_data_type(kind: DataType | None) -> DataType:
    """Find the kind of a number; a null where a number belongs is a bigint."""
    return DataType.BIGINT if kind is None or kind is DataType.NULL else kind
