"""Errors of Spark as users see them: a sentence, and what to do."""

import pytest

from shedlight.engines.spark.support.checkpoint import parse_state_damage
from shedlight.engines.spark.support.spark_errors import (
    root_cause,
    to_user_error,
    translating_spark_errors,
)
from shedlight.errors import InputError, ShedlightError, StateError

FAILED = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage \
failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3 in stage 0.0: \
org.apache.spark.SparkException: {} SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.x(QueryExecutionErrors.scala:856)
"""
MISMATCH = (
    "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading file "
    "file:///data/2.parquet. Data type mismatches when reading Parquet column [n]. Expected "
    "Spark type bigint, actual Parquet type BINARY."
)
CHANGED = (
    "the file file:///data/2.parquet has BINARY in column 'n', where bigint was before; write "
    "the column as it was, or start anew with a `schema` and an empty checkpoint"
)

NO_DELTA = (
    "Spark has no format 'delta'; add Delta Lake with --conf spark.jars.packages="
    "io.delta:delta-spark_X.Y_2.13:4.4.0, where X.Y is the version of Spark, 4.0, 4.1 or 4.2 "
    "(for 4.3 there is none yet), and the two settings that it asks for"
)
OTHER_SPARK = (
    "a package that was added to Spark is made for another version of it, or lacks a jar "
    "(java.lang.NoSuchMethodError: 'void a.B.c()'); add the one that is made for this Spark, "
    "with all that it needs"
)


@pytest.mark.parametrize(
    ("said", "error_type", "message"),
    [
        (
            FAILED.format(MISMATCH),
            InputError,
            CHANGED,
        ),
        (
            FAILED.format(
                "[USER_RAISED_EXCEPTION] shedlight found a malformed record: s: no time"
            ),
            InputError,
            "s: no time",
        ),
        (
            "Traceback ...\nshedlight.errors.StateError: it is damaged\n\n\tat a.b",
            StateError,
            "it is damaged",
        ),
        (
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make sure ...",
            InputError,
            NO_DELTA,
        ),
        (
            "It failed.\n: java.lang.NoSuchMethodError: 'void a.B.c()'\n\tat a.b(C.java)",
            InputError,
            OTHER_SPARK,
        ),
    ],
)
def test_what_a_user_can_put_right_is_said_in_our_words(said, error_type, message):
    """With the place, and without Spark's own words around it."""
    error = to_user_error(said)

    assert type(error) is error_type
    assert str(error) == message


def test_the_rest_is_a_sentence():
    """What has a name; else the cause; else what is thrown; else the first line."""
    assert root_cause(FAILED.format("[NO_ROOM] no room.")) == "[NO_ROOM] no room."
    assert root_cause(FAILED.format("no room")).startswith("Job aborted due to stage failure")
    assert root_cause("a\n\tat b.c(D.java)\nCaused by: java.io.IOException: full") == (
        "java.io.IOException: full"
    )
    assert root_cause("") == "Spark failed"
    assert str(to_user_error("[NO_ROOM] no room", "sink k cannot be written")) == (
        "sink k cannot be written: [NO_ROOM] no room"
    )


def test_an_error_of_ours_is_left_alone():
    """Only what Spark raises is put into other words."""
    with pytest.raises(ShedlightError, match=r"^as it is$"), translating_spark_errors():
        raise ShedlightError("as it is")


_LOAD = (
    "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state. {} "
    "file=/runs/fraud/edge/query/state/0/0/5.delta SQLSTATE: 58030"
)


@pytest.mark.parametrize(
    ("why", "is_damage"),
    [
        ("java.io.EOFException", True),
        ("/runs/fraud/edge/query/state/0/0/5.delta does not exist", True),
        ("org.apache.hadoop.hdfs.BlockMissingException: no live nodes contain block", False),
        ("java.net.ConnectException: Connection refused", False),
        ("java.io.IOException: Too many open files", False),
    ],
)
def test_a_state_that_cannot_be_read_now_is_not_damaged(why, is_damage):
    """Its query is started again; who believed it to be damaged would give it up."""
    assert (parse_state_damage(_LOAD.format(why)) is not None) is is_damage
