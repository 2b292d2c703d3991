"""From columns to types: the signature of every event of a batch, and a number for each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pyarrow as pa

from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Expression
from shedlight.language.eval.column import Column
from shedlight.language.eval.evaluate import evaluate, is_true
from shedlight.matching.compile.predicates import Alphabet, Signature
from shedlight.matching.jit import Array, compiled
from shedlight.matching.operators.codes import (
    CodeTable,
    closed_codes,
    code_by_table,
    find_table,
    interval_codes,
)

Lookup = Callable[[Expression], Column]

_MAX_DIRECT_CODES = 1 << 20
_FEW_CODES = 1 << 12
_MAX_KNOWN = 1 << 16  # how many classes are remembered beyond the types that hold them

Class = tuple[int, ...]
"""Which interval sets were searched (a bit each), then the code of each part of an alphabet."""


@dataclass(frozen=True, slots=True, eq=False)
class EventTypes:
    """The signatures seen so far; a number stays, but which one it is means nothing."""

    alphabet: Alphabet
    signatures: tuple[Signature, ...] = ()
    numbers: Mapping[Signature, int] = field(default_factory=dict)
    # the number of every class of events seen; classes may be finer than types
    classes: Mapping[Class, int] = field(default_factory=dict)
    # the signature of every class that was ever seen, by any that come from the same beginning
    known: dict[Class, Signature] = field(default_factory=dict)

    def label(self, number: int) -> str:
        """Name a type; empty if no pattern has any use for it."""
        return self.alphabet.label(self.signatures[number])


def classify(types: EventTypes, rows: int, lookup: Lookup) -> tuple[EventTypes, Array]:
    """Find the type of every row; signatures that are new get the next numbers."""
    alphabet, lookup = types.alphabet, cache(lookup)
    if len(alphabet.closed) == 1 and not alphabet.open:
        column = lookup(alphabet.closed[0].column)
        table = find_table(alphabet.closed[0], column.data_type)
        if table is not None and column.valid.all():
            return _classify_by_table(types, column.values, table)
    parts = _Parts(alphabet, rows, lookup)
    codes, size = _joined(parts.codes, parts.sizes, rows)
    first = np.full(size, -1, np.int64)
    _find_first(codes, first)
    types, known = _with_new(types, first, parts.classes, parts.signatures)
    return types, gather(known, codes)


def _with_new(
    types: EventTypes,
    first: Array,
    classes_of: Callable[[Array], list[Class]],
    signatures_of: Callable[[Array], list[Signature]],
) -> tuple[EventTypes, Array]:
    """Number the codes that occur, given the first row of each; those that do not are -1."""
    occurring = np.flatnonzero(first >= 0)
    classes = classes_of(first[occurring])
    new = [i for i, each in enumerate(classes) if each not in types.classes]
    if new:
        if len(types.known) > _MAX_KNOWN:
            types.known.clear()
        unknown = [i for i in new if classes[i] not in types.known]
        signatures = signatures_of(first[occurring[unknown]]) if unknown else []
        types.known.update((classes[i], s) for i, s in zip(unknown, signatures, strict=True))
        numbers, all_classes = dict(types.numbers), dict(types.classes)
        for i in new:
            signature = types.known[classes[i]]
            all_classes[classes[i]] = numbers.setdefault(signature, len(numbers))
        types = replace(types, signatures=tuple(numbers), numbers=numbers, classes=all_classes)
    known = np.zeros(len(first), np.int32)
    known[occurring] = [types.classes[each] for each in classes]
    return types, known


class _Parts:
    """What is computed of all rows: a code per closed set, interval set and other condition."""

    def __init__(self, alphabet: Alphabet, rows: int, lookup: Lookup) -> None:
        self._alphabet, self._lookup = alphabet, lookup
        self.codes = [closed_codes(each, lookup(each.column)) for each in alphabet.closed]
        self.sizes = [each.codes for each in alphabet.closed]
        self._searched = 0
        answered: set[int] = set()
        for i, intervals in enumerate(alphabet.intervals):
            column = lookup(intervals.column)
            if column.data_type in {DataType.BIGINT, DataType.DOUBLE}:
                self.codes.append(interval_codes(intervals, column))
                self.sizes.append(intervals.codes)
                self._searched |= 1 << i
                answered.update(intervals.conditions)
        self._single = {}  # the codes of conditions that are evaluated for all rows
        for number, condition in enumerate(alphabet.open):
            if number not in answered:
                self._single[number] = _truth(condition, rows, lookup)
                self.codes.append(self._single[number])
                self.sizes.append(2)

    def classes(self, rows: Array) -> list[Class]:
        """Give the classes of some rows."""
        if not self.codes:
            return [(0,)] * len(rows)
        codes = np.stack([each[rows] for each in self.codes], axis=1).tolist()
        return [(self._searched, *each) for each in codes]

    def signatures(self, rows: Array) -> list[Signature]:
        """Give the signatures of some rows: what intervals answer is evaluated for these."""
        alphabet = self._alphabet
        columns = [each[rows] for each in self.codes[: len(alphabet.closed)]]
        at_rows = cache(lambda node: _rows_of(self._lookup(node), rows))
        for number, condition in enumerate(alphabet.open):
            single = self._single.get(number)
            columns.append(
                _truth(condition, len(rows), at_rows) if single is None else single[rows]
            )
        if not columns:
            return [()] * len(rows)
        return list(map(tuple, np.stack(columns, axis=1).tolist()))


def _truth(condition: Expression, rows: int, lookup: Lookup) -> Array:
    truth = is_true(evaluate(condition, rows, lookup))
    return np.broadcast_to(truth, rows).astype(np.int32)


def _rows_of(column: Column, rows: Array) -> Column:
    values = column.values
    taken = values[rows] if isinstance(values, np.ndarray) else values.take(pa.array(rows))
    return Column(column.data_type, taken, column.valid[rows])


def _classify_by_table(
    types: EventTypes, values: Array, table: CodeTable
) -> tuple[EventTypes, Array]:
    """Classify by one attribute alone: see which codes occur, then write types at once."""
    first = np.full(table.other + 1, -1, np.int64)
    _find_first_by_table(values, table.low, table.codes, first)

    def codes_of(rows: Array) -> list[int]:
        codes = np.empty(len(rows), np.int32)
        code_by_table(values[rows], table.low, table.codes, codes)
        return codes.tolist()

    types, known = _with_new(
        types,
        first,
        lambda rows: [(0, code) for code in codes_of(rows)],
        lambda rows: [(code,) for code in codes_of(rows)],
    )
    numbers = np.empty(len(values), np.int32)
    code_by_table(values, table.low, known[table.codes], numbers)
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
    few = min(_MAX_DIRECT_CODES, 8 * rows + _FEW_CODES)  # a table of codes costs its size
    return _renumbered(codes) if size > few else (codes, size)


def _renumbered(codes: Array) -> tuple[Array, int]:
    """Give the codes that occur the numbers from 0 on."""
    encoded = pa.array(codes).dictionary_encode()
    return encoded.indices.to_numpy(), len(encoded.dictionary)
