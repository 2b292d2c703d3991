"""`shedlight doctor`: whether Spark can work on this computer, and what to do if not."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shedlight.cli.console import say
from shedlight.cli.options import Json
from shedlight.matching.jit import cache_folder

if TYPE_CHECKING:
    from shedlight.engines.spark.session.preflight import Check

_QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""For a single row, the second compiler of the JVM does not pay."""


def doctor(
    *,
    master: Annotated[str, typer.Option(help="Where Spark is to run.")] = "local[*,4]",
    spark: Annotated[
        bool,
        typer.Option("--spark", help="Start Spark too and send a row through it (10 to 30 s)."),
    ] = False,
    as_json_: Json = False,
) -> None:
    """Check that Spark can work here: Python, Java, packages, ports, memory, disk."""
    from shedlight.engines.spark.session.preflight import Check, run_check  # noqa: PLC0415  # only here

    checks = [run_check(name, check) for name, check in _checks(master)]
    fine = all(check.ok for check in checks)
    if spark and fine:
        say("starting Spark ...")
        checks.append(run_check("query", partial(_query, master)))
    elif spark:
        says = "not started; put right what failed above, and try again"
        checks.append(Check("query", ok=False, says=says))
    _show(checks, as_json=as_json_)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)
    if not spark:
        say("all is fine; --spark starts Spark too")


def _checks(master: str) -> Iterator[tuple[str, Callable[[], str]]]:
    """List the checks by name, in the order in which to put things right."""
    from shedlight.engines.spark.session import master as spark_master  # noqa: PLC0415
    from shedlight.engines.spark.session import preflight  # noqa: PLC0415  # only here

    yield "python", preflight.check_python
    for package in ("pyspark", "pandas", "pyarrow"):
        yield package, partial(preflight.check_package, package)
    yield "spark home", partial(preflight.check_spark_home, os.environ)
    yield "java", lambda: preflight.check_java(os.environ)
    yield "master", lambda: spark_master.check_master(spark_master.read_master(master))
    yield "loopback", preflight.check_loopback
    yield "kernels", lambda: preflight.check_kernels(cache_folder())
    yield "memory", lambda: preflight.check_memory(preflight.available_memory(Path("/")))
    yield "folder", partial(preflight.check_disk, Path.cwd())
    yield "temporary", partial(preflight.check_disk, Path(tempfile.gettempdir()))


def _query(master: str) -> str:
    """Start Spark, send a row through a streaming query, and say how long it took."""
    from shedlight.engines.spark.session import session  # noqa: PLC0415  # PySpark only here

    began = time.perf_counter()
    spark = session.open_session("shedlight doctor", master=master, settings=_QUICK)
    try:
        started = time.perf_counter()
        session.try_query(spark)
        done = time.perf_counter()
    finally:
        session.close_session(spark)
    return f"started in {started - began:.1f} s, a row through Python in {done - started:.1f} s"


def _show(checks: "list[Check]", *, as_json: bool) -> None:
    """Print a table in a terminal, a line for each check elsewhere."""
    verdicts = {True: "ok", False: "failed"}
    if as_json:
        rows = [{"name": check.name, "ok": check.ok, "says": check.says} for check in checks]
        print(json.dumps({"ok": all(check.ok for check in checks), "checks": rows}, indent=2))
    elif sys.stdout.isatty():
        table = Table("check", "", "found")
        for check in checks:
            style = "" if check.ok else "bold red"
            table.add_row(Text(check.name), Text(verdicts[check.ok], style), Text(check.says))
        Console().print(table)
    else:
        for check in checks:
            print(f"{check.name:<10} {verdicts[check.ok]:<6} {check.says}")
