"""The process that Spark forks Python workers from: what they need is imported here, once.

Spark's own daemon imports nothing, so that each worker takes a second of processor time for it.
What is there before workers are forked is also nothing that they look through for garbage, as
they do after each task: measured 60 ms each time.
"""

import gc

import pandas  # noqa: F401, ICN001  # for the workers
import pyarrow  # noqa: F401, ICN001
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import shedlight.engines.spark.step.stateful  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
