"""From the outbox of a node to a sink: a small query of its own for each.

A sink of files gets each complex event once, as Spark's own log beside the files says; any
other format of Spark gets it once unless a delivery is repeated after a crash, and then with
the same id.
"""

from pyspark.sql.streaming.readwriter import DataStreamWriter

from shedlight.engines.spark.arrivals import ARRIVAL
from shedlight.engines.spark.assembly import Assembly


def delivery(assembly: Assembly, name: str) -> DataStreamWriter:
    """Write the query that fills a sink; it wants a trigger and a start."""
    sink = assembly.application.sinks[name]
    events = assembly.events(sink.input, streaming=True).drop(ARRIVAL)
    options = dict(sink.options)
    if sink.path is not None:
        options["path"] = sink.path
    return (
        events.writeStream.format(sink.format)
        .queryName(f"shedlight sink {name}")
        .options(**options)
        .option("checkpointLocation", str(assembly.delivery_folder(name)))
    )
