"""Hashes are those of Spark SQL, value by value."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.language.eval.column import to_column
from shedlight.matching.hashing import hash_keys, hash_rows

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
    n, t = to_column(pa.array(NUMBERS, pa.int64())), to_column(pa.array(TEXTS, pa.string()))

    ours = [hash_rows(columns, len(rows)) for columns in ([n], [t], [n, t], [t, n, t])]

    assert np.stack(ours, axis=1).tolist() == [list(row) for row in expected]


def test_a_key_of_one_number_is_exact():
    """The hash of a number is a permutation; null is a key of its own."""
    column = to_column(pa.array([*range(-50_000, 50_000), None]))
    first, second = hash_keys([column], 100_001)
    assert len(set(zip(first.tolist(), second.tolist(), strict=True))) == 100_001


def test_equal_numbers_are_one_key():
    """0.0 and -0.0, and all NaN."""
    column = to_column(pa.array([0.0, -0.0, np.nan, -np.nan, None]))
    keys = list(zip(*map(np.ndarray.tolist, hash_keys([column], 5)), strict=True))
    assert keys[0] == keys[1]
    assert keys[2] == keys[3]
    assert len(set(keys)) == 3


def test_null_has_its_place_in_a_key_of_several_columns():
    """(null, 1) is not (1, null)."""
    one, other = to_column(pa.array([None, 1])), to_column(pa.array([1, None]))
    first, second = hash_keys([one, other], 2)
    assert (first[0], second[0]) != (first[1], second[1])


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.text(max_size=40),
        st.integers(-5, 5),
    ),
    min_size=1,
    max_size=40,
)


@given(ROWS, st.permutations(range(3)))
def test_rows_together_are_hashed_as_each_alone(rows, order):
    """Whichever column comes first, with nulls or without, also where all are plain."""
    kinds = (pa.int64(), pa.string(), pa.int64())

    def hashed(some):
        arrays = [pa.array([row[i] for row in some], kinds[i]) for i in order]
        columns = [to_column(array) for array in arrays]
        return list(
            zip(hash_rows(columns, len(some)), *hash_keys(columns, len(some)), strict=True)
        )

    assert hashed(rows) == [one for row in rows for one in hashed([row])]


def test_each_of_many_columns_has_a_null_mark():
    """Also beyond those that one column of marks is for."""
    keys = set()
    for place in range(70):
        values = [None if at == place else 1 for at in range(70)]
        columns = [to_column(pa.array([one], pa.int64())) for one in values]
        keys.add(tuple(int(one[0]) for one in hash_keys(columns, 1)))
    assert len(keys) == 70
