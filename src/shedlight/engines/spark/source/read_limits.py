"""Small first micro-batches: how much a source lets into one, doubled after each with events.

The first micro-batches of a run are slow, for classes are loaded and code is generated in them,
and nobody knows yet what events cost. So little is read at first. What a source lets in is an
option that Spark reads once; a micro-batch asks the query for it, where it can be replaced as
long as the JVM is at hand. Where it is not, sources begin with what they would end with.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from shedlight.engines.spark.support.kafka_admin import has_jvm

FIRST_BYTES = 262_147
"""How many bytes of files are in the first micro-batch, or one file; an odd number, so that
ours is known from what users write."""
FIRST_RECORDS = 7_813
"""How many records of Kafka are."""
DOUBLINGS = 8
"""How often either is doubled, until it is 64 MiB and two million records."""
MAX_BYTES = FIRST_BYTES << DOUBLINGS
MAX_RECORDS = FIRST_RECORDS << DOUBLINGS

_EXECUTION = "org.apache.spark.sql.execution.streaming"
_CLASSES = f"{_EXECUTION}.runtime.StreamExecution", f"{_EXECUTION}.StreamExecution"
_LIMITS = "org.apache.spark.sql.connector.read.streaming.ReadLimit"
_SETTER = "uniqueSources_$eq"


def can_double(spark: SparkSession) -> bool:
    """Say whether what a source lets in can be changed while a query runs."""
    if not has_jvm(spark):
        return False
    jvm: Any = spark._jvm  # noqa: SLF001  # there is no other way to it
    for name in _CLASSES:
        try:
            found = jvm.java.lang.Class.forName(name)
        except Exception:  # noqa: BLE001, S112  # it has another name in this version
            continue
        return any(method.getName() == _SETTER for method in found.getMethods())
    return False


def double_limits(spark: SparkSession, query: StreamingQuery) -> bool:
    """Let twice as much into the next micro-batch, of sources that began with little.

    Gives whether there is such a source; then it may be done again.
    """
    jvm: Any = spark._jvm  # noqa: SLF001
    execution: Any = query._jsq.streamingQuery()  # noqa: SLF001
    limits = execution.uniqueSources()
    raised = limits
    for source, limit in _entries(limits):
        larger = _doubled(jvm, limit)
        if larger is not None:
            raised = raised.updated(source, larger)
    if raised is limits:
        return False
    getattr(execution, _SETTER)(raised)
    return True


def _entries(limits: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401  # of Scala
    entries = limits.iterator()
    while entries.hasNext():
        entry = entries.next()
        yield entry._1(), entry._2()  # noqa: SLF001  # a pair of Scala


def _doubled(jvm: Any, limit: Any) -> Any:  # noqa: ANN401  # of Spark
    """Give twice a limit, None if it is not one of those that are doubled."""
    limits = jvm
    for part in _LIMITS.split("."):
        limits = getattr(limits, part)
    kind = limit.getClass().getSimpleName()
    if kind == "ReadMaxBytes" and limit.maxBytes() in _steps(FIRST_BYTES):
        return limits.maxBytes(2 * limit.maxBytes())
    if kind == "ReadMaxRows" and limit.maxRows() in _steps(FIRST_RECORDS):
        return limits.maxRows(2 * limit.maxRows())
    return None


def _steps(first: int) -> list[int]:
    return [first << doubling for doubling in range(DOUBLINGS)]
