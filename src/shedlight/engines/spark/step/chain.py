"""The operators of a part, ready to run in one process; nothing of Spark is here.

Whole events in complex events are their numbers on a shelf (`event_refs.py`) until they leave.
How a shard goes on is in `advancing.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from shedlight.engines.spark.codec.event_refs import (
    EventRefs,
    EventTable,
    find_event_refs,
    numbered_operator,
)
from shedlight.engines.spark.step.keep_flags import flag_names, flag_types
from shedlight.engines.spark.support.placement import ChainSpec, has_shares
from shedlight.graph import OperatorSpec, Stream
from shedlight.matching.operators.cep_operator import (
    Operator,
    OperatorState,
    build_operator,
    ingest,
    match_batch,
    new_operator_state,
)
from shedlight.matching.operators.reorder import FOREVER, StreamInput
from shedlight.matching.output.complex_events import EVENTS, ID, TIME


@dataclass(frozen=True, slots=True, eq=False)
class ChainRuntime:
    """The operators of a part, ready to run.

    Attributes:
        spec: What they were built of.
        operators: Each after those that feed it, with its columns of keep flags if it sheds.
        outputs: The columns of the complex events of each pattern, and of what timed out.
        whole: All columns of the events of each operator.
        referring: Which whole events in them are numbers here.
    """

    spec: ChainSpec
    operators: tuple[Operator, ...]
    outputs: Mapping[Stream, pa.Schema]
    whole: Mapping[str, pa.Schema]
    event_refs: EventRefs

    @property
    def is_alone(self) -> bool:
        """Whether the part has one shard, which has its machine's other cores to itself."""
        return len(self.spec.placement.shards) == 1


@dataclass(frozen=True, slots=True, eq=False)
class ChainState:
    """Where a shard stands.

    Attributes:
        operators: Where each operator stands.
        marks: How far external streams are, by stream and origin.
        idle: The origins of streams that hold nobody back.
        shelves: The events that operators refer to by number.
    """

    operators: tuple[OperatorState, ...]
    marks: Mapping[tuple[str, int], int]
    idle: frozenset[tuple[str, int]] = frozenset()
    shelves: Mapping[str, EventTable] = field(default_factory=dict)


def build_chain(given: ChainSpec) -> ChainRuntime:
    """Build the operators of a part."""
    plain, outputs = _operators(given, EventRefs())
    own = {
        spec.name: pa.schema([one for one in operator.schema if not one.name.startswith("#")])
        for spec, operator in zip(given.placement.operators, plain, strict=True)
    }
    known = {stream: schema for stream, (_, schema) in given.inputs.items()} | outputs
    found = find_event_refs(given.placement, own, known)
    operators = _operators(given, found)[0] if found.columns else plain
    shedding = [
        _widened(operator) if has_shares(spec, given.shares) else operator
        for spec, operator in zip(given.placement.operators, operators, strict=True)
    ]
    return ChainRuntime(given, tuple(shedding), outputs, own, found)


def _operators(
    given: ChainSpec, by_number: EventRefs
) -> tuple[list[Operator], dict[Stream, pa.Schema]]:
    """Build operators one after the other, and find the columns of what each gives."""
    known = dict(given.inputs)
    operators = []
    outputs: dict[Stream, pa.Schema] = {}
    for spec in given.placement.operators:
        asked = {stream.name for stream in spec.outputs if stream in given.timed_out}
        inputs = [known[stream] for stream in spec.inputs]
        operator = build_operator(inputs, spec.patterns, timed_out=asked)
        if spec.name in by_number.columns:
            schemas = [schema for _, schema in inputs]
            operator = numbered_operator(operator, spec, schemas, asked)
        for stream, schema in output_schemas(operator, spec, given.with_event_ids).items():
            outputs[stream] = schema
            known[stream] = outside_input(stream, schema)
        operators.append(operator)
    return operators, outputs


def output_schemas(
    operator: Operator, spec: OperatorSpec, with_event_ids: frozenset[Stream]
) -> Mapping[Stream, pa.Schema]:
    """Find the columns of the complex events of an operator's patterns, and what timed out."""
    state, ready, _ = ingest(operator, new_operator_state(operator), {}, frozenset())
    without_event_ids = {stream.name for stream in spec.outputs} - {
        one.name for one in with_event_ids
    }
    _, found = match_batch(operator, state, ready, {}, without_event_ids)
    return {Stream(name, spec.name): table.schema for name, table in found.items()}


def outside_input(stream: Stream, schema: pa.Schema) -> tuple[StreamInput, pa.Schema]:
    """Describe complex events as an input that is told how far it is."""
    names = [name for name in schema.names if name != EVENTS]
    columns = pa.schema([schema.field(name) for name in names])
    return StreamInput(str(stream), (ID,), TIME, FOREVER), columns


def _widened(operator: Operator) -> Operator:
    """Let events carry what was decided about them until they are ready."""
    number = len(operator.matchers)
    flags = map(pa.field, flag_names(number), flag_types(number))
    return replace(operator, schema=pa.schema([*operator.schema, *flags]))


def new_chain_state(chain: ChainRuntime) -> ChainState:
    """Make the state before any event."""
    columns = chain.event_refs.columns
    shelves = {name: EventTable(schema.empty_table()) for name, schema in columns.items()}
    states = tuple(map(new_operator_state, chain.operators))
    return ChainState(states, {}, shelves=shelves)
