"""The types of events, found in the JVM: an operator's alphabet as Spark SQL.

A signature has a code per closed set and a flag per other condition. Written as one number with
a digit each, it is the place of the signature among all that are possible. Where these are too
many to list, the number is not computed, and events are told apart in Python alone.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from shedlight.language.ast.data_type import DataType, Schema
from shedlight.language.ast.expression import Attribute, Expression
from shedlight.language.eval.spark_sql import quote_text, spark_sql
from shedlight.matching.compile.predicates import Alphabet, ClosedSet, Signature
from shedlight.matching.operators.cep_operator import Operator, data_type_in, schema_of

MOST_TYPES = 1 << 15
"""How many signatures are listed at most."""

_WIDEST_RANGE = 1 << 16


def all_signatures(alphabet: Alphabet) -> Sequence[Signature] | None:
    """List all signatures, each at the place of its number; None if there are too many."""
    sizes = _sizes(alphabet)
    return list(product(*map(range, sizes))) if prod(sizes) <= MOST_TYPES else None


def type_sql(operator: Operator) -> str:
    """Write the number of an event's signature as Spark SQL."""
    schema = schema_of(operator.schema)
    number = "0L"
    digits = _digits(operator.alphabet, schema)
    for size, digit in zip(_sizes(operator.alphabet), digits, strict=True):
        number = f"({number} * {size}L + {digit})"
    return number


def _sizes(alphabet: Alphabet) -> list[int]:
    return [one.codes for one in alphabet.closed] + [2] * len(alphabet.open)


def _digits(alphabet: Alphabet, schema: Schema) -> Iterator[str]:
    def scope(node: Expression) -> DataType:
        return data_type_in(schema, node)

    for one in alphabet.closed:
        yield _code(one, spark_sql(one.column, scope), scope(one.column))
    for condition in alphabet.open:
        text = spark_sql(condition, scope, DataType.BOOLEAN)
        yield f"IF(coalesce({text}, false), 1L, 0L)"


def _code(one: ClosedSet, column: str, kind: DataType) -> str:
    """Say which constant a value is: its number, one past them for others, two for null."""
    other = len(one.values)
    found = _constant(one, column, kind)
    return f"CASE WHEN {column} IS NULL THEN {other + 1}L {found} ELSE {other}L END"


def _constant(one: ClosedSet, column: str, kind: DataType) -> str:
    wanted = str if kind is DataType.STRING else int
    constants = [(v, i) for i, v in enumerate(one.values) if isinstance(v, wanted)]
    if not constants or kind not in {
        DataType.STRING,
        DataType.BIGINT,
        DataType.DOUBLE,
        DataType.TIMESTAMP,
    }:
        return ""
    if kind is DataType.STRING:
        return _by_position(column, [quote_text(str(v)) for v, _ in constants], constants)
    if kind is DataType.DOUBLE:
        return _by_position(column, [f"{float(v)!r}D" for v, _ in constants], constants)
    whole = f"unix_micros({column})" if kind is DataType.TIMESTAMP else column
    numbers = {int(v): i for v, i in constants}
    low, high = min(numbers), max(numbers)
    if high - low >= _WIDEST_RANGE:
        return _by_position(whole, [f"({v}L)" for v, _ in constants], constants)
    codes = [f"{numbers.get(v, len(one.values))}L" for v in range(low, high + 1)]
    place = f"CAST({whole} - ({low}L) AS INT)"
    found = f"get(array({', '.join(codes)}), {place})"
    return f"WHEN {whole} BETWEEN ({low}L) AND ({high}L) THEN {found}"


def _by_position(
    column: str, texts: Sequence[str], constants: Sequence[tuple[object, int]]
) -> str:
    """Look a value up among constants, one after the other."""
    codes = ", ".join(f"{i}L" for _, i in constants)
    listed = f"array({', '.join(texts)})"
    place = f"CAST(array_position({listed}, {column}) AS INT)"
    return f"WHEN array_contains({listed}, {column}) THEN get(array({codes}), {place} - 1)"


def hash_sql(columns: Sequence[Attribute], schema: Schema, *more: str) -> str:
    """Hash columns as `automaton/hashing.py` does: whole numbers as bigints, and texts."""
    terms = []
    for column in columns:
        kind = data_type_in(schema, column)
        text = spark_sql(column, lambda _, kind=kind: kind)  # type: ignore[misc]
        if kind is DataType.BOOLEAN:
            text = f"CAST({text} AS BIGINT)"
        if kind is DataType.DOUBLE:
            text = f"({text} + 0.0D)"  # the two zeros are one key
        terms.append(text)
    return f"xxhash64({', '.join([*terms, *more])})"
