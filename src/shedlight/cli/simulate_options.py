"""Options of `shedlight simulate` to a scenario: its events, and how long processing takes."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import typer

from shedlight.cli.future_events import FutureCounts
from shedlight.cli.malformed import MalformedRecords
from shedlight.cli.options import seconds_of
from shedlight.cli.plan_options import change_bounds
from shedlight.cli.source_files import read_sources
from shedlight.engines.simulator import Service, ServiceDistribution
from shedlight.engines.simulator.measure import measure_batch_times, measure_service_times
from shedlight.engines.simulator.scenario import (
    Scenario,
    Unshed,
    generate_pilot,
    generate_scenario,
    replay_scenario,
)
from shedlight.engines.simulator.shedders import Shedder
from shedlight.engines.tables import leave_out_malformed
from shedlight.errors import InputError, known_names
from shedlight.generate.for_sources import StreamProfile, with_generated_sources
from shedlight.graph import Application, Stream
from shedlight.graph.strata import find_stratified
from shedlight.model.snapshot_file import read_snapshot
from shedlight.model.spark_costs import Costs
from shedlight.shedding.shares import sheddable


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOptions:
    """The options about events and processing times."""

    stream: StreamProfile | None  # how events are generated; None: they are read
    inputs: tuple[str, ...]  # files of events, NAME=FILE
    load: float | None  # in multiples of what the busiest node can do
    squeeze: bool  # whether windows hold more events of files for that
    duration: float | None  # in seconds of virtual time
    seed: int  # of the events and the processing times
    service: ServiceDistribution | None  # how processing times vary
    times: Mapping[Stream, float]  # mean processing times that are given
    # what micro-batches cost at nodes besides; None: nodes take events one by one
    costs: Mapping[str, Costs] | None


def with_bound(application: Application, bound: str | None) -> Application:
    """Replace the bounds of all nodes that have one."""
    if all(node.bound is None for node in application.nodes.values()):
        name = next(iter(application.nodes), "node")
        raise InputError(
            f"no node of {application.name!r} has a bound, so nothing would ever be shed; "
            f"write 'bound: 3 s' at a node, such as {name!r}"
        )
    if bound is None:
        return application
    return replace(application, nodes=change_bounds(application.nodes, bound))


def check_strata(application: Application, shedder: Shedder) -> None:
    """See that a simulation has keys that can be shed in strata, and plans for them."""
    if shedder not in {Shedder.GLOBAL, Shedder.LOCAL}:
        raise typer.BadParameter(
            f"--strata are planned, and --shedder {shedder.value} does not plan; leave one of "
            "the two out"
        )
    check_stratified(application)


def check_stratified(application: Application) -> None:
    """See that an application has keys that can be shed in strata."""
    if not find_stratified(application):
        raise InputError(
            f"no operator of {application.name!r} has strata: all its patterns must have one "
            "PARTITION BY, its node a bound, and none be in a protected closure; leave out "
            "--strata"
        )


def read_times(
    application: Application, options: list[str], snapshot: Path | None
) -> Mapping[Stream, float]:
    """Read the processing times that are given; those of options override the snapshot's."""
    streams = {str(s): s for s in application.streams if s.operator is not None}
    times: dict[Stream, float] = {}
    if snapshot is not None:
        for stream, seconds in read_snapshot(snapshot, application).processing_time.items():
            values = seconds.values() if isinstance(seconds, Mapping) else (seconds,)
            times[stream] = sum(values) / len(values)
    for text in options:
        name, _, duration = (part.strip() for part in text.partition("="))
        if name not in streams:
            raise typer.BadParameter(
                f"--processing-time names the unknown pattern {name!r}; "
                f"{known_names(name, streams)}"
            )
        times[streams[name]] = seconds_of(f"--processing-time {name}", duration)
    return times


def make_scenario(
    application: Application, folder: Path, options: ScenarioOptions
) -> tuple[Scenario, Unshed, str]:
    """Make the scenario, run it without shedding, and describe where its events are from."""
    stream, load, duration, seed = options.stream, options.load, options.duration, options.seed
    if stream is None:
        advice = ", or generate events by --stream balanced"
        left_out, future = MalformedRecords(), FutureCounts()
        read = read_sources(
            application, folder, options.inputs, advice, left_out.add, future.add
        )
        tables = leave_out_malformed(application, read, left_out.add)
        left_out.report(None)
        future.report("allow for more by `max_jump` of the source")
        service = _service(application, lambda: tables, options)
        scenario, unshed = replay_scenario(
            application,
            tables,
            service,
            load=load,
            duration=duration,
            seed=seed,
            squeeze=options.squeeze,
            costs=options.costs,
        )
        return scenario, unshed, f"of files, {_describe_pace(scenario)}"
    if options.inputs:
        raise typer.BadParameter("give --stream or --input, one of the two")
    generated = with_generated_sources(application)
    service = _service(generated, lambda: generate_pilot(application, stream, seed), options)
    load = 2.0 if load is None else load
    duration = 600.0 if duration is None else duration
    scenario, unshed = generate_scenario(
        application,
        service,
        stream,
        load=load,
        duration=duration,
        seed=seed,
        costs=options.costs,
    )
    rates = ", ".join(
        f"{name} {len(table) / duration:,.1f}/s" for name, table in scenario.tables.items()
    )
    return scenario, unshed, f"generated, {stream.value}, seed {seed}; {rates}"


def _describe_pace(scenario: Scenario) -> str:
    """Say how fast events of files come, and what that is to windows."""
    if scenario.pace == 1:
        return "as fast as recorded"
    fast = f"{scenario.pace:.4g} times as fast as recorded"
    if scenario.squeeze:
        return f"squeezed: {fast}, and windows hold as many times more"
    return f"fed {fast}; windows hold what they hold in the files"


def _service(
    application: Application,
    sample: Callable[[], Mapping[str, pa.Table]],
    options: ScenarioOptions,
) -> Service:
    """Take the times that are given, or measure those of the nodes with a bound."""
    if options.costs is not None:
        return _batch_service(application, sample, options)
    default = ServiceDistribution.EXPONENTIAL if options.times else ServiceDistribution.MEASURED
    distribution = options.service or default
    if options.times:
        if options.service is ServiceDistribution.MEASURED:
            raise typer.BadParameter(
                "--service measured leaves no room for given processing times; "
                "leave one of the two out"
            )
        _check_complete(application, options.times)
        return Service(seconds=options.times, distribution=distribution)
    bounded = set(sheddable(application))
    samples = measure_service_times(application, sample(), bounded)
    _check_measured(bounded, {stream for stream, times in samples.items() if times})
    seconds = {stream: sum(times) / len(times) for stream, times in samples.items()}
    return Service(seconds=seconds, distribution=distribution, samples=samples)


def _batch_service(
    application: Application,
    sample: Callable[[], Mapping[str, pa.Table]],
    options: ScenarioOptions,
) -> Service:
    """Take the times that are given, and measure those of others in large batches."""
    if options.service is ServiceDistribution.MEASURED:
        raise typer.BadParameter(
            "--service measured draws the times of single events, and a micro-batch has none; "
            "leave out --service or --costs"
        )
    seconds, bounded = dict(options.times), set(sheddable(application))
    if not bounded <= seconds.keys():
        measured = measure_batch_times(application, sample(), bounded - seconds.keys())
        seconds |= measured
        _check_measured(bounded, seconds.keys())
    distribution = options.service or ServiceDistribution.CONSTANT
    return Service(seconds=seconds, distribution=distribution)


def _check_measured(bounded: AbstractSet[Stream], measured: AbstractSet[Stream]) -> None:
    """Check that all patterns on nodes with a bound have their times."""
    for stream in sorted(map(str, bounded - measured)):
        raise InputError(
            f"the processing time of {stream} cannot be measured, for none of the first events "
            f"is relevant to it; give --processing-time {stream}=TIME"
        )


def _check_complete(application: Application, times: Mapping[Stream, float]) -> None:
    """Check that all patterns on nodes with a bound have their times."""
    for stream in sheddable(application):
        if stream not in times:
            node = application.operators[str(stream.operator)].node
            raise InputError(
                f"the processing time of {stream} is missing, and node {node!r} has a bound; "
                f"give --processing-time {stream}=TIME too, or none at all to measure them"
            )
