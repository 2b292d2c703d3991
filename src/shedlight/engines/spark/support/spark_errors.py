"""Errors of Spark turned into errors that a user can act on.

Spark explains a failed query at length, with stacks of calls of three languages. Known causes
get a message of ours; of others the sentence is kept that says what happened.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from shedlight.engines.spark.support.checkpoint import parse_state_damage
from shedlight.errors import InputError, ShedlightError, StateError

MALFORMED = "shedlight found a malformed record: "
"""What the message of an error begins with that a record of a source caused."""
STATE_ERROR = f"{StateError.__module__}.{StateError.__name__}: "
"""What stands before the message of an error of the state, in that of a query's failure."""
SPARK_ERRORS = (PySparkException, Py4JError)  # what Spark raises

_PREFIXES: Mapping[str, type[ShedlightError]] = {
    MALFORMED: InputError,
    STATE_ERROR: StateError,
    f"{InputError.__module__}.{InputError.__name__}: ": InputError,
}
"""What stands before our own message in that of a query's failure."""

_KNOWN_CAUSES: Mapping[str, str] = {
    r"PARQUET_COLUMN_DATA_TYPE_MISMATCH\].*?file (?P<file>\S+?)\. .*?column "
    r"\[?(?P<name>[^\]\s]+?)\]?\. Expected Spark type (?P<wanted>\S+), actual Parquet type "
    r"(?P<found>\S+?)\.": (
        "the file {file} has {found} in column {name!r}, where {wanted} was before; write the "
        "column as it was, or start anew with a `schema` and an empty checkpoint"
    ),
    r"\[DATA_SOURCE_NOT_FOUND\].*?data source: delta\. ": (
        "Spark has no format 'delta'; add Delta Lake with --conf spark.jars.packages="
        "io.delta:delta-spark_X.Y_2.13:4.4.0, where X.Y is the version of Spark, 4.0, 4.1 or "
        "4.2 (for 4.3 there is none yet), and the two settings that it asks for"
    ),
    r"(?P<error>java\.lang\.(?:NoSuchMethod|NoClassDefFound|AbstractMethod|NoSuchField|"
    r"IncompatibleClassChange)Error: [^\n]{0,120})": (
        "a package that was added to Spark is made for another version of it, or lacks a jar "
        "({error}); add the one that is made for this Spark, with all that it needs"
    ),
    r"\[DATA_SOURCE_NOT_FOUND\].*?data source: (?P<name>\S+?)\. ": (
        "Spark has no format {name!r}; write one that it has, such as parquet, json, csv or "
        "kafka, or add its package with --conf spark.jars.packages=..."
    ),
    r"\[STREAMING_OUTPUT_MODE[^]]*\][^\n]*? mode: (?P<mode>complete)\.": (
        "the output mode is {mode}, and complex events can only be appended; leave out "
        "outputMode(...)"
    ),
    r"\[STREAMING_OUTPUT_MODE[^]]*\][^\n]*? mode: append\.[^\n]*aggregation": (
        "a DataFrame that is a source aggregates its stream without a watermark, so Spark "
        "never knows when a row of it is final; call withWatermark(...) before the aggregation"
    ),
    r"java\.sql\.SQLException: No suitable driver": (
        "Spark has no driver for this database; add it with --conf spark.jars=..., and name "
        "its class with the option driver"
    ),
    r"\[MALFORMED_RECORD_IN_PARSING[^]]*\].*?record: (?P<record>[^\n]{0,100})": (
        "a record cannot be parsed: {record}; put it right, or leave out the option 'mode' "
        "and say with `malformed` where such records go"
    ),
}
"""Messages of Spark that have a remedy, and ours for them."""


def to_user_error(error: Exception | str, what: str = "") -> Exception:
    """Find the error that a user can act on; if there is none, give it as it is.

    The message begins with what could not be done, if it is known.
    """
    text = full_message(error)
    for prefix, error_type in _PREFIXES.items():
        if prefix in text:
            message = text.partition(prefix)[2].partition(" SQLSTATE")[0].split("\n\n")[0]
            return error_type(message.removesuffix("\n.").strip())
    damage = parse_state_damage(text)
    if damage is not None:
        return damage
    before = f"{what}: " if what else ""
    for cause, message in _KNOWN_CAUSES.items():
        match = re.search(cause, text, re.DOTALL)
        if match:
            return InputError(before + message.format(**match.groupdict()))
    if what or not isinstance(error, Exception):
        return ShedlightError(before + root_cause(text))
    return error


def full_message(error: BaseException | str) -> str:
    """Give the message of an error and those of its causes: only they tell of a subquery."""
    texts, cause = [str(error)], getattr(error, "_cause", None)
    while cause is not None:
        texts.append(str(cause))
        cause = getattr(cause, "_cause", None)
    return "\n\n".join(texts)


def root_cause(text: str) -> str:
    r"""Find the sentence in which Spark says what is wrong.

    Example:
        >>> root_cause("An error occurred.\n: java.io.IOException: no room\n\tat a.b(C.java)")
        'java.io.IOException: no room'
    """
    lines = [line.strip() for line in text.split("\n")]
    of_callback = re.findall(
        r"Return Message: Traceback[^\n]*\n(?:[ \t][^\n]*\n)*(\w[^\n]*)", text
    )
    named = re.findall(r"\[(?!STREAM_FAILED)[A-Z][A-Z_.]{3,}\][^\n]*", text)
    causes = [
        line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by")
    ]
    thrown = re.findall(r"^: ((?:\w+\.)+\w+(?:: [^\n]+)?)$", text, re.MULTILINE)
    ended = re.findall(r"terminated with exception: ([^\n]+)", text)
    first = [line for line in lines if line]
    sentences: list[str] = [
        *of_callback,
        *named,
        *causes[-1:],
        *ended,
        *thrown,
        *first,
        "Spark failed",
    ]
    return sentences[0].partition(" SQLSTATE")[0]


@contextmanager
def translating_spark_errors() -> Iterator[None]:
    """Raise errors of Spark as errors with one sentence; the JVM may be gone."""
    try:
        yield
    except SPARK_ERRORS as error:
        problem = to_user_error(error)
        if isinstance(problem, ShedlightError):
            raise problem from error
        raise ShedlightError(f"Spark failed: {root_cause(full_message(error))}") from error
