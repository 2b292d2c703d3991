"""Hashes are those of Spark SQL, value by value."""

import numpy as np
import pyarrow as pa
import pytest

from shedlight.automaton.hashing import hash_keys, hash_rows, hash_twice
from shedlight.language.column import column_of

NUMBERS = [0, 1, -1, 42, 2**63 - 1, -(2**63), None, 7, 10**12, -5]
TEXTS = [
    "",
    "a",
    "abcd",
    "ä",
    "12345678",
    None,
    "x" * 31,
    "y" * 32,
    "z" * 100,
    "😀 longer than that",
]


@pytest.mark.spark
def test_hashes_are_those_of_spark(spark):
    """Whole numbers, texts of every length class, nulls, and rows of several columns."""
    rows = list(zip(NUMBERS, TEXTS, strict=True))
    frame = spark.createDataFrame(rows, "n bigint, t string")
    expected = frame.selectExpr(
        "xxhash64(n) AS n",
        "xxhash64(t) AS t",
        "xxhash64(n, t) AS both",
        "xxhash64(t, n, t) AS more",
    ).collect()
    n, t = column_of(pa.array(NUMBERS, pa.int64())), column_of(pa.array(TEXTS, pa.string()))

    ours = [hash_rows(columns, len(rows)) for columns in ([n], [t], [n, t], [t, n, t])]

    assert np.stack(ours, axis=1).tolist() == [list(row) for row in expected]


def test_a_key_of_one_number_is_exact():
    """The hash of a number is a permutation; null is a key of its own."""
    column = column_of(pa.array([*range(-50_000, 50_000), None]))
    first, second = hash_keys([column], 100_001)
    assert len(set(zip(first.tolist(), second.tolist(), strict=True))) == 100_001


def test_equal_numbers_are_one_key():
    """0.0 and -0.0, and all NaN."""
    column = column_of(pa.array([0.0, -0.0, np.nan, -np.nan, None]))
    keys = list(zip(*map(np.ndarray.tolist, hash_keys([column], 5)), strict=True))
    assert keys[0] == keys[1]
    assert keys[2] == keys[3]
    assert len(set(keys)) == 3


def test_null_has_its_place_in_a_key_of_several_columns():
    """(null, 1) is not (1, null)."""
    one, other = column_of(pa.array([None, 1])), column_of(pa.array([1, None]))
    first, second = hash_keys([one, other], 2)
    assert (first[0], second[0]) != (first[1], second[1])


def test_two_hashes_at_once_are_those_of_each_seed():
    """Of numbers and texts, with nulls."""
    columns = [
        column_of(pa.array([1, None, -7], pa.int64())),
        column_of(pa.array(["a", "b" * 40, None])),
    ]
    both = hash_twice(columns, 3, (42, 7))
    assert [one.tolist() for one in both] == [
        hash_rows(columns, 3, seed).tolist() for seed in (42, 7)
    ]


def test_each_of_many_columns_has_a_null_mark():
    """Also beyond those that one column of marks is for."""
    keys = set()
    for place in range(70):
        values = [None if at == place else 1 for at in range(70)]
        columns = [column_of(pa.array([one], pa.int64())) for one in values]
        keys.add(tuple(int(one[0]) for one in hash_keys(columns, 1)))
    assert len(keys) == 70
