"""What the options of `shedlight simulate` say: the events, and how long processing takes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import typer

from shedlight.engines.event_files import read_events
from shedlight.engines.simulator import Service, ServiceDistribution
from shedlight.engines.simulator.measure import measure_service_times
from shedlight.engines.simulator.scenario import (
    Scenario,
    Unshed,
    generate_pilot,
    generate_scenario,
    replay_scenario,
)
from shedlight.errors import InputError, known_names
from shedlight.generate.for_sources import StreamProfile, with_generated_sources
from shedlight.graph import Application, Stream
from shedlight.language.ast.window import read_duration
from shedlight.model.snapshot_file import read_snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOptions:
    """What the options say about the events."""

    stream: StreamProfile | None
    inputs: tuple[str, ...]
    load: float | None
    duration: float | None
    seed: int


def seconds_of(option: str, text: str) -> float:
    """Read a time that is longer than zero, in seconds."""
    try:
        seconds = read_duration(text) / 1e6
    except ValueError as error:
        raise typer.BadParameter(f"{option} {error}") from error
    if seconds <= 0:
        raise typer.BadParameter(f"{option} must be longer than zero, got {text!r}")
    return seconds


def with_bound(application: Application, bound: str | None) -> Application:
    """Give all nodes that have a bound another."""
    if all(node.bound is None for node in application.nodes.values()):
        name = next(iter(application.nodes), "node")
        raise InputError(
            f"no node of {application.name!r} has a bound, so nothing would ever be shed; "
            f"write 'bound: 3 s' at a node, such as {name!r}"
        )
    if bound is None:
        return application
    seconds = seconds_of("--bound", bound)
    nodes = {
        name: node if node.bound is None else replace(node, bound=seconds)
        for name, node in application.nodes.items()
    }
    return replace(application, nodes=nodes)


def read_times(
    application: Application, given: list[str], snapshot: Path | None
) -> Mapping[Stream, float]:
    """Read the processing times that are given; those of the command line come first."""
    known = {str(one): one for one in application.streams if one.operator is not None}
    found: dict[Stream, float] = {}
    if snapshot is not None:
        for stream, seconds in read_snapshot(snapshot, application).processing_time.items():
            values = seconds.values() if isinstance(seconds, Mapping) else (seconds,)
            found[stream] = sum(values) / len(values)
    for text in given:
        name, _, duration = (part.strip() for part in text.partition("="))
        if name not in known:
            raise typer.BadParameter(
                f"--processing-time names the unknown pattern {name!r}; "
                f"{known_names(name, known)}"
            )
        found[known[name]] = seconds_of(f"--processing-time {name}", duration)
    return found


def make_scenario(
    application: Application,
    folder: Path,
    wish: ScenarioOptions,
    given: tuple[ServiceDistribution | None, Mapping[Stream, float]],
) -> tuple[Scenario, Unshed, str]:
    """Put events and processing times together, and say where the events are from."""
    if wish.stream is not None:
        if wish.inputs:
            raise typer.BadParameter("give --stream or --input, one of the two")
        made = with_generated_sources(application)
        service = _service(
            made,
            lambda: generate_pilot(
                application, wish.stream or StreamProfile.BALANCED, wish.seed
            ),
            given,
        )
        load = 2.0 if wish.load is None else wish.load
        duration = 600.0 if wish.duration is None else wish.duration
        scenario, unshed = generate_scenario(
            application, service, wish.stream, load=load, duration=duration, seed=wish.seed
        )
        rates = ", ".join(
            f"{name} {len(table) / duration:,.1f}/s" for name, table in scenario.tables.items()
        )
        return scenario, unshed, f"generated, {wish.stream.value}, seed {wish.seed}; {rates}"
    tables = _tables(application, folder, wish.inputs)
    service = _service(application, lambda: tables, given)
    scenario, unshed = replay_scenario(
        application, tables, service, load=wish.load, duration=wish.duration, seed=wish.seed
    )
    return scenario, unshed, f"of files, fed {scenario.pace:.4g} times as fast as recorded"


def _service(
    application: Application,
    sample: Callable[[], Mapping[str, pa.Table]],
    given: tuple[ServiceDistribution | None, Mapping[Stream, float]],
) -> Service:
    """Take the times that are given, or measure those of the nodes with a bound."""
    kind, times = given
    if times:
        if kind is ServiceDistribution.MEASURED:
            raise typer.BadParameter(
                "--service measured leaves no room for given processing times; "
                "leave one of the two out"
            )
        _check_complete(application, times)
        return Service(seconds=times, distribution=kind or ServiceDistribution.EXPONENTIAL)
    wanted = set(_bounded(application))
    found = measure_service_times(application, sample(), wanted)
    for stream in sorted(map(str, wanted - {one for one, taken in found.items() if taken})):
        raise InputError(
            f"the processing time of {stream} cannot be measured, for it has a use for none of "
            f"the first events; give --processing-time {stream}=TIME"
        )
    seconds = {stream: sum(taken) / len(taken) for stream, taken in found.items()}
    return Service(
        seconds=seconds, distribution=kind or ServiceDistribution.MEASURED, samples=found
    )


def _bounded(application: Application) -> Iterator[Stream]:
    """Give the patterns on nodes that have a bound."""
    for spec in application.operators.values():
        if application.nodes[spec.node].bound is not None:
            yield from spec.outputs


def _check_complete(application: Application, times: Mapping[Stream, float]) -> None:
    """See that all patterns on nodes with a bound have their times."""
    for stream in _bounded(application):
        if stream not in times:
            node = application.operators[str(stream.operator)].node
            raise InputError(
                f"the processing time of {stream} is missing, and node {node!r} has a bound; "
                f"give --processing-time {stream}=TIME too, or none at all to measure them"
            )


def _tables(
    application: Application, folder: Path, inputs: tuple[str, ...]
) -> Mapping[str, pa.Table]:
    """Read the events of all sources."""
    given: dict[str, Path] = {}
    for text in inputs:
        name, separator, file = text.partition("=")
        if not separator or name not in application.sources:
            raise InputError(
                f"--input {text!r} must be NAME=FILE with the name of a source; "
                f"{known_names(name, application.sources)}"
            )
        given[name] = Path(file)
    tables = {}
    for name, source in application.sources.items():
        place = given.get(name) or (folder / source.path if source.path else None)
        if place is None or not (name in given or place.exists()):
            raise InputError(
                f"source {name!r} has no events at {place or 'any path'}; give --input "
                f"{name}=FILE, or generate events by --stream balanced"
            )
        tables[name] = read_events(place, None if name in given else source.format)
    return tables
