"""The named functions of the expression language, and the data types that operations give.

A row of `FUNCTIONS` has what a function takes and gives and how Spark SQL writes it. Its code
for columns is in `evaluate.py`, so that patterns can be read without loading Arrow.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Operator

SMALLEST, LARGEST = -(2**63), 2**63 - 1  # the bounds of a bigint

BOOLEANS = frozenset({DataType.BOOLEAN})
BIGINTS = frozenset({DataType.BIGINT})
NUMBERS = frozenset({DataType.BIGINT, DataType.DOUBLE})
TEXTS = frozenset({DataType.STRING})
TIMESTAMPS = frozenset({DataType.TIMESTAMP})
PLAIN = BOOLEANS | NUMBERS | TEXTS | TIMESTAMPS
"""The data types that have values to compare: all but structs."""

_BELOW_BIGINT, _ABOVE_BIGINT = "-9223372036854777856.0D", "9223372036854775808.0D"
WITHIN_BIGINT = (
    f"nullif(least(nullif(greatest({{0}}, {_BELOW_BIGINT}), {_BELOW_BIGINT}), "
    f"{_ABOVE_BIGINT}), {_ABOVE_BIGINT})"
)
"""SQL that makes a double null which is NaN or out of the range of a bigint."""


@dataclass(frozen=True, slots=True)
class Function:
    """What a function takes and gives, and how Spark SQL writes it."""

    # the data types that each argument may have. The arguments that may have several agree on
    # one; a bigint and a double agree on double.
    parameters: tuple[frozenset[DataType], ...]
    # the data type of the result; None: the one that the arguments agree on
    result: DataType | None
    repeats: bool = False  # whether more arguments like the last may follow
    sql: str = ""  # a call in Spark SQL, where that is not the function with its arguments
    bigint_sql: str = ""  # the same where the first argument is a bigint, if that differs

    def parameter(self, position: int) -> frozenset[DataType]:
        """Find the data types that the argument at a position may have."""
        return self.parameters[min(position, len(self.parameters) - 1)]

    def takes(self, count: int) -> bool:
        """Say whether there may be so many arguments."""
        least = len(self.parameters)
        return count == least or (self.repeats and count > least)

    def __str__(self) -> str:
        names = [data_types_name(allowed) for allowed in self.parameters]
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


FUNCTIONS: Mapping[str, Function] = {
    "abs": Function((NUMBERS,), None, bigint_sql=f"abs(nullif({{0}}, ({SMALLEST}L)))"),
    "ceil": Function(
        (NUMBERS,), DataType.BIGINT, sql=f"ceil({WITHIN_BIGINT})", bigint_sql="{0}"
    ),
    "coalesce": Function((PLAIN,), None, repeats=True),
    "concat": Function((TEXTS,), DataType.STRING, repeats=True),
    "contains": Function((TEXTS, TEXTS), DataType.BOOLEAN),
    "endswith": Function((TEXTS, TEXTS), DataType.BOOLEAN),
    "floor": Function(
        (NUMBERS,), DataType.BIGINT, sql=f"floor({WITHIN_BIGINT})", bigint_sql="{0}"
    ),
    "greatest": Function((PLAIN, PLAIN), None, repeats=True),
    "if": Function((BOOLEANS, PLAIN, PLAIN), None),
    "isnan": Function((NUMBERS,), DataType.BOOLEAN, bigint_sql="isnan(CAST({0} AS DOUBLE))"),
    "least": Function((PLAIN, PLAIN), None, repeats=True),
    "length": Function((TEXTS,), DataType.BIGINT, sql="CAST(length({0}) AS BIGINT)"),
    "lower": Function((TEXTS,), DataType.STRING, sql="concat(lower({0}), '')"),
    "nullif": Function((PLAIN, PLAIN), None),
    "sign": Function((NUMBERS,), DataType.DOUBLE, bigint_sql="sign(CAST({0} AS DOUBLE))"),
    "sqrt": Function((NUMBERS,), DataType.DOUBLE, bigint_sql="sqrt(CAST({0} AS DOUBLE))"),
    "startswith": Function((TEXTS, TEXTS), DataType.BOOLEAN),
    "substring": Function(
        (TEXTS, BIGINTS, BIGINTS),
        DataType.STRING,
        sql="substring({0}, try_cast({1} AS INT), try_cast({2} AS INT))",
    ),
    "trim": Function((TEXTS,), DataType.STRING),
    "unix_micros": Function((TIMESTAMPS,), DataType.BIGINT),
    "upper": Function((TEXTS,), DataType.STRING, sql="concat(upper({0}), '')"),
}
"""All named functions, by name in lower case."""


def common_data_type(data_types: Iterable[DataType]) -> DataType | None:
    """Find the data type that values agree on, or None if they do not.

    Example:
        >>> common_data_type([DataType.BIGINT, DataType.NULL, DataType.DOUBLE])
        <DataType.DOUBLE: 'double'>
    """
    not_null = set(data_types) - {DataType.NULL}
    known = not_null - {DataType.UNKNOWN}
    if not known:
        return DataType.UNKNOWN if not_null else DataType.NULL
    if known == NUMBERS:
        return DataType.DOUBLE
    if len(known) > 1:
        return None
    is_number = not_null == {DataType.BIGINT, DataType.UNKNOWN}
    return DataType.UNKNOWN if is_number else known.pop()


def arithmetic_data_type(operator: Operator, data_types: Iterable[DataType]) -> DataType:
    """Find the data type of the result of an arithmetic operator on numbers."""
    if operator is Operator.DIVIDE:
        return DataType.DOUBLE
    if operator is Operator.INT_DIVIDE:
        return DataType.BIGINT
    return numeric_data_type(common_data_type(data_types))


def argument_data_types(
    function: Function, data_types: Sequence[DataType]
) -> tuple[DataType, ...]:
    """Find the data types that a function takes its arguments as; they must fit it."""
    parameters = [function.parameter(position) for position in range(len(data_types))]
    free = [t for t, allowed in zip(data_types, parameters, strict=True) if len(allowed) > 1]
    agreed = common_data_type(free) or DataType.NULL
    return tuple(
        next(iter(allowed))
        if len(allowed) == 1
        else (numeric_data_type(agreed) if allowed == NUMBERS else agreed)
        for allowed in parameters
    )


def result_data_type(function: Function, taken: Sequence[DataType]) -> DataType:
    """Find the data type of a result, of those that `argument_data_types` gave."""
    return taken[-1] if function.result is None else function.result


def numeric_data_type(data_type: DataType | None) -> DataType:
    """Find the data type of a number; a null where a number belongs is a bigint."""
    return DataType.BIGINT if data_type is None or data_type is DataType.NULL else data_type
