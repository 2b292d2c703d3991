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
"""The data types that have values to compare: all but structs."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes and gives.

    Attributes:
        parameters: The data types that each argument may have. The arguments that may have
            several agree on one; a bigint and a double agree on double.
        result: The data type of the result; None is the data type that the arguments agree on.
        repeats: Whether more arguments like the last may follow.
    """

    parameters: tuple[frozenset[DataType], ...]
    result: DataType | None
    repeats: bool = False

    def parameter(self, position: int) -> frozenset[DataType]:
        """Find the data types that the argument at a position may have."""
        return self.parameters[min(position, len(self.parameters) - 1)]

    def takes(self, count: int) -> bool:
        """Say whether there may be so many arguments."""
        least = len(self.parameters)
        return count == least or (self.repeats and count > least)

    def __str__(self) -> str:
        names = [data_types_name(data_types) for data_types in self.parameters]
        return ", ".join([*names, "..."] if self.repeats else names)


def data_types_name(data_types: frozenset[DataType]) -> str:
    """Name a set of data types that a parameter may have.

    Example:
        >>> data_types_name(NUMBERS)
        'number'
    """
    if len(data_types) == 1:
        return str(next(iter(data_types)))
    return "number" if data_types == NUMBERS else "value"


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


def common_data_type(data_types: Iterable[DataType]) -> DataType | None:
    """Find the data type that values agree on, or None if they do not.

    Example:
        >>> common_data_type([DataType.BIGINT, DataType.NULL, DataType.DOUBLE])
        <DataType.DOUBLE: 'double'>
    """
    found = set(data_types) - {DataType.NULL}
    known = found - {DataType.UNKNOWN}
    if not known:
        return DataType.UNKNOWN if found else DataType.NULL
    if known == NUMBERS:
        return DataType.DOUBLE
    if len(known) > 1:
        return None
    return DataType.UNKNOWN if found == {DataType.BIGINT, DataType.UNKNOWN} else known.pop()


def arithmetic_data_type(operator: Operator, data_types: Iterable[DataType]) -> DataType:
    """Find the data type of the result of an arithmetic operator on numbers."""
    if operator is Operator.DIVIDE:
        return DataType.DOUBLE
    if operator is Operator.INT_DIVIDE:
        return DataType.BIGINT
    return numeric_data_type(common_data_type(data_types))


def argument_data_types(
    signature: Signature, data_types: Sequence[DataType]
) -> tuple[DataType, ...]:
    """Find the data types that a function takes its arguments as; they must fit it."""
    parameters = [signature.parameter(position) for position in range(len(data_types))]
    free = [
        data_type
        for data_type, allowed in zip(data_types, parameters, strict=True)
        if len(allowed) > 1
    ]
    agreed = common_data_type(free) or DataType.NULL
    return tuple(
        next(iter(allowed))
        if len(allowed) == 1
        else (numeric_data_type(agreed) if allowed == NUMBERS else agreed)
        for allowed in parameters
    )


def result_data_type(signature: Signature, taken: Sequence[DataType]) -> DataType:
    """Find the data type of a result, of those that `argument_data_types` gave."""
    return taken[-1] if signature.result is None else signature.result


def numeric_data_type(data_type: DataType | None) -> DataType:
    """Find the data type of a number; a null where a number belongs is a bigint."""
    return DataType.BIGINT if data_type is None or data_type is DataType.NULL else data_type
