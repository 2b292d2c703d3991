"""The named functions of the expression language, and the data types that operations give.

A row of `FUNCTIONS` has what a function takes and gives and how Spark SQL writes it. Its code
for columns is in `evaluate.py`, so that patterns can be read without loading Arrow.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from shedlight.language.ast.data_type import ARRAYS, DataType
from shedlight.language.ast.expression import Expression, Literal, Operator
from shedlight.language.json_path import parse_json_path
from shedlight.language.regex import common_regex
from shedlight.language.time_format import rewrite_format

SMALLEST, LARGEST = -(2**63), 2**63 - 1  # the bounds of a bigint

BOOLEANS = frozenset({DataType.BOOLEAN})
BIGINTS = frozenset({DataType.BIGINT})
NUMBERS = frozenset({DataType.BIGINT, DataType.DOUBLE, DataType.DECIMAL})
TEXTS = frozenset({DataType.STRING})
TIMESTAMPS = frozenset({DataType.TIMESTAMP})
TIMES = frozenset({DataType.TIMESTAMP, DataType.DATE})
PLAIN = BOOLEANS | NUMBERS | TEXTS | TIMES
"""The data types that have values to compare: all but arrays and structs."""
EVENT_TIMES = NUMBERS | TEXTS | TIMES
"""The data types that the time of an event may have."""

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
    # one; a bigint and a double agree on double. What goes with an array is as its elements.
    parameters: tuple[frozenset[DataType], ...]
    # the data type of the result; None: the one that the arguments agree on
    result: DataType | None
    repeats: bool = False  # whether more arguments like the last may follow
    sql: str = ""  # a call in Spark SQL, where that is not the function with its arguments
    bigint_sql: str = ""  # the same where the first argument is a bigint, if that differs
    optional: int = 0  # how many of the last arguments may be left out
    # reads the last argument, which must be a constant text; ValueError if it is not right
    constant: Callable[[str], object] | None = None

    def parameter(self, position: int) -> frozenset[DataType]:
        """Find the data types that the argument at a position may have."""
        return self.parameters[min(position, len(self.parameters) - 1)]

    def takes(self, count: int) -> bool:
        """Say whether there may be so many arguments."""
        most = len(self.parameters)
        return most - self.optional <= count <= most or (self.repeats and count > most)

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
    return {NUMBERS: "number", ARRAYS: "array"}.get(data_types, "value")


FUNCTIONS: Mapping[str, Function] = {
    "abs": Function((NUMBERS,), None, bigint_sql=f"abs(nullif({{0}}, ({SMALLEST}L)))"),
    "array_contains": Function((ARRAYS, PLAIN), DataType.BOOLEAN),
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
    "get": Function((ARRAYS, BIGINTS), None, sql="get({0}, try_cast({1} AS INT))"),
    "get_json_object": Function((TEXTS, TEXTS), DataType.STRING, constant=parse_json_path),
    "greatest": Function((PLAIN, PLAIN), None, repeats=True),
    "if": Function((BOOLEANS, PLAIN, PLAIN), None),
    "isnan": Function((NUMBERS,), DataType.BOOLEAN, bigint_sql="isnan(CAST({0} AS DOUBLE))"),
    "least": Function((PLAIN, PLAIN), None, repeats=True),
    "length": Function((TEXTS,), DataType.BIGINT, sql="CAST(length({0}) AS BIGINT)"),
    "lower": Function((TEXTS,), DataType.STRING, sql="concat(lower({0}), '')"),
    "nullif": Function((PLAIN, PLAIN), None),
    "regexp_like": Function((TEXTS, TEXTS), DataType.BOOLEAN, constant=common_regex),
    "sign": Function((NUMBERS,), DataType.DOUBLE, bigint_sql="sign(CAST({0} AS DOUBLE))"),
    "size": Function((ARRAYS,), DataType.BIGINT, sql="CAST(array_size({0}) AS BIGINT)"),
    "sqrt": Function((NUMBERS,), DataType.DOUBLE, bigint_sql="sqrt(CAST({0} AS DOUBLE))"),
    "startswith": Function((TEXTS, TEXTS), DataType.BOOLEAN),
    "substring": Function(
        (TEXTS, BIGINTS, BIGINTS),
        DataType.STRING,
        sql="substring({0}, try_cast({1} AS INT), try_cast({2} AS INT))",
    ),
    "timestamp_micros": Function((BIGINTS,), DataType.TIMESTAMP),
    "timestamp_millis": Function(
        (BIGINTS,), DataType.TIMESTAMP, sql="timestamp_micros(try_multiply({0}, 1000L))"
    ),
    "timestamp_seconds": Function(
        (BIGINTS,), DataType.TIMESTAMP, sql="timestamp_micros(try_multiply({0}, 1000000L))"
    ),
    "to_timestamp": Function(
        (TEXTS, TEXTS), DataType.TIMESTAMP, optional=1, constant=rewrite_format
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
    if len(known) > 1:
        if known <= NUMBERS:
            return DataType.DOUBLE if DataType.DOUBLE in known else DataType.DECIMAL
        return DataType.TIMESTAMP if known == TIMES else None
    is_open = DataType.UNKNOWN in not_null and known <= _WIDENING
    return DataType.UNKNOWN if is_open else known.pop()


_WIDENING = {DataType.BIGINT, DataType.DECIMAL, DataType.DATE}  # may agree on another


def exact_decimals(
    operands: Sequence[Expression], data_types: Sequence[DataType]
) -> Mapping[int, Decimal]:
    """Find the doubles that are written down and can be compared with decimals exactly.

    They are given by their place, unless one of the operands is another double: then all are
    compared as doubles.

    Example:
        >>> from shedlight.language.ast.expression import Attribute
        >>> exact_decimals(
        ...     [Attribute("", ("m",)), Literal(0.1)], [DataType.DECIMAL, DataType.DOUBLE]
        ... )
        {1: Decimal('0.1')}
    """
    if DataType.DECIMAL not in data_types or DataType.DOUBLE not in data_types:
        return {}
    found = {}
    for place, (operand, data_type) in enumerate(zip(operands, data_types, strict=True)):
        if data_type is DataType.DOUBLE:
            value = operand.value if isinstance(operand, Literal) else None
            exact = Decimal(repr(value)) if isinstance(value, float) else None
            if exact is None or not _is_kept(exact):
                return {}
            found[place] = exact
    return found


def _is_kept(value: Decimal) -> bool:
    """Whether a number is one of 20 digits before the point and 18 behind it."""
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -18 and abs(value) < 10**20  # noqa: PLR2004


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
    if parameters[0] == ARRAYS:
        array = data_types[0]
        others = (t if t == BIGINTS else {array.element or array} for t in parameters[1:])
        return (array, *(next(iter(allowed)) for allowed in others))
    agreed = common_data_type(free) or DataType.NULL
    return tuple(
        next(iter(allowed))
        if len(allowed) == 1
        else (numeric_data_type(agreed) if allowed == NUMBERS else agreed)
        for allowed in parameters
    )


def result_data_type(function: Function, taken: Sequence[DataType]) -> DataType:
    """Find the data type of a result, of those that `argument_data_types` gave."""
    if function.result is not None:
        return function.result
    return taken[0].element or taken[0] if function.parameters[0] == ARRAYS else taken[-1]


def numeric_data_type(data_type: DataType | None) -> DataType:
    """Find the data type in which a number is computed with.

    A null where a number belongs is a bigint, and a decimal is computed with as a double.
    """
    if data_type is None or data_type is DataType.NULL:
        return DataType.BIGINT
    return DataType.DOUBLE if data_type is DataType.DECIMAL else data_type
