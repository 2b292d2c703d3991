"""`shedlight doctor`: whether Spark can work on this machine, and what to do if not."""

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

from shedlight.matching.jit import cache_folder

if TYPE_CHECKING:
    from shedlight.engines.spark.session.preflight import Check

_QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""One row is over before it would pay to optimise more."""


def doctor(
    *,
    master: Annotated[str, typer.Option(help="Where Spark is to run.")] = "local[*,4]",
    spark: Annotated[
        bool,
        typer.Option("--spark", help="Start Spark too and send a row through it (10 to 30 s)."),
    ] = False,
    as_json_: Annotated[
        bool, typer.Option("--json", help="Print JSON for machines to read.")
    ] = False,
) -> None:
    """Check that Spark can work here: Python, Java, packages, ports, memory, disk."""
    from shedlight.engines.spark.session.preflight import Check, checked  # noqa: PLC0415  # only here

    checks = [checked(name, look) for name, look in _looks(master)]
    fine = all(check.ok for check in checks)
    if spark and fine:
        print("starting Spark ...", file=sys.stderr)
        checks.append(checked("query", partial(_query, master)))
    elif spark:
        says = "not started; put right what failed above, and try again"
        checks.append(Check("query", ok=False, says=says))
    _show(checks, as_json=as_json_)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)
    if not spark:
        print("all is fine; --spark starts Spark too", file=sys.stderr)


def _looks(master: str) -> Iterator[tuple[str, Callable[[], str]]]:
    """Name what to look at and how, in the order in which to put it right."""
    from shedlight.engines.spark.session import master as place  # noqa: PLC0415
    from shedlight.engines.spark.session import preflight  # noqa: PLC0415  # only here

    yield "python", preflight.check_python
    for package in ("pyspark", "pandas", "pyarrow"):
        yield package, partial(preflight.check_package, package)
    yield "spark home", partial(preflight.check_spark_home, os.environ)
    yield "java", lambda: str(preflight.find_java(os.environ))
    yield "master", lambda: place.check_master(place.read_master(master))
    yield "loopback", preflight.check_loopback
    yield "kernels", lambda: preflight.check_kernels(cache_folder())
    yield "memory", lambda: preflight.check_memory(preflight.available_memory(Path("/")))
    yield "folder", partial(preflight.check_disk, Path.cwd())
    yield "temporary", partial(preflight.check_disk, Path(tempfile.gettempdir()))


def _query(master: str) -> str:
    """Start Spark, send a row through a streaming query, and say how long it took."""
    from shedlight.engines.spark.session import session  # noqa: PLC0415  # PySpark only here

    began = time.perf_counter()
    one = session.open_session("shedlight doctor", master=master, settings=_QUICK)
    try:
        started = time.perf_counter()
        session.try_query(one)
        done = time.perf_counter()
    finally:
        session.close_session(one)
    return f"started in {started - began:.1f} s, a row through Python in {done - started:.1f} s"


def _show(checks: "list[Check]", *, as_json: bool) -> None:
    """Print a table in a terminal, a line for each check elsewhere."""
    words = {True: "ok", False: "failed"}
    if as_json:
        rows = [{"name": one.name, "ok": one.ok, "says": one.says} for one in checks]
        print(json.dumps({"ok": all(one.ok for one in checks), "checks": rows}, indent=2))
    elif sys.stdout.isatty():
        drawn = Table("check", "", "found")
        for one in checks:
            style = "" if one.ok else "bold red"
            drawn.add_row(Text(one.name), Text(words[one.ok], style), Text(one.says))
        Console().print(drawn)
    else:
        for one in checks:
            print(f"{one.name:<10} {words[one.ok]:<6} {one.says}")
