"""From columns to types: the signature of every event of a batch, and a number for each."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.automaton.alphabet import Alphabet, ClosedSet
from shedlight.automaton.compiled import compiled
from shedlight.automaton.pools import Array
from shedlight.language.column import TEXT, Column
from shedlight.language.columns import evaluate, holds
from shedlight.language.expression import Expression
from shedlight.language.kind import Kind

Signature = tuple[int, ...]
Lookup = Callable[[Expression], Column]

_MOST_DIRECT = 1 << 20
_WIDEST_RANGE = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Types:
    """The signatures seen so far; a number stays, but which one it is means nothing."""

    alphabet: Alphabet
    signatures: tuple[Signature, ...] = ()
    numbers: Mapping[Signature, int] = field(default_factory=dict)

    def label(self, number: int) -> str:
        """Name a type; empty if no pattern has any use for it."""
        return self.alphabet.label(self.signatures[number])


def classify(types: Types, rows: int, lookup: Lookup) -> tuple[Types, Array]:
    """Find the type of every row; signatures that are new get the next numbers."""
    components = list(_components(types.alphabet, rows, lookup))
    sizes = [one.codes for one in types.alphabet.closed] + [2] * len(types.alphabet.open)
    codes, size = _joined(components, sizes, rows)
    first = np.full(size, -1, np.int64)
    _find_first(codes, first)
    numbers = dict(types.numbers)
    known = np.zeros(size, np.int32)
    for code in np.flatnonzero(first >= 0):
        signature = tuple(int(component[first[code]]) for component in components)
        known[code] = numbers.setdefault(signature, len(numbers))
    if len(numbers) > len(types.numbers):
        types = Types(types.alphabet, tuple(numbers), numbers)
    return types, looked_up(known, codes)


def looked_up(table: Array, numbers: Array) -> Array:
    """Look numbers up in a table, without the wide copy that numpy makes of them."""
    found = np.empty(len(numbers), table.dtype)
    _look_up(table, numbers, found)
    return found


@compiled
def _look_up(table: Array, numbers: Array, found: Array) -> None:
    for i in range(numbers.shape[0]):
        found[i] = table[numbers[i]]


@compiled
def _find_first(codes: Array, first: Array) -> None:
    """Find the first row of every code."""
    for row in range(codes.shape[0]):
        if first[codes[row]] < 0:
            first[codes[row]] = row


def _components(alphabet: Alphabet, rows: int, lookup: Lookup) -> Iterator[Array]:
    for one in alphabet.closed:
        yield _closed_codes(one, lookup(one.column))
    for condition in alphabet.open:
        truth = holds(evaluate(condition, rows, lookup))
        yield np.broadcast_to(truth, rows).astype(np.int32)


def _closed_codes(one: ClosedSet, column: Column) -> Array:
    """Say which constant each value is: its number, one past them for others, two for null."""
    other = len(one.values)
    if column.kind is Kind.STRING:
        texts = [v if isinstance(v, str) else None for v in one.values]
        values = pa.array(texts, TEXT)
        codes = (
            pc.index_in(column.values, value_set=values)
            .fill_null(other)
            .to_numpy(zero_copy_only=False)
        )
    elif column.kind in {Kind.BIGINT, Kind.TIMESTAMP, Kind.DOUBLE}:
        return _number_codes(one, column)
    else:
        codes = np.full(len(column), other)
    return np.where(column.valid, codes, other + 1).astype(np.int32)


def _number_codes(one: ClosedSet, column: Column) -> Array:
    numbers = sorted((v, i) for i, v in enumerate(one.values) if isinstance(v, int))
    other = len(one.values)
    values = column.values
    low, high = (numbers[0][0], numbers[-1][0]) if numbers else (0, -1)
    if values.dtype == np.int64 and high - low < _WIDEST_RANGE:
        table = np.full(high - low + 1, other, np.int32)
        table[[v - low for v, _ in numbers]] = [i for _, i in numbers]
        codes = np.empty(len(values), np.int32)
        _code_by_table(values, low, table, other, codes)
        if not column.valid.all():
            codes[~column.valid] = other + 1
        return codes
    known = np.array([v for v, _ in numbers], values.dtype)
    place = np.minimum(np.searchsorted(known, values), len(numbers) - 1)
    codes = np.where(known[place] == values, np.array([i for _, i in numbers])[place], other)
    return np.where(column.valid, codes, other + 1).astype(np.int32)


@compiled
def _code_by_table(values: Array, low: int, table: Array, other: int, codes: Array) -> None:
    """Look values up in a table that begins at the lowest constant."""
    size = np.uint64(table.shape[0])
    for i in range(values.shape[0]):
        place = np.uint64(values[i] - low)  # below the lowest, it is a very large number
        codes[i] = table[place] if place < size else other


def _joined(components: list[Array], sizes: list[int], rows: int) -> tuple[Array, int]:
    """Join the codes of several components into one code, below the size that is given too."""
    if not components:
        return np.zeros(rows, np.int32), 1
    codes, size = components[0], sizes[0]
    for component, width in zip(components[1:], sizes[1:], strict=True):
        if size * width >= 1 << 62:
            codes, size = _renumbered(codes)
        codes = codes.astype(np.int64) * width + component
        size *= width
    return _renumbered(codes) if size > _MOST_DIRECT else (codes, size)


def _renumbered(codes: Array) -> tuple[Array, int]:
    """Give the codes that occur the numbers from 0 on."""
    encoded = pa.array(codes).dictionary_encode()
    return encoded.indices.to_numpy(), len(encoded.dictionary)
