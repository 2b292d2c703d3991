"""`shedlight report`: a run in one page, made from its log."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from shedlight.errors import InputError
from shedlight.graph import load_application
from shedlight.report import report_page, sentences
from shedlight.runlog import Run, find_log, read_run, run_header


def report(
    run: Annotated[Path, typer.Argument(help="The log of a run, or its checkpoint.")],
    *,
    output: Annotated[Path, typer.Option(help="Where to write the page.")] = Path(
        "report.html"
    ),
    application: Annotated[
        Path | None,
        typer.Option(help="The application file, for the bounds if the log has none."),
    ] = None,
) -> None:
    """Write a page about a run: latency against bounds, what was shed, decisions and why."""
    log = find_log(run)
    found = read_run(log)
    if output.exists() and output.samefile(log):
        raise InputError(f"{output}: it is the log itself; give another --output")
    if application is not None and not found.headers:
        header = run_header(load_application(application).application, found.records[0].time)
        found = Run((header, *found.records), found.skipped, found.unknown)
    page = report_page(found)
    try:
        output.write_text(page, encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"{output}: cannot be written: {error.strerror or error}; "
            "give a file in a folder that can be written to"
        ) from error
    for sentence in sentences(found):
        print(sentence)
    print(f"-> {output}", file=sys.stderr)
