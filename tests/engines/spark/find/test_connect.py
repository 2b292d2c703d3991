"""`find` over Spark Connect, where the packages that it needs are installed."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
    import json, sys
    from pathlib import Path
    from pyspark.sql import SparkSession
    import shedlight as sl

    folder = Path(sys.argv[1])
    builder = SparkSession.builder.remote("local[2]")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    rows = [(n, n, n % 2) for n in range(30)]
    pattern = "SELECT a.n AS one, b.n AS two WHERE SEQ(a.kind = 0, b.kind = 1) WITHIN 20 s"
    finding = sl.find(pattern, time="at", time_unit="s", id="n")
    events = spark.createDataFrame(rows, "n long, at long, kind long")
    events.coalesce(1).write.parquet(str(folder / "in"))
    stream = spark.readStream.schema(events.schema).parquet(str(folder / "in"))
    writer = stream.transform(finding).writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.format("parquet").start(str(folder / "out")).awaitTermination()

    def pairs(frame):
        return sorted((row["one"], row["two"]) for row in frame.collect())

    batch, found = pairs(events.transform(finding)), spark.read.parquet(str(folder / "out"))
    print(json.dumps({"batch": batch, "stream": pairs(found)}))
    spark.stop()
"""


@pytest.mark.usefixtures("java")
def test_find_works_over_spark_connect(tmp_path):
    """Batch and streaming; the last event of a stream waits for the next one."""
    pytest.importorskip("grpc_status", reason="pyspark[connect] is not installed")
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), tmp_path]

    done = subprocess.run(
        program,
        cwd=tmp_path,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["batch"] == [[n, n + 1] for n in range(0, 30, 2)]
    assert found["stream"] == found["batch"][:-1]
