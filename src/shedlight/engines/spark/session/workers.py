"""A check of the Python that Spark's workers run, in sessions that others have made.

Without PYSPARK_PYTHON it is the `python3` on the PATH, in an environment that is not activated
another than ours; what Spark then says is long, and not what to do.
"""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from shedlight.engines.spark.session.preflight import SessionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDED = ("shedlight", "pyarrow", "pandas")
_ASK = f"""
import importlib.util, sys
print("%d.%d" % sys.version_info[:2])
print(" and ".join(name for name in {_NEEDED} if importlib.util.find_spec(name) is None))
"""
_ANSWER_WITHIN_S = 60


def check_workers(spark: "SparkSession") -> None:
    """See that Python workers on this machine have what they need; others are not looked at.

    Raises:
        SessionError: They run a Python that is not there, lacks a package or is of another
            version.
    """
    context = getattr(spark, "sparkContext", None)  # over Spark Connect there is none
    if context is not None and context.master.startswith("local"):
        check_worker_python(context.pythonExec)


@cache
def check_worker_python(program: str) -> None:
    """See that a Python can run what we send it; one that is ours can."""
    path = shutil.which(program)
    if path is None:
        raise SessionError(
            f"Spark's Python workers are to run {program!r}, which is not there; {_REMEDY}"
        )
    if Path(path).absolute() == Path(sys.executable):
        return
    done = subprocess.run(  # noqa: S603  # what Spark is about to start anyway
        [path, "-c", _ASK],
        capture_output=True,
        check=False,
        text=True,
        timeout=_ANSWER_WITHIN_S,
    )
    version, _, missing = done.stdout.strip().partition("\n")
    ours = "{}.{}".format(*sys.version_info)
    if missing or version != ours:
        problem = f"has no {missing}" if missing else f"is Python {version}, and this is {ours}"
        raise SessionError(f"Spark's Python workers run {path}, which {problem}; {_REMEDY}")


_REMEDY = (
    "activate the environment of shedlight before the session starts, or have them run its "
    f"Python: export PYSPARK_PYTHON={sys.executable}"
)
