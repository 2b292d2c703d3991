"""Values that Spark asks this process for, by a callback, while it plans a micro-batch.

Spark computes what is selected from a table that it has at hand when it plans a query, not when
it runs it, and it plans each micro-batch anew. A function that is selected there is called in
the thread of the streaming query, where the id of the micro-batch is known. So what holds for a
micro-batch is learnt without a job, which takes longer than all the rest of shedding.

It works where Spark's driver is in this process, and lets it be called: not over Spark Connect.
"""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import numpy as np
from py4j.clientserver import ClientServer  # type: ignore[import-untyped]
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from shedlight.engines.spark.support.plan_store import BATCH_PROPERTY

_OPTIMIZER_RULE = "ConvertToLocalRelation"  # the rule by which Spark computes when it plans
_ARRAY_TYPE = '{"type": "array", "elementType": "long", "containsNull": false}'
_TEXT_TYPE = '"string"'

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Answer = Callable[[int], Numbers] | Callable[[int], str]


def supports_jvm_callback(spark: SparkSession) -> bool:
    """Say whether Spark can ask this process, in the thread that knows the micro-batch."""
    if not hasattr(spark, "_jsparkSession"):
        return False
    excluded = str(spark.conf.get("spark.sql.optimizer.excludedRules", ""))
    return isinstance(_gateway(spark), ClientServer) and _OPTIMIZER_RULE not in excluded


def jvm_computed_array(spark: SparkSession, answer: Callable[[int], Numbers]) -> DataFrame:
    """Make a table of one row and column: the array that is answered for a micro-batch's id."""
    return _jvm_computed(spark, answer, _ARRAY_TYPE)


def jvm_computed_text(spark: SparkSession, answer: Callable[[int], str]) -> DataFrame:
    """Make a table of one row and column: the text that is answered for a micro-batch's id."""
    return _jvm_computed(spark, answer, _TEXT_TYPE)


def _jvm_computed(spark: SparkSession, answer: Answer, data_type: str) -> DataFrame:
    gateway = _gateway(spark)
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    java: Any = spark._jsparkSession  # noqa: SLF001  # as PySpark does for foreachBatch
    name = f"shedlight_{uuid4().hex}"
    callback = _Callback(gateway, spark.sparkContext.getLocalProperty, answer)
    java.udf().register(name, callback, java.parseDataType(data_type))
    try:
        return spark.sql("VALUES (1)").selectExpr(f"{name}() AS answer")
    finally:
        spark.sql(f"DROP TEMPORARY FUNCTION {name}")


def _gateway(spark: SparkSession) -> Any:  # noqa: ANN401  # Py4J has no types
    return spark.sparkContext._gateway  # noqa: SLF001


class _Callback:
    """What the JVM calls: a function without arguments."""

    def __init__(
        self, gateway: ClientServer, property_of: Callable[[str], str | None], answer: Answer
    ) -> None:
        self._property_of, self._answer = property_of, answer
        self._new_array, self._long = gateway.new_array, gateway.jvm.long
        self._wrap = gateway.jvm.java.nio.ByteBuffer.wrap  # found once: that takes a while

    def call(self) -> Any:  # noqa: ANN401
        """Answer with a text, or an array of the JVM, filled at once and not one by one."""
        batch = self._property_of(BATCH_PROPERTY)
        if batch is None:
            raise RuntimeError("this is no micro-batch of a streaming query")
        numbers = self._answer(int(batch))
        if isinstance(numbers, str):
            return numbers
        filled = self._new_array(self._long, len(numbers))
        self._wrap(numbers.astype(">i8").tobytes()).asLongBuffer().get(filled)
        return filled

    class Java:
        """Which interface of the JVM this has."""

        implements = ("org.apache.spark.sql.api.java.UDF0",)
