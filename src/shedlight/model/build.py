"""From an application and a snapshot to the model that plans are made with."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from shedlight.graph.application import Application, OperatorSpec, ShedBy, Stream
from shedlight.graph.columns import operator_columns
from shedlight.graph.topology import key_name, operator_order
from shedlight.language.ast.pattern import Pattern, WindowUnit, elements
from shedlight.model.arrays import Flags, Floats
from shedlight.model.model import Model, NodeModel, OperatorModel, PatternModel, SinkModel
from shedlight.model.operator_types import OperatorTypes, operator_types
from shedlight.model.quantity import dotted
from shedlight.model.rates import with_capacities
from shedlight.model.selectivity.demand import MatchDemand, OrAs, build_demand
from shedlight.model.snapshot import Snapshot, check_snapshot
from shedlight.model.type_index import operator_vocabularies

_OF_EXPONENTIAL = 2.0
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
    operators = {}
    for spec in operator_order(application):
        types = operator_types(application, snapshot, spec, columns, vocabularies[spec.name])
        operators[spec.name] = OperatorModel(
            name=spec.name,
            node=spec.node,
            types=types.labels,
            sources=types.sources,
            feeds=types.feeds,
            patterns=tuple(
                _pattern(snapshot, spec, s, types, or_as, timed_out=s in application.timed_out)
                for s in spec.outputs
            ),
            unused=types.unused,
        )
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
    )
    return with_capacities(model)


def _node(application: Application, snapshot: Snapshot, name: str) -> NodeModel:
    batch = snapshot.micro_batch.get(name)
    return NodeModel(
        name=name,
        bound=application.nodes[name].bound,
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
    *,
    timed_out: bool,
) -> PatternModel:
    pattern = spec.patterns[stream.name]
    demand = build_demand(pattern.where, types.accepted.__getitem__, or_as)
    key = _key(spec, pattern)
    exempt = _protected(spec, types, demand, watched=bool(key))
    if timed_out:  # any event may be the one without which a machine times out
        exempt = np.ones(len(demand.uses), np.bool_)
    if (
        pattern.within and pattern.within.span is WindowUnit.EVENTS
    ):  # its window counts all events
        demand = replace(demand, watched=np.ones(len(demand.uses), np.bool_))
    seconds = _seconds(snapshot, stream, types, demand)
    return PatternModel(
        stream=stream,
        demand=demand,
        seconds=seconds,
        moments=_moments(snapshot, stream, types, demand, seconds),
        emits=demand.size if pattern.each else 1.0,
        calibration=snapshot.calibration.get(stream, 1.0),
        measured=snapshot.output_rates.get(stream),
        key=key,
        protected=exempt,
        pattern=pattern,
        accepts=tuple(types.accepted[each] for each in elements(pattern.where)),
    )


def _key(spec: OperatorSpec, pattern: Pattern) -> str:
    """Write what a pattern is shed by, if it is shed by key."""
    return "" if spec.shed_by is ShedBy.EVENT else key_name(pattern.partition_by)


def _protected(
    spec: OperatorSpec, types: OperatorTypes, demand: MatchDemand, *, watched: bool
) -> Flags:
    """Find the uses that must never be shed; nothing if there is none.

    These are the types that nobody wishes to be shed, and of a pattern that is shed by key what
    its NOTs watch for: a machine that is open when its key comes to be shed would else take
    for absent what is only not shown to it.

    Args:
        spec: The operator.
        types: Its types.
        demand: What the pattern needs.
        watched: Whether to protect what is watched for.
    """
    found = np.zeros(len(demand.uses), np.bool_)
    if spec.never_shed:
        places = np.concatenate([types.holding(label) for label in spec.never_shed])
        found |= np.isin(demand.uses, places)
    if watched:
        found |= demand.watched
    return found if found.any() else np.zeros(0, np.bool_)


def _seconds(
    snapshot: Snapshot, stream: Stream, types: OperatorTypes, demand: MatchDemand
) -> Floats:
    """Find the processing time of each use; nothing if it is not known."""
    times = snapshot.processing_time.get(stream)
    if times is None:
        return np.zeros(0)
    if not isinstance(times, Mapping):
        return np.full(len(demand.uses), float(times))
    found = _by_use(types, demand, times)
    unknown = np.isnan(found)
    for place in np.flatnonzero(unknown):
        label = types.labels[demand.uses[place]]
        if _arrives(types, int(demand.uses[place])):
            where = dotted("processing_time", str(stream))
            problem = f"{where} has nothing for {label!r}, which arrives and which it uses"
            raise snapshot.error(f"{problem}; add its seconds, or write one number for all")
    return np.where(unknown, max(times.values(), default=0.0), found)


def _moments(
    snapshot: Snapshot,
    stream: Stream,
    types: OperatorTypes,
    demand: MatchDemand,
    seconds: Floats,
) -> Floats:
    """Find the second moment of each use; what is not known is that of exponential times."""
    given = snapshot.second_moment.get(stream)
    usual = _OF_EXPONENTIAL * seconds**2
    if given is None:
        return usual
    if isinstance(given, Mapping):
        found = _by_use(types, demand, given)
    else:
        found = np.full(len(usual), float(given))
    moments = np.where(np.isnan(found), usual, found)
    for place in np.flatnonzero(moments < seconds**2 * (1 - 1e-9)):
        label = [types.labels[demand.uses[place]]] if isinstance(given, Mapping) else []
        where = dotted("second_moment", str(stream), *label)
        problem = f"{where} is {moments[place]:g}, less than the square of the mean"
        hint = f"it is at least {seconds[place] ** 2:g}; leave it out if it is not known"
        raise snapshot.error(f"{problem}: {hint}")
    return moments


def _by_use(types: OperatorTypes, demand: MatchDemand, by_label: Mapping[str, float]) -> Floats:
    """Put numbers by label in the order of a pattern's uses; NaN where there is none."""
    words = types.vocabulary
    by_signature = {
        words.signature(said): value
        for label, value in by_label.items()
        if (said := words.parse(label)) is not None
    }
    return np.array(
        [by_signature.get(types.signatures[use], np.nan) for use in demand.uses], np.float64
    )


def _arrives(types: OperatorTypes, place: int) -> bool:
    streams = (*types.sources.values(), *types.feeds.values())
    return any(amounts[place] > 0 for amounts in streams)
