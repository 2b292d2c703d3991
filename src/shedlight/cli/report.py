"""`shedlight report`: a report about a run as one HTML file, made from its log."""

from pathlib import Path
from typing import Annotated

import typer

from shedlight.cli.console import say
from shedlight.errors import InputError
from shedlight.graph import load_application
from shedlight.page.report import report_page
from shedlight.report.narrative import sentences
from shedlight.runlog.follow import Run, find_log, read_run
from shedlight.runlog.records import run_header


def report(
    run: Annotated[Path, typer.Argument(help="The log of a run, or its checkpoint.")],
    *,
    output: Annotated[Path, typer.Option(help="Where to write the report.")] = Path(
        "report.html"
    ),
    application: Annotated[
        Path | None,
        typer.Option(help="The application file, for the bounds if the log has none."),
    ] = None,
) -> None:
    """Write a report about a run: latency against bounds, what was shed, decisions and why."""
    log = find_log(run)
    recorded = read_run(log)
    if output.exists() and output.samefile(log):
        raise InputError(f"{output}: it is the log itself; give another --output")
    if application is not None and not recorded.headers:
        header = run_header(load_application(application).application, recorded.records[0].time)
        recorded = Run((header, *recorded.records), recorded.skipped, recorded.unknown)
    page = report_page(recorded)
    try:
        output.write_text(page, encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"{output}: cannot be written: {error.strerror or error}; "
            "give a file in a folder that can be written to"
        ) from error
    for sentence in sentences(recorded):
        print(sentence)
    say(f"-> {output}")
