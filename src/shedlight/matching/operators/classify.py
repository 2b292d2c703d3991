"""From columns to types: the signature of every event of a batch, and a number for each."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Expression
from shedlight.language.eval.column import DECIMAL, TEXT, Column
from shedlight.language.eval.evaluate import evaluate, is_true
from shedlight.matching.compile.predicates import Alphabet, ClosedSet, Signature
from shedlight.matching.jit import Array, compiled

Lookup = Callable[[Expression], Column]

_MAX_DIRECT_CODES = 1 << 20
_MAX_TABLE_RANGE = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class EventTypes:
    """The signatures seen so far; a number stays, but which one it is means nothing."""

    alphabet: Alphabet
    signatures: tuple[Signature, ...] = ()
    numbers: Mapping[Signature, int] = field(default_factory=dict)

    def label(self, number: int) -> str:
        """Name a type; empty if no pattern has any use for it."""
        return self.alphabet.label(self.signatures[number])


def classify(types: EventTypes, rows: int, lookup: Lookup) -> tuple[EventTypes, Array]:
    """Find the type of every row; signatures that are new get the next numbers."""
    alphabet = types.alphabet
    if len(alphabet.closed) == 1 and not alphabet.open:
        column = lookup(alphabet.closed[0].column)
        table = _table(alphabet.closed[0], column)
        if table is not None and column.valid.all():
            return _classify_by_table(types, column.values, table)
    components = list(_components(alphabet, rows, lookup))
    sizes = [closed.codes for closed in alphabet.closed] + [2] * len(alphabet.open)
    codes, size = _joined(components, sizes, rows)
    first = np.full(size, -1, np.int64)
    _find_first(codes, first)
    types, known = _with_new(types, first, lambda row: tuple(int(c[row]) for c in components))
    return types, gather(known, codes)


def _with_new(
    types: EventTypes, first: Array, signature_of: Callable[[int], Signature]
) -> tuple[EventTypes, Array]:
    """Number the codes that occur, given the first row of each; those that do not are -1."""
    numbers = dict(types.numbers)
    known = np.zeros(len(first), np.int32)
    for code in np.flatnonzero(first >= 0):
        known[code] = numbers.setdefault(signature_of(first[code]), len(numbers))
    if len(numbers) > len(types.numbers):
        types = EventTypes(types.alphabet, tuple(numbers), numbers)
    return types, known


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """The codes of whole numbers from a lowest one on; the last is that of all others."""

    low: int
    codes: Array

    @property
    def other(self) -> int:
        """The code of values that are none of the constants."""
        return int(self.codes[-1])


def _classify_by_table(
    types: EventTypes, values: Array, table: _Table
) -> tuple[EventTypes, Array]:
    """Classify by one attribute alone: see which codes occur, then write types at once."""
    first = np.full(table.other + 1, -1, np.int64)
    _find_first_by_table(values, table.low, table.codes, first)

    def signature_of(row: int) -> Signature:
        offset = int(values[row]) - table.low
        return (int(table.codes[offset if 0 <= offset < len(table.codes) else -1]),)

    types, known = _with_new(types, first, signature_of)
    numbers = np.empty(len(values), np.int32)
    _code_by_table(values, table.low, known[table.codes], numbers)
    return types, numbers


@compiled
def _find_first_by_table(values: Array, low: int, table: Array, first: Array) -> None:
    """Find the first row of every code."""
    last = np.uint64(table.shape[0] - 1)
    missing = first.shape[0]
    for row in range(values.shape[0]):
        code = table[min(np.uint64(values[row] - low), last)]
        if first[code] < 0:
            first[code] = row
            missing -= 1
            if missing == 0:
                return


def gather(table: Array, numbers: Array) -> Array:
    """Look numbers up in a table, without the wide copy that numpy makes of them."""
    gathered = np.empty(len(numbers), table.dtype)
    _gather(table, numbers, gathered)
    return gathered


@compiled
def _gather(table: Array, numbers: Array, gathered: Array) -> None:
    for i in range(numbers.shape[0]):
        gathered[i] = table[numbers[i]]


def count_numbers(numbers: Array, size: int, chosen: Array | None = None) -> Array:
    """Count how often each number below `size` occurs, in chosen rows or (None) in all."""
    counts = np.zeros(size, np.int64)
    if chosen is None:
        _count(numbers, counts)
    else:
        _count_chosen(numbers, chosen, counts)
    return counts


@compiled
def _count(numbers: Array, counts: Array) -> None:
    for i in range(numbers.shape[0]):
        counts[numbers[i]] += 1


@compiled
def _count_chosen(numbers: Array, chosen: Array, counts: Array) -> None:
    for i in range(numbers.shape[0]):
        counts[numbers[i]] += chosen[i]


@compiled
def _find_first(codes: Array, first: Array) -> None:
    """Find the first row of every code."""
    for row in range(codes.shape[0]):
        if first[codes[row]] < 0:
            first[codes[row]] = row


def _components(alphabet: Alphabet, rows: int, lookup: Lookup) -> Iterator[Array]:
    for closed in alphabet.closed:
        yield _closed_codes(closed, lookup(closed.column))
    for condition in alphabet.open:
        truth = is_true(evaluate(condition, rows, lookup))
        yield np.broadcast_to(truth, rows).astype(np.int32)


def _closed_codes(closed: ClosedSet, column: Column) -> Array:
    """Say which constant each value is: its number, one past them for others, two for null."""
    other = len(closed.values)
    if column.data_type is DataType.STRING:
        texts = pa.array([v if isinstance(v, str) else None for v in closed.values], TEXT)
        numbers = pc.index_in(column.values, value_set=texts).fill_null(other)
        codes = numbers.to_numpy(zero_copy_only=False)
    elif column.data_type is DataType.DECIMAL:
        known = [Decimal(v) if isinstance(v, int) else None for v in closed.values]
        numbers = pc.index_in(column.values, value_set=pa.array(known, DECIMAL))
        codes = numbers.fill_null(other).to_numpy(zero_copy_only=False)
    elif column.data_type in {DataType.BIGINT, DataType.TIMESTAMP, DataType.DOUBLE}:
        return _number_codes(closed, column)
    else:
        codes = np.full(len(column), other)
    return np.where(column.valid, codes, other + 1).astype(np.int32)


def _number_codes(closed: ClosedSet, column: Column) -> Array:
    table, values = _table(closed, column), column.values
    if table is not None:
        codes = np.empty(len(values), np.int32)
        _code_by_table(values, table.low, table.codes, codes)
        codes[~column.valid] = table.other + 1
        return codes
    numbers = sorted((v, i) for i, v in enumerate(closed.values) if isinstance(v, int))
    other = len(closed.values)
    if not numbers:
        return np.where(column.valid, other, other + 1).astype(np.int32)
    known = np.array([v for v, _ in numbers], values.dtype)
    nearest = np.minimum(np.searchsorted(known, values), len(numbers) - 1)
    code_of = np.array([i for _, i in numbers])
    codes = np.where(known[nearest] == values, code_of[nearest], other)
    return np.where(column.valid, codes, other + 1).astype(np.int32)


def _table(closed: ClosedSet, column: Column) -> _Table | None:
    """Lay the constants out as a table, if they are whole numbers close together."""
    numbers = [(v, i) for i, v in enumerate(closed.values) if isinstance(v, int)]
    if not numbers or column.data_type not in {DataType.BIGINT, DataType.TIMESTAMP}:
        return None
    low, high = min(numbers)[0], max(numbers)[0]
    if high - low >= _MAX_TABLE_RANGE:
        return None
    codes = np.full(high - low + 2, len(closed.values), np.int32)
    codes[[v - low for v, _ in numbers]] = [i for _, i in numbers]
    return _Table(low, codes)


@compiled
def _code_by_table(values: Array, low: int, table: Array, codes: Array) -> None:
    """Look values up in a table that begins at the lowest constant."""
    last = np.uint64(table.shape[0] - 1)
    for i in range(values.shape[0]):  # below the lowest, the difference is a very large number
        codes[i] = table[min(np.uint64(values[i] - low), last)]


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
    return _renumbered(codes) if size > _MAX_DIRECT_CODES else (codes, size)


def _renumbered(codes: Array) -> tuple[Array, int]:
    """Give the codes that occur the numbers from 0 on."""
    encoded = pa.array(codes).dictionary_encode()
    return encoded.indices.to_numpy(), len(encoded.dictionary)
