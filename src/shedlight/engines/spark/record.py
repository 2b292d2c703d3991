"""What a checkpoint is of: the application as it was when the checkpoint was begun.

Matching cannot go on from machines that were opened for another pattern, nor be right if half
of the matches are of one application and half of another. So an application that was changed
is refused, and the message says what is different.
"""

from collections.abc import Iterator

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from shedlight.errors import StateError
from shedlight.graph import Application, OperatorSpec, Source


def lines_of(application: Application, buckets: int) -> tuple[str, ...]:
    """Write down all that the matches of an application depend on."""
    return tuple(_lines(application, buckets))


def _lines(application: Application, buckets: int) -> Iterator[str]:
    yield f"buckets: {buckets}"
    for source in application.sources.values():
        yield from _source_lines(source)
    for spec in application.operators.values():
        yield from _operator_lines(spec)
    for name, sink in application.sinks.items():
        yield f"sinks.{name}: {sink.input}"


def _source_lines(source: Source) -> Iterator[str]:
    where = f"sources.{source.name}"
    yield f"{where}: {source.format} {source.path}"
    yield f"{where}.time: {source.time} in {source.time_unit}, lateness {source.lateness}"
    yield f"{where}.id: {', '.join(source.id)}"
    for name, expression in source.columns.items():
        yield f"{where}.columns.{name}: {expression}"


def _operator_lines(spec: OperatorSpec) -> Iterator[str]:
    where = f"operators.{spec.name}"
    yield f"{where}: on {spec.node}, reads {', '.join(map(str, spec.inputs))}"
    for name, pattern in spec.patterns.items():
        yield f"{where}.{name}: {pattern}"


def check_record(spark: SparkSession, folder: str, lines: tuple[str, ...]) -> None:
    """Write the record of a new checkpoint, or hold that of an old one against this one.

    Raises:
        StateError: The checkpoint is of another application.
    """
    before = _recorded(spark, folder)
    if before is None:
        rows = [(number, line) for number, line in enumerate(lines)]
        frame = spark.createDataFrame(rows, "number int, line string")
        frame.coalesce(1).write.mode("overwrite").json(folder)
    elif before != lines:
        gone = [f"  before: {line}" for line in before if line not in lines]
        new = [f"  now:    {line}" for line in lines if line not in before]
        changes = "\n".join(gone + new) or "  the order of its parts"
        raise StateError(
            f"the checkpoint {folder} is of another application:\n{changes}\n"
            "go on with the application as it was, or start with a new checkpoint"
        )


def _recorded(spark: SparkSession, folder: str) -> tuple[str, ...] | None:
    try:
        frame = spark.read.schema("number int, line string").json(folder)
    except AnalysisException:
        return None  # there is none yet
    rows = frame.orderBy("number").collect()
    return tuple(row.line for row in rows) if rows else None
