"""What sinks got, compared with what they get of the same payments if nothing is shed.

The second is found after the runs, from the files that were fed: without Spark and with all the
time it takes, a sink in a process of its own.
"""

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shedlight.engines.event_files import read_events
from shedlight.engines.simulator.recall import Recall, compare_results
from shedlight.engines.tables import run_application
from shedlight.graph import Application, Stream
from shedlight.graph.lineage import ancestors

_COLUMNS = ["id", "events"]


def unshed_results(application: Application, payments: Path) -> Mapping[str, pa.Table]:
    """Find all results of each sink in the payments of a folder."""
    with ProcessPoolExecutor(len(application.sinks), get_context("spawn")) as pool:
        found = {
            name: pool.submit(_results_of, _feeding(application, sink.stream), payments)
            for name, sink in application.sinks.items()
        }
        return {name: each.result() for name, each in found.items()}


def compare_sinks(
    application: Application, folder: Path, unshed: Mapping[str, pa.Table]
) -> Mapping[str, Recall]:
    """Compare what is in the sinks' folders with all results.

    Results are made of complex events, and these are compared: whether they are the same, or at
    least half of them.
    """
    sinks = {name: sink.stream for name, sink in application.sinks.items()}
    got = {stream: _read_sink(folder / name) for name, stream in sinks.items()}
    return compare_results(
        application,
        {stream: table for stream, table in got.items() if table is not None},
        {stream: unshed[name] for name, stream in sinks.items()},
    )


def _feeding(application: Application, stream: Stream) -> Application:
    """Leave out what a pattern is not made from."""
    wanted = {stream, *ancestors(application, (stream,))}
    operators = {}
    for name, spec in application.operators.items():
        patterns = {n: p for n, p in spec.patterns.items() if Stream(n, name) in wanted}
        inputs = tuple(s for s in spec.inputs if s.operator is None or s in wanted)
        if patterns:
            operators[name] = replace(spec, patterns=patterns, inputs=inputs)
    sinks = {n: sink for n, sink in application.sinks.items() if sink.stream == stream}
    return replace(application, operators=operators, sinks=sinks)


def _results_of(application: Application, payments: Path) -> pa.Table:
    """Run an application of one sink over a folder of payments."""
    (sink,), (source,) = application.sinks.values(), application.sources
    done = run_application(application, {source: read_events(payments)})
    return done[str(sink.stream.operator)].complex_events[sink.stream.name].select(_COLUMNS)


def _read_sink(folder: Path) -> pa.Table | None:
    """Read what a sink has written; None if that is nothing."""
    files = [path for path in folder.glob("*.parquet") if path.name[0] not in "._"]
    tables = [pq.read_table(path, columns=_COLUMNS) for path in sorted(files)]
    return pa.concat_tables(tables).combine_chunks() if tables else None
