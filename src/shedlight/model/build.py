"""From an application and a snapshot to the model that plans are made with."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from shedlight.graph.application import Application, OperatorSpec, ShedBy, Stream
from shedlight.graph.channels import link_name
from shedlight.graph.closures import Closures, find_closures
from shedlight.graph.columns import operator_columns
from shedlight.graph.topology import key_name, operator_order
from shedlight.language.ast.pattern import elements
from shedlight.model.arrays import Flags, Floats
from shedlight.model.model import (
    LinkModel,
    Model,
    NodeModel,
    OperatorModel,
    PatternModel,
    SinkModel,
)
from shedlight.model.operator_types import OperatorTypes, operator_types
from shedlight.model.quantity import format_keys
from shedlight.model.rates import with_capacities
from shedlight.model.selectivity.demand import MatchDemand, OrAs, build_demand
from shedlight.model.snapshot import ByType, Snapshot, check_snapshot
from shedlight.model.stratum_split import build_strata
from shedlight.model.type_index import operator_vocabularies

_MOMENT_OF_EXPONENTIAL = 2.0
"""The second moment of an exponential time over the square of its mean."""


def build_model(application: Application, snapshot: Snapshot, or_as: OrAs = "sum") -> Model:
    """Build the model of an application at the moment of a snapshot.

    Args:
        application: A checked application.
        snapshot: What is known of its load.
        or_as: What an OR is: the sum of its branches, or the greatest as in the paper.

    Raises:
        SnapshotError: The snapshot is not one of this application, or lacks what is needed.
    """
    vocabularies = operator_vocabularies(application)
    check_snapshot(snapshot, application, vocabularies)
    columns = operator_columns(application)
    closures, sent = find_closures(application), _sent(application)
    operators, strata = {}, {}
    for spec in operator_order(application):
        types = operator_types(application, snapshot, spec, columns, vocabularies[spec.name])
        operators[spec.name] = OperatorModel(
            name=spec.name,
            node=spec.node,
            types=types.labels,
            sources=types.sources,
            feeds=types.feeds,
            patterns=tuple(
                replace(
                    _pattern(snapshot, spec, stream, types, or_as, closures),
                    event_bytes=snapshot.event_bytes.get(stream, 0.0)
                    if stream in sent
                    else 0.0,
                )
                for stream in spec.outputs
            ),
            unused=types.unused,
        )
        if spec.name in snapshot.strata:
            strata[spec.name] = build_strata(spec, snapshot, types)
    model = Model(
        nodes={name: _node(application, snapshot, name) for name in application.nodes},
        operators=operators,
        sinks={
            sink.name: SinkModel(
                name=sink.name,
                stream=sink.input,
                weight=sink.weight,
                min_rate=sink.min_rate,
                min_share=sink.min_share,
            )
            for sink in application.sinks.values()
            if not sink.timed_out
        },
        strata=strata,
        links=tuple(_links(application)),
    )
    return with_capacities(model)


def _links(application: Application) -> Iterator[LinkModel]:
    channels = application.channels
    for edge, capacity in ({} if channels is None else channels.links).items():
        yield LinkModel(name=link_name(edge), node=edge[0], capacity=capacity)


def _sent(application: Application) -> frozenset[Stream]:
    """Find the patterns that other nodes read."""
    specs = application.operators
    return frozenset(
        stream
        for spec in specs.values()
        for stream in spec.inputs
        if stream.operator and specs[stream.operator].node != spec.node
    )


def _node(application: Application, snapshot: Snapshot, name: str) -> NodeModel:
    batch = snapshot.micro_batch.get(name)
    return NodeModel(
        name=name,
        bound=application.nodes[name].bound,
        percentile=application.nodes[name].percentile,
        backlog=snapshot.backlog.get(name, 0.0),
        fixed=batch.fixed if batch else 0.0,
        reading=batch.reading if batch else 0.0,
        transport=snapshot.transport.get(name, 0.0),
    )


def _pattern(
    snapshot: Snapshot,
    spec: OperatorSpec,
    stream: Stream,
    types: OperatorTypes,
    or_as: OrAs,
    closures: Closures,
) -> PatternModel:
    pattern = spec.patterns[stream.name]
    demand = build_demand(pattern.where, types.accepted.__getitem__, or_as)
    closure, switches = closures.by_watcher.get(stream), closures.switches.get(stream, ())
    if closure and closure.watches_all:
        demand = replace(demand, watched=np.ones(len(demand.uses), np.bool_))
    key = "" if spec.shed_by is ShedBy.EVENT else key_name(pattern.partition_by)
    group = closures.groups.get(stream, "")
    seconds = _seconds(snapshot, stream, types, demand)
    return PatternModel(
        stream=stream,
        demand=demand,
        seconds=seconds,
        moments=_moments(snapshot, stream, types, demand, seconds),
        emits=demand.size if pattern.each else 1.0,
        calibration=snapshot.calibration.get(stream, 1.0),
        measured=snapshot.output_rates.get(stream),
        key="" if stream in switches else group or key,
        group="" if stream in closures.feeders else group,
        switches=switches,
        watches=closure is not None,
        members=closure.upstream if closure else (),
        protected=_protected(spec, types, demand),
        pattern=pattern,
        accepts=tuple(types.accepted[each] for each in elements(pattern.where)),
    )


def _protected(spec: OperatorSpec, types: OperatorTypes, demand: MatchDemand) -> Flags:
    """Find the uses of which nothing is ever shed; an empty array if there is none."""
    if not spec.never_shed:
        return np.zeros(0, np.bool_)
    never_shed = np.concatenate([types.types_with(label) for label in spec.never_shed])
    protected = np.isin(demand.uses, never_shed)
    return protected if protected.any() else np.zeros(0, np.bool_)


def _seconds(
    snapshot: Snapshot, stream: Stream, types: OperatorTypes, demand: MatchDemand
) -> Floats:
    """Find the processing time of each use; an empty array if it is not known."""
    given = snapshot.processing_time.get(stream)
    if given is None:
        return np.zeros(0)
    seconds = _by_use(types, demand, given)
    unknown = np.isnan(seconds)
    arrivals = (*types.sources.values(), *types.feeds.values())
    for number in demand.uses[unknown]:
        if any(rates[number] > 0 for rates in arrivals):
            path, label = format_keys("processing_time", str(stream)), types.labels[number]
            problem = f"{path} has nothing for {label!r}, which arrives and which it uses"
            raise snapshot.error(f"{problem}; add its seconds, or write one number for all")
    if isinstance(given, Mapping):  # a type that does not arrive takes as long as any
        seconds[unknown] = max(given.values(), default=0.0)
    return seconds


def _moments(
    snapshot: Snapshot,
    stream: Stream,
    types: OperatorTypes,
    demand: MatchDemand,
    seconds: Floats,
) -> Floats:
    """Find the second moment of each use; what is not known is that of exponential times."""
    given = snapshot.second_moment.get(stream)
    moments = _MOMENT_OF_EXPONENTIAL * seconds**2
    if given is None:
        return moments
    known = _by_use(types, demand, given)
    moments = np.where(np.isnan(known), moments, known)
    for use in np.flatnonzero(moments < seconds**2 * (1 - 1e-9)):
        label = [types.labels[demand.uses[use]]] if isinstance(given, Mapping) else []
        path = format_keys("second_moment", str(stream), *label)
        problem = f"{path} is {moments[use]:g}, less than the square of the mean"
        hint = f"it is at least {seconds[use] ** 2:g}; leave it out if it is not known"
        raise snapshot.error(f"{problem}: {hint}")
    return moments


def _by_use(types: OperatorTypes, demand: MatchDemand, given: float | ByType) -> Floats:
    """Put a number for all types, or numbers by label, in the order of uses; NaN: none."""
    if not isinstance(given, Mapping):
        return np.full(len(demand.uses), float(given))
    vocabulary = types.vocabulary
    by_signature = {
        vocabulary.signature(codes): number
        for label, number in given.items()
        if (codes := vocabulary.parse(label)) is not None
    }
    numbers = [by_signature.get(types.signatures[use], np.nan) for use in demand.uses]
    return np.array(numbers, np.float64)
