"""Delta tables in and out, where there is a Delta Lake for this version of Spark."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest

from shedlight.engines.tables import run_application
from shedlight.graph import load_application
from tests.engines.spark.broker import fetched_jars

pytestmark = pytest.mark.spark

ROWS = [(n, n * 1_000_000, n * 7919 % 13 % 2, n % 3) for n in range(60)]
# ids have the name of their pattern in them: a single one of `find` is P1
PATTERN = "SELECT a.n AS one, b.n AS two WHERE SEQ(a.kind = 0, b.kind = 1) WITHIN 20 s"
APPLICATION = f"""
name: tables
sources:
  s:
    format: delta
    path: in
    time: time
    id: [n]
    schema: {{n: bigint, time: bigint, kind: bigint, key: bigint}}
nodes: {{edge: {{}}}}
operators:
  w:
    node: edge
    input: [s]
    patterns:
      P1: {PATTERN} PARTITION BY key
sinks:
  out: {{input: w.P1, format: delta, path: out}}
"""
PROGRAM = """
    import json, sys
    from dataclasses import replace
    from pathlib import Path
    import shedlight as sl

    folder, jars, pattern, rows = Path(sys.argv[1]), *sys.argv[2:4], json.loads(sys.argv[4])
    settings = {
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    spark = sl.open_session("tables", master="local[2]", settings=settings)

    def append(rows):
        frame = spark.createDataFrame(rows, "n long, time long, kind long, key long")
        frame.coalesce(1).write.format("delta").mode("append").save(str(folder / "in"))

    def ids(name):
        frame = spark.read.format("delta").load(str(folder / name))
        return sorted(row["id"] for row in frame.collect())

    def find():
        events = spark.readStream.format("delta").load(str(folder / "in"))
        found = events.transform(sl.find(pattern, time="time", time_unit="us", id="n"))
        writer = found.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.format("delta").trigger(availableNow=True).start(str(folder / "found"))
        query.awaitTermination()
        return ids("found")

    append(rows[:20])
    append(rows[20:40])
    first = find()
    append(rows[40:])
    result = {"first": first, "found": find()}
    application = sl.load_application(folder / "app.yaml").application
    source = replace(application.sources["s"], path=str(folder / "in"))
    sink = replace(application.sinks["out"], path=str(folder / "out"))
    application = replace(application, sources={"s": source}, sinks={"out": sink})
    sl.run_on_spark(application, spark, checkpoint=str(folder / "run"), deliver=True)
    result["run"] = ids("out")
    print(json.dumps(result))
    sl.close_session(spark)
"""


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("java")
def test_a_table_in_and_a_table_out(tmp_path):
    """`run` and `find`, in a session of ours; a stream of a table goes on where it was."""
    jars = fetched_jars("delta")
    if not jars:
        pytest.skip("no Delta Lake is made for this Spark, or scripts/jars could not fetch it")
    file = tmp_path / "app.yaml"
    file.write_text(APPLICATION)
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), tmp_path, ",".join(jars)]

    done = subprocess.run(
        [*program, f"{PATTERN} PARTITION BY key", json.dumps(ROWS)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    names = ("n", "time", "kind", "key")
    events = pa.table(dict(zip(names, zip(*ROWS, strict=True), strict=True)))
    application = load_application(Path(file)).application
    results = run_application(application, {"s": events})["w"].complex_events["P1"].to_pylist()
    assert found["run"] == sorted(row["id"] for row in results)
    # the last event of a key waits for the next one
    ready = {row["id"] for row in results if row["two"] < len(ROWS) - 3}
    assert ready <= set(found["found"]) <= set(found["run"])
    assert set(found["first"]) < set(found["found"])
    assert len(found["found"]) == len(set(found["found"])) > len(ready) / 2
