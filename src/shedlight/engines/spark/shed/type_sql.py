"""Event types found in the JVM: an operator's alphabet as Spark SQL.

A signature has a code per closed set and a flag per other condition. Written as one number with
a digit each, it is the index of the signature among all that are possible. Where these are too
many to list, the number is not computed, and event types are found in Python alone.
"""

from collections.abc import Callable, Container, Iterator, Sequence

from shedlight.language.ast.data_type import DataType, Schema
from shedlight.language.ast.expression import Attribute, Cast, Expression
from shedlight.language.eval.spark_sql import decimal_literal, quote_text, spark_sql
from shedlight.matching.compile.predicates import Alphabet, ClosedSet
from shedlight.matching.hashing import HASHED_AS_BYTES, MAX_NULL_FLAGS
from shedlight.matching.operators.cep_operator import CepOperator, data_type_in, schema_of

_MAX_RANGE = 1 << 16
"""How far apart whole constants are at most that are looked up by their index."""


def type_sql(operator: CepOperator) -> str:
    """Write the number of an event's signature as Spark SQL."""
    number = "0L"
    digits = _digits(operator.alphabet, schema_of(operator.schema))
    for size, digit in zip(operator.alphabet.sizes, digits, strict=True):
        number = f"({number} * {size}L + {digit})"
    return number


def _digits(alphabet: Alphabet, schema: Schema) -> Iterator[str]:
    def scope(node: Expression) -> DataType:
        return data_type_in(schema, node)

    for closed in alphabet.closed:
        yield _code_sql(closed, spark_sql(closed.column, scope), scope(closed.column))
    for condition in alphabet.open:
        text = spark_sql(condition, scope, DataType.BOOLEAN)
        yield f"IF(coalesce({text}, false), 1L, 0L)"


def _code_sql(closed: ClosedSet, column: str, data_type: DataType) -> str:
    """Say which constant a value is: its number, one past them for others, two for null."""
    other = len(closed.values)
    found = _constant_sql(closed, column, data_type)
    return f"CASE WHEN {column} IS NULL THEN {other + 1}L {found} ELSE {other}L END"


_LITERALS: dict[DataType, tuple[type, Callable[..., str]]] = {
    DataType.STRING: (str, quote_text),
    DataType.DOUBLE: (int, lambda value: f"{float(value)!r}D"),
    DataType.BIGINT: (int, lambda value: f"({int(value)}L)"),
    DataType.TIMESTAMP: (int, lambda value: f"({int(value)}L)"),
    DataType.DECIMAL: (int, decimal_literal),
}
"""The Python type of the constants of a column, and how they are written."""


def _constant_sql(closed: ClosedSet, column: str, data_type: DataType) -> str:
    python_type, literal = _LITERALS.get(data_type, (int, str))
    numbers = {v: i for i, v in enumerate(closed.values) if isinstance(v, python_type)}
    if not numbers or data_type not in _LITERALS:
        return ""
    if data_type is DataType.TIMESTAMP:
        column = f"unix_micros({column})"
    if data_type in {DataType.BIGINT, DataType.TIMESTAMP}:
        whole = list(map(int, numbers))
        low, high = min(whole), max(whole)
        if high - low < _MAX_RANGE:
            each = (f"{numbers.get(v, len(closed.values))}L" for v in range(low, high + 1))
            found = f"get(array({', '.join(each)}), CAST({column} - ({low}L) AS INT))"
            return f"WHEN {column} BETWEEN ({low}L) AND ({high}L) THEN {found}"
    codes = ", ".join(f"{number}L" for number in numbers.values())
    constants = f"array({', '.join(map(literal, numbers))})"
    index = f"CAST(array_position({constants}, {column}) AS INT) - 1"
    return f"WHEN array_contains({constants}, {column}) THEN get(array({codes}), {index})"


def hash_sql(columns: Sequence[Attribute], schema: Schema, *more: str) -> str:
    """Hash columns as `matching/hashing.py` does: whole numbers as bigints, and texts."""
    return f"xxhash64({', '.join([*_terms(columns, schema), *more])})"


def key_hash_sql(
    columns: Sequence[Attribute],
    schema: Schema,
    *more: str,
    missing: Container[Attribute] = (),
) -> str:
    """Hash a key as `hash_keys` does first, with marks of what is null, and then others.

    Columns that are missing are null; the schema has their data types, too.
    """
    terms = [
        _NULL if column in missing else term
        for column, term in zip(columns, _terms(columns, schema), strict=True)
    ]
    if len(columns) == 1 and data_type_in(schema, columns[0]) not in HASHED_AS_BYTES:
        return f"xxhash64({', '.join([*terms, *more])})"
    marks = []
    for start in range(0, len(terms), MAX_NULL_FLAGS):
        bits = enumerate(terms[start : start + MAX_NULL_FLAGS])
        marks.append(" | ".join(f"IF({term} IS NULL, 0L, {1 << bit}L)" for bit, term in bits))
    return f"xxhash64({', '.join([*terms, *marks, *more])})"


_NULL = "CAST(NULL AS BIGINT)"


def _terms(columns: Sequence[Attribute], schema: Schema) -> list[str]:
    terms = []
    for column in columns:
        data_type = data_type_in(schema, column)
        text = spark_sql(column, lambda _, data_type=data_type: data_type)  # type: ignore[misc]
        if data_type is DataType.DATE:  # hashed as its midnight
            midnight = Cast(column, DataType.TIMESTAMP)
            text = spark_sql(midnight, lambda _, data_type=data_type: data_type)  # type: ignore[misc]
        if data_type is DataType.BOOLEAN:
            text = f"CAST({text} AS BIGINT)"
        if data_type is DataType.DOUBLE:
            text = f"(CAST({text} AS DOUBLE) + 0.0D)"  # the two zeros are one key
        terms.append(text)
    return terms
