"""Options of `shedlight run` that an application file may have under `run`, too."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from shedlight.cli.options import seconds_of
from shedlight.cli.simulate_options import check_stratified
from shedlight.engines.spark.session.paths import is_local
from shedlight.graph import Application
from shedlight.graph.file.values import read_shards, read_start

Trigger = Annotated[
    str | None,
    typer.Option(help="How often a query looks for new events.  [default: 200 ms]"),
]
Shards = Annotated[
    str | None,
    typer.Option(
        help="Into how many shards keys are divided; a checkpoint is divided anew.  "
        "[default: auto, as many as cores]"
    ),
]
DeliveryInterval = Annotated[
    str | None,
    typer.Option(help="How often deliveries look for complex events.  [default: 100 ms]"),
]
WatermarkInterval = Annotated[
    str | None,
    typer.Option(help="How often shards are sent the watermark.  [default: 2 s]"),
]
IdleTimeout = Annotated[
    str | None,
    typer.Option(help="After how long an idle source holds nobody back.  [default: 10 s]"),
]
Restarts = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="How often in a row what failed is started again: a query, or Spark.  "
        "[default: 5]",
    ),
]
Retention = Annotated[
    str | None,
    typer.Option(
        help="How long outboxes are kept once everybody has read them.  [default: 2 min]"
    ),
]
RecordRetention = Annotated[
    str | None,
    typer.Option(
        help="How long to keep on record what was shed, e.g. '30 days'.  [default: 7 days]"
    ),
]
OnStartOption = Annotated[
    str | None,
    typer.Option(
        "--on-start",
        help="What becomes of events that were stored before it began: 'catch up' matches them "
        "all before bounds count, shed sheds them as bounds ask for, skip leaves them out.  "
        "[default: shed]",
    ),
]


Strata = Annotated[
    bool,
    typer.Option(
        "--strata",
        help="Plan and shed heavy hitters, and keys that yield much or little, apart from "
        "other keys.",
    ),
]


def check_end(*, once: bool, duration: str | None, watch: bool) -> None:
    """See that a run over all that there is is asked for nothing that it cannot be."""
    asked = {"--duration": duration is not None, "--watch": watch}
    for name in (name for name, is_asked in asked.items() if once and is_asked):
        raise typer.BadParameter(f"--once ends by itself; leave out {name}")


def check_watch(checkpoint: str | None) -> None:
    """See that the application of a run can change while it runs."""
    if checkpoint is not None and not is_local(checkpoint):
        raise typer.BadParameter(
            f"--watch is for a checkpoint in a local folder, and {checkpoint} is an address; "
            "leave out --watch, or name a folder"
        )


def with_strata(application: Application, *, strata: bool, plans: bool) -> Application:
    """Have an application shed keys in strata, where a plan is made, if that is asked for."""
    if not strata:
        return application
    if not plans:
        raise typer.BadParameter(
            "--strata are planned by the controller of a whole run that sheds; leave out "
            "--strata, or --once, --node and --shedder none"
        )
    check_stratified(application)
    return replace(application, run=replace(application.run, strata=True))


def with_on_start(application: Application, text: str | None) -> Application:
    """Have an application begin as the command line says."""
    if text is None:
        return application
    try:
        on_start = read_start(text)
    except ValueError as error:
        raise typer.BadParameter(f"--on-start {error}") from error
    return replace(application, run=replace(application.run, on_start=on_start))


def with_run_options(
    application: Application, shards: str | None, restarts: int | None, **times: str | None
) -> Application:
    """Have an application run as the command line says; what it does not say stays."""
    given: dict[str, Any] = {
        name: seconds_of(_option(name), text)
        for name, text in times.items()
        if text is not None
    }
    if shards is not None:
        try:
            given["shards"] = read_shards(shards)
        except ValueError as error:
            raise typer.BadParameter(f"--shards {error}") from error
    if restarts is not None:
        given["restarts"] = restarts
    return replace(application, run=replace(application.run, **given))


def check_once(**times: str | None) -> None:
    """See that nothing is said of how often to look where all is read at once."""
    for name, text in times.items():
        if text is not None:
            raise typer.BadParameter(
                f"{_option(name)} is for a run that goes on; leave it out with --once"
            )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
