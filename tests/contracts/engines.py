"""The engines that the contract suite runs, behind one way to run them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.tables import run_application
from shedlight.graph import Application
from shedlight.shedding.shares import Shares
from tests.engines.spark.runs import Row, on_spark, with_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What an engine is to run.

    Attributes:
        application: The application.
        tables: The events of its sources, in the order of their arrival.
        cuts: Rows before which the events are cut into batches; none: all at once.
        shares: What patterns keep; None: everything.
    """

    application: Application
    tables: Mapping[str, pa.Table]
    cuts: Sequence[int] = ()
    shares: Shares | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine, and what it does not do.

    Attributes:
        run: Gives the rows of each sink.
        sheds: Whether it can be given shares.
        selects: Whether its rows have the columns that patterns select.
        takes_late_events: Whether events reach it in the order of their arrival; in a
            simulation they arrive at the time that they bear.
    """

    run: Callable[[Case], Mapping[str, list[Row]]]
    sheds: bool = True
    selects: bool = True
    takes_late_events: bool = True


def tables_engine() -> Engine:
    """Run over finite tables; these are cut into chunks."""
    return Engine(run=_run_over_tables, sheds=False)


def _run_over_tables(case: Case) -> Mapping[str, list[Row]]:
    results = run_application(case.application, {n: _cut(t, case) for n, t in _tables(case)})
    rows = {}
    for name, sink in case.application.sinks.items():
        result = results[str(sink.input.operator)]
        by_pattern = result.timed_out if sink.timed_out else result.complex_events
        rows[name] = by_pattern[sink.input.name].to_pylist()
    return rows


def _tables(case: Case) -> list[tuple[str, pa.Table]]:
    return list(case.tables.items())


def _cut(table: pa.Table, case: Case) -> pa.Table:
    bounds = [0, *(cut for cut in case.cuts if cut < len(table)), len(table)]
    return pa.concat_tables(table.slice(a, b - a) for a, b in pairwise(bounds))


def simulator_engine() -> Engine:
    """Simulate nodes that take no time; intervals cut the events."""
    return Engine(run=_simulate, selects=False, takes_late_events=False)


def _simulate(case: Case) -> Mapping[str, list[Row]]:
    simulation = simulate(
        case.application,
        case.tables,
        Service(seconds={}),
        interval=0.7 if case.cuts else 1e6,
        shares=case.shares,
        unshed_sample=case.application.unshed_sample,
    )
    return {name: table.to_pylist() for name, table in simulation.sinks.items()}


def spark_engine(spark: SparkSession, new_folder: Callable[[], Path]) -> Engine:
    """Run on Spark, a micro-batch per cut; rows come in no order, so they are put in order."""

    def run(case: Case) -> Mapping[str, list[Row]]:
        folder = new_folder()
        application = with_files(case.application, case.tables, folder, case.cuts)
        return on_spark(spark, application, folder, case.shares)

    return Engine(run=run)
