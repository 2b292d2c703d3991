"""When a micro-batch began, as a value that is no part of its code.

Spark writes the time of a micro-batch as a number into the code that it generates. Then each
micro-batch has code of its own, which is compiled for it and thrown away before it is fast. So
the time is asked for while Spark plans the micro-batch, in an array: that is handed to the
code. It is the time in Spark's own log, which a repeated micro-batch finds there.
"""

import json
from functools import partial

import numpy as np
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so

from shedlight.engines.spark.shed.jvm_callback import (
    Numbers,
    jvm_computed_array,
    supports_jvm_callback,
)
from shedlight.engines.spark.support.storage import StoredPath


def batch_time(spark: SparkSession, query: StoredPath) -> Column:
    """Give the time of the micro-batches of a query, in microseconds since 1970.

    Where Spark cannot ask, it is written into the code.
    """
    if not supports_jvm_callback(spark):
        return F.expr("unix_micros(current_timestamp())")
    return F.element_at(jvm_computed_array(spark, partial(_began, query)).scalar(), 1)


def _began(query: StoredPath, batch: int) -> Numbers:
    noted = json.loads((query / "offsets" / str(batch)).read_text().split("\n")[1])
    return np.array([noted["batchTimestampMs"] * 1000], np.int64)
