"""Write an archive of the classes that a run on Spark loads: `jvm_archive.py FILE`.

A JVM that is given it (`-XX:SharedArchiveFile`) starts in half the time: the tests start many.
"""

import contextlib
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "fraud"
_DUMP_S = 300


def write_archive(path: Path) -> None:
    """Run the example once, and let its JVM write down what it loaded."""
    unfinished = path.with_suffix(".tmp")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # the JVM names each class that it cannot archive
    os.environ["SPARK_SUBMIT_OPTS"] = f'"-XX:ArchiveClassesAtExit={unfinished}" -Xlog:disable'
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        _run_example(Path(folder))
    if unfinished.exists():  # not every JVM can
        unfinished.rename(path)


def _run_example(folder: Path) -> None:
    from pyspark import SparkContext  # noqa: PLC0415  # reads the environment
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from shedlight import load_application  # noqa: PLC0415
    from shedlight.engines.spark.run.finite import run_on_spark  # noqa: PLC0415

    runpy.run_path(str(EXAMPLE / "generate.py"))["write"](folder / "data", 2_000, 1)
    (folder / "app.yaml").write_text((EXAMPLE / "app.yaml").read_text())
    application = load_application(folder / "app.yaml").application
    options = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": f"{folder}/local",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master("local[2]").config(map=options).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for frame in run_on_spark(application, spark, checkpoint=f"{folder}/run").values():
        frame.write.parquet(f"{folder}/out", mode="append")
    jvm: subprocess.Popen[bytes] = SparkContext._gateway.proc  # noqa: SLF001
    spark.stop()
    if jvm.stdin is not None:
        jvm.stdin.close()  # which tells it to end
    jvm.wait(_DUMP_S)


if __name__ == "__main__":
    write_archive(Path(sys.argv[1]).absolute())
