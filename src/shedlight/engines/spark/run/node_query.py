"""The query of a node: from its inputs to what its shards emit."""

import sys
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so

from shedlight.engines.spark.codec.blobs import MIN_BLOB_BYTES
from shedlight.engines.spark.codec.pack import PACKED, PARTS, SHARD, STEP_OUTPUT_SCHEMA, packer
from shedlight.engines.spark.outbox.outbox import late_output
from shedlight.engines.spark.shed import keep_sql
from shedlight.engines.spark.shed.plan_column import Limits, read_plan, read_text
from shedlight.engines.spark.shed.shard_plan import find_needs, shard_plan
from shedlight.engines.spark.shed.type_catalog import Catalogs, type_catalogs
from shedlight.engines.spark.shed.type_sql import key_hash_sql
from shedlight.engines.spark.source.arrival import arrivals_name, observe_packed
from shedlight.engines.spark.source.reader import arrow_schema
from shedlight.engines.spark.step.chain import ChainRuntime, define_chain
from shedlight.engines.spark.step.metrics import METRICS
from shedlight.engines.spark.step.state_files import MIN_FILE_BYTES, StateFiles
from shedlight.engines.spark.step.stateful import STATE, Step, stateful_function
from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.engines.spark.support.checkpoint_paths import NodeFolders
from shedlight.engines.spark.support.placement import (
    ChainSpec,
    EarlierShards,
    NodeContext,
    OperatorChain,
    is_passthrough,
)
from shedlight.engines.spark.support.plan_store import PlanStore
from shedlight.engines.spark.support.shard_slots import shard_slots
from shedlight.graph import Stream
from shedlight.language.eval.spark_sql import quote_name
from shedlight.matching.operators.cep_operator import schema_of
from shedlight.matching.operators.reorder import StreamInput


@dataclass(frozen=True, slots=True, eq=False)
class InputStream:
    """A stream as a node reads it."""

    input: StreamInput  # its id and time columns
    events: DataFrame  # its events, with the time of their arrival
    # its watermark updates: `origin`, `watermark`, `idle`, `steps`; by a channel `PARTS`, too,
    # and else when they were written, if that is known
    watermarks: DataFrame
    origins: tuple[int, ...]  # the shards that send them
    packed: DataFrame | None = None  # its complex events, if another node packed them

    @property
    def schema(self) -> pa.Schema:
        """The columns of its events."""
        return pa.schema([f for f in arrow_schema(self.events) if f.name != ARRIVAL])


@dataclass(frozen=True, slots=True, eq=False)
class NodeQuery(keep_sql.PlannedNode):
    """The query of a node."""

    frame: DataFrame  # what it writes to the outbox
    slots: Mapping[int, int]  # by which number Spark groups the rows of each shard
    # the columns of each stream in the outbox, and of each operator's late events
    outputs: Mapping[Stream, pa.Schema]

    @property
    def shard_count(self) -> int:
        """How many shards there are."""
        return sum(len(chain.spec.placement.shards) for chain in self.chains)

    @property
    def is_even(self) -> bool:
        """Whether all events that are packed are of one size: numbers and times, no text."""
        return all(
            pa.types.is_primitive(field.type)
            for chain in self.chains
            for stream, (_, schema) in chain.spec.inputs.items()
            if not is_passthrough(chain.spec, stream)
            for field in schema
        )


def build_node_chain(
    placement: OperatorChain,
    inputs: Mapping[Stream, InputStream],
    context: NodeContext,
    earlier: EarlierShards | None = None,
) -> ChainRuntime:
    """Build the operators of a chain for the columns of its inputs."""
    read = {stream: inputs[stream] for stream in placement.external}
    columns = {stream: (source.input, source.schema) for stream, source in read.items()}
    origins = {stream: source.origins for stream, source in read.items()}
    return define_chain(ChainSpec(placement, columns, origins, context, earlier))


def node_query(
    spark: SparkSession,
    chains: tuple[ChainRuntime, ...],
    inputs: Mapping[Stream, InputStream],
    context: NodeContext,
    folders: NodeFolders,
    strata: Container[str] = (),
) -> NodeQuery:
    """Write the query of a node, some of whose operators may shed their keys in strata."""
    catalogs = type_catalogs(chains, strata)
    shedding = keep_sql.shed_patterns(chains, catalogs)
    plan = read_plan(spark, folders.plan, shedding) if shedding else None
    packed = [row for chain in chains for row in _packed(chain, catalogs, inputs, plan)]
    definitions = tuple(chain.definition for chain in chains)
    slots = _slots(chains)
    retained = _retained_batches(spark)
    if isinstance(folders.blobs, Path) and isinstance(folders.states, Path):
        states = StateFiles(folders.states, MIN_FILE_BYTES, retained=retained)
        step = Step(definitions, slots, context, str(folders.blobs), MIN_BLOB_BYTES, states)
    else:  # workers cannot reach them: rows have all
        states = StateFiles(Path(), sys.maxsize, retained=retained)
        step = Step(definitions, slots, context, "", sys.maxsize, states)
    all_rows = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), packed)
    needed = find_needs(chains, catalogs)
    text = (
        read_text(spark, partial(shard_plan, folders.plan, needed)).scalar() if needed else None
    )
    all_rows = all_rows.withColumn("plan", F.lit(None).cast("string") if text is None else text)
    place = F.col("shard") - (min(slots) - 1)
    slot = F.element_at(F.array(*map(F.lit, slots.values())), place)
    shards = all_rows.withColumn("slot", slot).drop("shard").groupBy("slot")
    emitted = shards.applyInPandasWithState(
        stateful_function(step), STEP_OUTPUT_SCHEMA, STATE, "append", "NoTimeout"
    )
    collected = F.collect_list("metrics").alias(METRICS)
    rows = emitted.observe(METRICS, collected).where("metrics IS NULL").drop("metrics")
    outputs = dict(_outputs(chains, context))
    return NodeQuery(chains, catalogs, PlanStore(folders.plan), rows, slots, outputs)


def _retained_batches(spark: SparkSession) -> int:
    """Ask how many micro-batches back Spark's own checkpoint goes."""
    return int(spark.conf.get("spark.sql.streaming.minBatchesToRetain") or 1)


def _slots(chains: tuple[ChainRuntime, ...]) -> dict[int, int]:
    """Spread the shards of each chain over as many partitions as the longest has shards."""
    shards = [shard for chain in chains for shard in chain.spec.placement.shards]
    longest = max(len(chain.spec.placement.shards) for chain in chains)
    slots = shard_slots(shards[-1] + 1, longest)
    return {shard: slots[shard] for shard in shards}


def _outputs(
    chains: tuple[ChainRuntime, ...], context: NodeContext
) -> Iterator[tuple[Stream, pa.Schema]]:
    for chain in chains:
        for stream, schema in chain.definition.outputs.items():
            if stream in context.published_streams:
                yield stream, schema
        for name, schema in chain.definition.events.items():
            if name in context.late:
                yield late_output(name), schema


def _packed(
    chain: ChainRuntime,
    catalogs: Catalogs,
    inputs: Mapping[Stream, InputStream],
    plan: Limits | None,
) -> Iterator[DataFrame]:
    """Pack the events of each input by shard, and send its watermarks to all shards."""
    shards = chain.spec.placement.shards
    all_shards = f"explode(sequence({shards[0]}, {shards[-1]}))"
    for stream in chain.spec.placement.external:
        packed = inputs[stream].packed
        if packed is not None and is_passthrough(chain.spec, stream):
            yield _pass_through(chain, stream, packed)
        else:
            kept = keep_sql.add_keep_flags_and_filter(
                chain, catalogs, stream, inputs[stream].events, plan
            )
            kept = kept.withColumn(SHARD, F.expr(_shard_sql(chain, stream, kept)))
            # who guards what may be shed must know of every micro-batch that sheds
            woken = list(shards) if _is_guarded(chain) else []
            schema = inputs[stream].schema
            pack = packer(stream.operator or "", stream.name, schema, woken)
            yield kept.mapInArrow(pack, PACKED)
        watermarks = _with_parts(inputs[stream].watermarks)
        if ARRIVAL in watermarks.columns:  # by which they are in order
            written = F.col(quote_name(ARRIVAL)).cast("double")
            watermarks = watermarks.withColumn("arrival", written).drop(ARRIVAL)
        yield watermarks.select(
            F.expr(all_shards).alias("shard"),
            F.lit(stream.operator or "").alias("operator"),
            F.lit(stream.name).alias("name"),
            "*",
            F.lit(0).alias("number"),
        )


def _is_guarded(chain: ChainRuntime) -> bool:
    context = chain.spec.context
    guards = [context.guards[s] for s in chain.spec.placement.outputs if s in context.guards]
    return any(stream in context.shares for guard in guards for stream in guard.streams)


def _pass_through(chain: ChainRuntime, stream: Stream, packed: DataFrame) -> DataFrame:
    """Send packed complex events to the only shard there is, with one arrival for a row."""
    for spec in chain.spec.placement.readers(stream):
        packed = observe_packed(packed, arrivals_name(spec.name, stream))
    added = {
        "name": F.lit(stream.name),  # which another of this name may have had in the outbox
        "shard": F.lit(chain.spec.placement.shards[0]),
        "arrival": F.col(quote_name(ARRIVAL)).cast("double"),
        "arrivals": F.lit(None).cast("binary"),
    }
    return _with_parts(packed.withColumns(added)).drop(ARRIVAL)


def _with_parts(rows: DataFrame) -> DataFrame:
    """Have rows say that they came with no record of a channel, unless they do."""
    missing = {name: F.lit(0) for name in PARTS if name not in rows.columns}
    return rows.withColumns(missing)


def _shard_sql(chain: ChainRuntime, stream: Stream, events: DataFrame) -> str:
    """Write the number of the shard that an event goes to: the hash of its key decides.

    It is the first of those that partial matches have: by it their state can be divided.
    """
    shards = chain.spec.placement.shards
    key = chain.spec.placement.key
    if not key:
        return f"CAST({shards[0]} AS INT)"
    schema = schema_of(arrow_schema(events))
    missing = [column for column in key if column.column not in schema]
    place = chain.spec.placement.operators.index(chain.spec.placement.readers(stream)[0])
    full = {**schema, **schema_of(chain.operators[place].schema)}
    hashed = key_hash_sql(key, full, missing=missing)
    return f"CAST({shards[0]} + pmod({hashed}, {len(shards)}L) AS INT)"
