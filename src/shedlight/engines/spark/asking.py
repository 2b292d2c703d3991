"""Numbers that Spark asks this process for while it plans a micro-batch.

Spark computes what is selected from a table that it has at hand when it plans a query, not when
it runs it, and it plans each micro-batch anew. A function that is selected there is called in
the thread of the streaming query, where the id of the micro-batch is known. So what holds for a
micro-batch is learnt without a job, which takes longer than all the rest of shedding.

It works where Spark's driver is in this process, and lets it be called: not over Spark Connect.
"""

from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

from py4j.clientserver import ClientServer  # type: ignore[import-untyped]
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

BATCH = "streaming.sql.batchId"
"""The property of Spark's threads and tasks that tells the micro-batch."""
_RULE = "ConvertToLocalRelation"


def can_ask(spark: SparkSession) -> bool:
    """Say whether Spark can ask this process, in the thread that knows the micro-batch."""
    if not hasattr(spark, "_jsparkSession"):
        return False
    without = str(spark.conf.get("spark.sql.optimizer.excludedRules", ""))
    return isinstance(_gateway(spark), ClientServer) and _RULE not in without


def asked(spark: SparkSession, answer: Callable[[int], Iterable[int]]) -> DataFrame:
    """Make a table of one row with one column, an array: what is answered for a micro-batch.

    Args:
        spark: The session.
        answer: Is given the id of the micro-batch.
    """
    ensure_callback_server_started(_gateway(spark))  # type: ignore[no-untyped-call]
    java: Any = spark._jsparkSession  # noqa: SLF001  # as PySpark does for foreachBatch
    name = f"shedlight_{uuid4().hex}"
    asking = _Asking(spark.sparkContext.getLocalProperty, answer)
    java.udf().register(name, asking, java.parseDataType('"string"'))
    try:
        numbers = f"CAST(split({name}(), ',') AS ARRAY<BIGINT>) AS numbers"
        return spark.sql("VALUES (1)").selectExpr(numbers)
    finally:
        spark.sql(f"DROP TEMPORARY FUNCTION {name}")


def _gateway(spark: SparkSession) -> Any:  # noqa: ANN401  # Py4J has no types
    return spark.sparkContext._gateway  # noqa: SLF001


class _Asking:
    """What the JVM calls: a function without arguments."""

    def __init__(
        self, property_of: Callable[[str], str | None], answer: Callable[[int], Iterable[int]]
    ) -> None:
        self._property_of, self._answer = property_of, answer

    def call(self) -> str:
        """Answer, as text: the only kind of array that goes through in one call."""
        batch = self._property_of(BATCH)
        if batch is None:
            raise RuntimeError("this is no micro-batch of a streaming query")
        return ",".join(map(str, self._answer(int(batch))))

    class Java:
        """Which interface of the JVM this has."""

        implements = ("org.apache.spark.sql.api.java.UDF0",)
