"""What a user can put right, found in what Spark says of a query that failed.

Spark says it at length, with stacks of calls of three languages. What we know is said in our
words; of the rest the sentence is kept that says what happened.
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
SPARK_ERRORS = (PySparkException, Py4JError)
"""What Spark raises."""

_ERRORS: Mapping[str, type[ShedlightError]] = {
    MALFORMED: InputError,
    f"{StateError.__module__}.{StateError.__name__}: ": StateError,
    f"{InputError.__module__}.{InputError.__name__}: ": InputError,
}
"""What the message of a query's failure says before what is wrong."""

_KNOWN: Mapping[str, str] = {
    r"PARQUET_COLUMN_DATA_TYPE_MISMATCH\].*?file (?P<file>\S+?)\. .*?column "
    r"\[?(?P<name>[^\]\s]+?)\]?\. Expected Spark type (?P<wanted>\S+), actual Parquet type "
    r"(?P<found>\S+?)\.": (
        "the file {file} has {found} in column {name!r}, where {wanted} was before; write the "
        "column as it was, or start anew with a `schema` and an empty checkpoint"
    ),
    r"\[DATA_SOURCE_NOT_FOUND\].*?data source: (?P<name>\S+?)\. ": (
        "Spark has no format {name!r}; write one that it has, such as parquet, json, csv or "
        "kafka, or add its package with --conf spark.jars.packages=..."
    ),
    r"\[MALFORMED_RECORD_IN_PARSING[^]]*\].*?record: (?P<record>[^\n]{0,100})": (
        "a record cannot be parsed: {record}; put it right, or leave out the option 'mode' "
        "and say with `malformed` where such records go"
    ),
}
"""What Spark says that has a remedy, and how we say it."""


def to_user_error(error: Exception | str, what: str = "") -> Exception:
    """Find what is wrong; if it is nothing that a user can put right, it stands as it is.

    Args:
        error: What Spark said.
        what: What could not be done, if it is known.
    """
    text = full_message(error)
    for start, kind in _ERRORS.items():
        _, found, rest = text.partition(start)
        if found:
            said = rest.partition(" SQLSTATE")[0].split("\n\n")[0]
            return kind(said.removesuffix("\n.").strip())
    damage = parse_state_damage(text)
    if damage is not None:
        return damage
    before = f"{what}: " if what else ""
    for known, said in _KNOWN.items():
        match = re.search(known, text, re.DOTALL)
        if match:
            return InputError(before + said.format(**match.groupdict()))
    if what or not isinstance(error, Exception):
        return ShedlightError(before + root_cause(text))
    return error


def full_message(error: BaseException | str) -> str:
    """Give what Spark said, and after it what it says of the causes.

    What fails in a subquery is said there alone.
    """
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
    named = re.findall(r"\[(?!STREAM_FAILED)[A-Z][A-Z_.]{3,}\][^\n]*", text)
    causes = [one.removeprefix("Caused by: ") for one in lines if one.startswith("Caused by")]
    thrown = re.findall(r"^: ((?:\w+\.)+\w+(?:: [^\n]+)?)$", text, re.MULTILINE)
    ended = re.findall(r"terminated with exception: ([^\n]+)", text)
    first = [line for line in lines if line]
    found = next(iter([*named, *causes[-1:], *ended, *thrown, *first]), "Spark failed")
    return found.partition(" SQLSTATE")[0]


@contextmanager
def translating_spark_errors() -> Iterator[None]:
    """Have what Spark raises be said in a sentence.

    Raises:
        ShedlightError: Spark failed, or the JVM is gone.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        problem = to_user_error(error)
        if isinstance(problem, ShedlightError):
            raise problem from error
        raise ShedlightError(f"Spark failed: {root_cause(full_message(error))}") from error
