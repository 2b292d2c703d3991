"""An operator chain, ready to run in one process; nothing of Spark is here.

Whole events in complex events are row numbers of an event table (`event_refs.py`) until they
leave the chain. `advance.py` runs a micro-batch through it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from shedlight.engines.spark.codec.event_refs import (
    EventRefs,
    EventTable,
    find_event_refs,
    with_event_refs,
)
from shedlight.engines.spark.step.completeness import Completeness, begin_patterns
from shedlight.engines.spark.step.keep_flags import flag_names, flag_streams, flag_types
from shedlight.engines.spark.step.parts import Progresses
from shedlight.engines.spark.step.sample_counts import PatternSample
from shedlight.engines.spark.support.placement import ChainSpec, NodeContext, has_shares
from shedlight.engines.spark.support.sample_spec import with_found, without_found
from shedlight.graph import OperatorSpec, Stream
from shedlight.matching.operators.cep_operator import (
    CepOperator,
    OperatorState,
    build_operator,
    ingest,
    match_batch,
    new_operator_state,
)
from shedlight.matching.operators.reorder import FOREVER, StreamInput
from shedlight.matching.output.complex_events import EVENTS, ID, TIME


@dataclass(frozen=True, slots=True, eq=False)
class ChainDefinition:
    """An operator chain and what was found out about it once; it travels to the workers."""

    spec: ChainSpec  # the chain
    event_refs: EventRefs  # which whole events are row numbers within the chain
    # the columns of the complex events of each pattern, and of its timed-out partial matches,
    # as others see them: with whole events
    outputs: Mapping[Stream, pa.Schema]
    events: Mapping[str, pa.Schema]  # all columns of the events of each operator


@dataclass(frozen=True, slots=True, eq=False)
class ChainRuntime:
    """An operator chain, built for the columns of its inputs."""

    definition: ChainDefinition  # what it was built of
    # each after those that feed it, with its columns of keep flags if it sheds
    operators: tuple[CepOperator, ...]

    @property
    def spec(self) -> ChainSpec:
        """The chain."""
        return self.definition.spec

    @property
    def event_refs(self) -> EventRefs:
        """Which whole events are row numbers within the chain."""
        return self.definition.event_refs

    @property
    def is_single_shard(self) -> bool:
        """Whether it has one shard, which then has all cores of its worker to itself."""
        return len(self.spec.placement.shards) == 1


@dataclass(frozen=True, slots=True, eq=False)
class ChainState:
    """The state of one shard of a chain."""

    operators: tuple[OperatorState, ...]  # the state of each operator
    watermarks: Mapping[tuple[str, int], int]  # of external streams, by stream and origin
    idle: frozenset[tuple[str, int]] = frozenset()  # the origins of streams that are idle
    # the events of each operator that row numbers refer to
    event_tables: Mapping[str, EventTable] = field(default_factory=dict)
    # for which keys streams of protected closures were whole
    completeness: Completeness = field(default_factory=Completeness)
    # what is held of the unshed sample, by pattern; nothing of those that found nothing so far
    samples: Mapping[Stream, PatternSample] = field(default_factory=dict)
    # what came of shards of other nodes by channels, by stream and origin
    progresses: Progresses = field(default_factory=dict)


def define_chain(spec: ChainSpec) -> ChainRuntime:
    """Build an operator chain, and find out what it may refer to instead of copying it."""
    operators, outputs = _build_operators(spec, EventRefs())
    events = {
        operator_spec.name: pa.schema([f for f in operator.schema if f.name[0] != "#"])
        for operator_spec, operator in zip(spec.placement.operators, operators, strict=True)
    }
    known = {stream: schema for stream, (_, schema) in spec.inputs.items()} | outputs
    event_refs = find_event_refs(spec.placement, events, known)
    return build_chain(ChainDefinition(spec, event_refs, outputs, events), operators)


def build_chain(definition: ChainDefinition, plain: Sequence[CepOperator] = ()) -> ChainRuntime:
    """Build an operator chain by its definition.

    Operators that neither make nor read event references are taken from the plain ones, if
    these are built already.
    """
    spec = definition.spec
    operators, _ = _build_operators(spec, definition.event_refs, plain)
    widened = [
        _with_own_columns(spec, operator_spec, operator)
        for operator_spec, operator in zip(spec.placement.operators, operators, strict=True)
    ]
    return ChainRuntime(definition, tuple(widened))


def _build_operators(
    chain: ChainSpec, event_refs: EventRefs, plain: Sequence[CepOperator] = ()
) -> tuple[list[CepOperator], dict[Stream, pa.Schema]]:
    """Build operators one after the other, and find the columns of their outputs."""
    known = dict(chain.inputs)
    operators: list[CepOperator] = []
    outputs: dict[Stream, pa.Schema] = {}
    for index, spec in enumerate(chain.placement.operators):
        timed_out = {
            stream.name for stream in spec.outputs if stream in chain.context.timed_out
        }
        inputs = [
            (read, without_found(columns))
            for read, columns in (known[stream] for stream in spec.inputs)
        ]
        if plain and not event_refs.read_by(spec):
            operator = plain[index]
        elif spec.name in event_refs.columns:
            operator = with_event_refs(spec, inputs, timed_out)
        else:
            operator = build_operator(inputs, spec.patterns, timed_out=timed_out)
        for stream, schema in output_schemas(operator, spec, chain.context).items():
            outputs[stream] = schema
            known[stream] = outside_input(stream, schema)
        operators.append(operator)
    return operators, outputs


def output_schemas(
    operator: CepOperator, spec: OperatorSpec, context: NodeContext
) -> Mapping[Stream, pa.Schema]:
    """Find the columns of an operator's complex events, and of timed-out partial matches."""
    state, ready, _ = ingest(operator, new_operator_state(operator), {}, frozenset())
    listed = {stream.name for stream in context.with_event_ids}
    without_event_ids = {stream.name for stream in spec.outputs} - listed
    with_began = {stream.name for stream in spec.outputs if stream in context.guards}
    _, outputs = match_batch(
        operator, state, ready, {}, without_event_ids, with_began=with_began
    )
    streams = {Stream(name, spec.name): table.schema for name, table in outputs.items()}
    marked = context.sample.marked
    return {
        s: with_found(columns) if s in marked else columns for s, columns in streams.items()
    }


def outside_input(stream: Stream, schema: pa.Schema) -> tuple[StreamInput, pa.Schema]:
    """Describe complex events as an input whose watermark comes from whoever emits them."""
    names = [name for name in schema.names if name != EVENTS]
    columns = pa.schema([schema.field(name) for name in names])
    return StreamInput(str(stream), (ID,), TIME, FOREVER), columns


def _with_own_columns(
    chain: ChainSpec, spec: OperatorSpec, operator: CepOperator
) -> CepOperator:
    """Let events carry, until they are ready, which patterns keep them and how found."""
    schema = operator.schema
    if has_shares(spec, chain.context.shares):
        number = len(flag_streams(chain, spec))
        flags = map(pa.field, flag_names(spec.name, number), flag_types(number))
        schema = pa.schema([*schema, *flags])
    if chain.context.sample.reads_marked(spec):
        schema = with_found(schema)
    return replace(operator, schema=schema)


def new_chain_state(chain: ChainRuntime) -> ChainState:
    """Make the state before any event."""
    columns = chain.event_refs.columns
    tables = {name: EventTable(schema.empty_table()) for name, schema in columns.items()}
    states = tuple(map(new_operator_state, chain.operators))
    completeness = begin_patterns(Completeness(), chain.spec.context)
    return ChainState(states, {}, event_tables=tables, completeness=completeness)
