"""`shedlight simulate`: an application under a load, in virtual time."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from shedlight import __version__
from shedlight.cli.console import (
    announce_compiling,
    load_with_warnings,
    patterns_of,
    progress_bar,
    say,
)
from shedlight.cli.options import ApplicationFile, Json, seconds_of
from shedlight.cli.plan_options import Aim
from shedlight.cli.simulate_costs import MicroBatchTimes, read_costs
from shedlight.cli.simulate_options import (
    ScenarioOptions,
    check_strata,
    make_scenario,
    read_times,
    with_bound,
)
from shedlight.cli.simulate_text import SimulationReport, as_json, as_text, decision_row
from shedlight.engines.event_files import cannot_write_error, written_whole
from shedlight.engines.simulator import ServiceDistribution, scenario_run
from shedlight.engines.simulator.csv_rows import provenance, write_results
from shedlight.engines.simulator.latency_file import LatencyFile, latency_file
from shedlight.engines.simulator.log_records import IntervalLatencies, log_records
from shedlight.engines.simulator.recall import compare_results
from shedlight.engines.simulator.scenario import check_bounds, run_unshed
from shedlight.engines.simulator.shedders import Shedder
from shedlight.generate.for_sources import StreamProfile
from shedlight.model.latency import LatencyModel, Target
from shedlight.runlog.follow import LOG


def simulate(  # noqa: PLR0913  # one argument per option
    application: ApplicationFile,
    *,
    load: Annotated[
        float | None,
        typer.Option(
            help="In multiples of what the busiest node with a bound can do. Events of files "
            "arrive faster for it, and windows hold what they hold in the file.  "
            "[default: 2 for generated events; files: as their times say]"
        ),
    ] = None,
    squeeze: Annotated[
        bool,
        typer.Option(
            "--squeeze",
            help="For --load, bring the times of files' events together too: windows hold "
            "more of them, as if the sources sent more.",
        ),
    ] = False,
    duration: Annotated[
        str | None,
        typer.Option(
            help="Virtual time, e.g. '10 min'.  [default: 10 min; files: all of them]"
        ),
    ] = None,
    shedder: Annotated[Shedder, typer.Option(help="Which shedder.")] = Shedder.GLOBAL,
    strata: Annotated[
        bool,
        typer.Option(
            "--strata",
            help="Plan and shed heavy hitters, and keys that yield much or little, apart from "
            "other keys.",
        ),
    ] = False,
    stream: Annotated[
        StreamProfile | None,
        typer.Option(help="Generate events like this.  [default: read the sources' files]"),
    ] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option("--input", help="Events of a source: NAME=FILE; may be repeated."),
    ] = None,
    service: Annotated[
        ServiceDistribution | None,
        typer.Option(
            help="How processing times vary.  [default: measured; exponential if given]"
        ),
    ] = None,
    processing_time: Annotated[
        list[str] | None,
        typer.Option(help="OPERATOR.PATTERN=TIME for an event; may be repeated."),
    ] = None,
    snapshot: Annotated[
        Path | None, typer.Option(help="Take the processing times of this snapshot (JSON).")
    ] = None,
    costs: Annotated[
        str | None,
        typer.Option(
            help="Let nodes work by micro-batches, at the costs of a run (its folder), or at "
            "those that are usual on Spark: spark.  [default: nodes take events one by one]"
        ),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(
            help="From one decision to the next, in virtual time.  [default: 5 s; with --costs "
            "2 s, as on Spark]"
        ),
    ] = None,
    bound: Annotated[
        str | None,
        typer.Option(help="How long the bounds of nodes are.  [default: as in the file]"),
    ] = None,
    latency: Annotated[
        LatencyModel | None,
        typer.Option(
            help="How a bound becomes a limit on busy time.  [default: mg1; with --costs "
            "micro-batch]"
        ),
    ] = None,
    aim: Aim = 0.9,
    seed: Annotated[int, typer.Option(min=0, help="The same one gives the same result.")] = 0,
    output: Annotated[
        Path | None, typer.Option(help="A folder for rows and a picture.")
    ] = None,
    as_json_: Json = False,
) -> None:
    """Simulate an application under a load: latency, results, plans, without a cluster."""
    if load is not None and not 0 < load < float("inf"):
        raise typer.BadParameter(f"--load must be above 0, got {load:g}; 2 is twice too much")
    if squeeze and (load is None or stream is not None):
        raise typer.BadParameter(
            "--squeeze says how events of files make the --load; "
            + ("generated ones come at a rate: leave it out" if stream else "give --load too")
        )
    virtual_time = None if duration is None else seconds_of("--duration", duration)
    bounded = with_bound(load_with_warnings(application), bound)
    if strata:
        check_strata(bounded, shedder)
    micro_batches = None if costs is None else read_costs(bounded, costs)
    latency_model = _check_costs(micro_batches, latency, shedder)
    given = read_times(bounded, processing_time or [], snapshot)
    options = ScenarioOptions(
        stream=stream,
        inputs=tuple(input_ or ()),
        load=load,
        squeeze=squeeze,
        duration=virtual_time,
        seed=seed,
        service=service,
        times=given if micro_batches is None else {**micro_batches.times, **given},
        costs=None if micro_batches is None else micro_batches.costs,
    )
    announce_compiling(patterns_of(bounded))
    scenario, unshed, events = make_scenario(bounded, application.parent, options)
    target = Target(latency=latency_model, aim=aim)
    limits = check_bounds(scenario, unshed, target)
    every = seconds_of("--interval", interval or ("5 s" if costs is None else "2 s"))
    checks = scenario_run.CHECKS_PER_DECISION if costs is None else 1
    steps = int(scenario.duration / every * checks) + 2
    latencies = IntervalLatencies()
    with _writing(output) as rows, progress_bar("simulating", steps) as step:
        outcome = scenario_run.run_scenario(
            scenario,
            shedder,
            target=target,
            interval=every,
            limits=limits,
            on_served=_each(rows.add, latencies.add) if rows else None,
            on_interval=_each(step, latencies.end_interval),
            with_outputs=True,
            unshed_sample=bounded.unshed_sample,
            with_strata=strata,
        )
    found = run_unshed(scenario, with_outputs=True).simulation.outputs
    report = SimulationReport(
        scenario=scenario,
        unshed=unshed,
        outcome=outcome,
        recall=compare_results(scenario.application, outcome.simulation.outputs, found),
        events=events,
        costs="" if micro_batches is None else micro_batches.origin,
    )
    if output is not None:
        _write(report, output, latencies)
    print(json.dumps(as_json(report), indent=2) if as_json_ else as_text(report))


def _each(*calls: Callable[..., None]) -> Callable[..., None]:
    """Call all of these, with the same arguments."""

    def call(*arguments: object) -> None:
        for one in calls:
            one(*arguments)

    return call


def _check_costs(
    micro_batches: MicroBatchTimes | None, latency: LatencyModel | None, shedder: Shedder
) -> LatencyModel:
    """Choose the latency model that nodes work by."""
    if micro_batches is None:
        return latency or LatencyModel.MG1
    if latency not in {None, LatencyModel.MICRO_BATCH}:
        raise typer.BadParameter(
            "--costs are of micro-batches, and --latency is of another engine; leave one of "
            "the two out"
        )
    if shedder is Shedder.UTILITY:
        raise typer.BadParameter(
            "--shedder utility chooses event by event, which micro-batches do not; leave out "
            "--costs, or take another shedder"
        )
    return LatencyModel.MICRO_BATCH


def _writing(output: Path | None) -> AbstractContextManager[LatencyFile | None]:
    """Make the folder for rows, before anything is simulated."""
    if output is None:
        return nullcontext()
    import_module("shedlight.cli.simulate_figure")  # what draws may not be installed
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write_error(output, error) from error
    return latency_file(output / "latency.parquet")


def _write(report: SimulationReport, folder: Path, latencies: IntervalLatencies) -> None:
    from shedlight.cli.simulate_figure import draw_simulation  # noqa: PLC0415  # slow

    made_with = {
        "application": report.scenario.application.name,
        "shedder": report.outcome.shedder.value,
        "load": f"{max(report.unshed.demand.values()):.2f}",
        "seed": str(report.scenario.seed),
        **provenance(),
    }
    write_results(folder / "nodes.csv", report.outcome.nodes, scenario_run.NodeRow, made_with)
    write_results(folder / "sinks.csv", report.outcome.sinks, scenario_run.SinkRow, made_with)
    lines = "".join(
        json.dumps(decision_row(decision)) + "\n" for decision in report.outcome.decisions
    )
    with written_whole(folder / "decisions.jsonl") as unfinished:
        unfinished.write_text(lines, encoding="utf-8")
    records = log_records(
        report.scenario.application,
        report.outcome,
        report.unshed.simulation.intervals,
        latencies,
        version=__version__,
    )
    with written_whole(folder / LOG) as unfinished:
        unfinished.write_text(
            "".join(record.model_dump_json() + "\n" for record in records), encoding="utf-8"
        )
    title = "{application}: shedder {shedder}, load {load}".format_map(made_with)
    draw_simulation(report.outcome, title, folder / "simulation.png")
    names = f"nodes.csv, sinks.csv, decisions.jsonl, {LOG}, latency.parquet, simulation.png"
    say(f"-> {folder}: {names}")
