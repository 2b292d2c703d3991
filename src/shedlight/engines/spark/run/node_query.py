"""The query of a node: from its inputs to what its shards find."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so

from shedlight.engines.spark.codec.blobs import LARGE
from shedlight.engines.spark.codec.pack import PACKED, SHARD, STEP_OUTPUT_SCHEMA, packer
from shedlight.engines.spark.outbox.outbox import late_output
from shedlight.engines.spark.shed.keep_sql import (
    add_keep_flags_and_filter,
    arrivals_name,
    plan_tables,
)
from shedlight.engines.spark.shed.plan_column import Limits, read_plan
from shedlight.engines.spark.shed.type_sql import hash_sql
from shedlight.engines.spark.source.arrival import observed_packed
from shedlight.engines.spark.source.reader import arrow_schema
from shedlight.engines.spark.step.chain import ChainRuntime, build_chain
from shedlight.engines.spark.step.metrics import METRICS
from shedlight.engines.spark.step.stateful import STATE, Step, stateful_function
from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.engines.spark.support.placement import ChainSpec, OperatorChain, is_passthrough
from shedlight.graph import Stream
from shedlight.matching.operators.cep_operator import schema_of
from shedlight.matching.operators.reorder import StreamInput
from shedlight.shedding.shares import Shares


@dataclass(frozen=True, slots=True, eq=False)
class InputStream:
    """A stream as a node reads it.

    Attributes:
        input: Its ids and times.
        events: Its events, with the time of their arrival.
        marks: How far it is: `origin`, `watermark` and `idle`.
        origins: The shards that tell so.
        packed: Its complex events as they were packed where they were found, if they are any.
    """

    input: StreamInput
    events: DataFrame
    marks: DataFrame
    origins: tuple[int, ...]
    packed: DataFrame | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of its events."""
        found = arrow_schema(self.events)
        return pa.schema([one for one in found if one.name != ARRIVAL])


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What the nodes of an application have in common.

    Attributes:
        shares: What patterns keep at first; a pattern that is not in it never sheds.
        windows: The longest window of each key.
        with_event_ids: The patterns whose complex events list the ids of their events.
        published_streams: The streams that other nodes or sinks read.
        told: The operators whose watermarks other nodes ask for.
        late: The operators whose late events somebody asks for.
        timed_out: The patterns of which somebody asks for what timed out.
    """

    shares: Shares
    windows: Mapping[str, int]
    with_event_ids: frozenset[Stream]
    published_streams: frozenset[Stream]
    told: frozenset[str]
    late: frozenset[str] = field(default_factory=frozenset)
    timed_out: frozenset[Stream] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, eq=False)
class NodeQuery:
    """The query of a node.

    Attributes:
        frame: What it writes to the outbox.
        outputs: What is in there.
        chains: What it runs.
    """

    frame: DataFrame
    outputs: Mapping[Stream, pa.Schema]
    chains: tuple[ChainRuntime, ...]

    @property
    def shards(self) -> int:
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
    placement: OperatorChain, channels: Mapping[Stream, InputStream], setting: NodeContext
) -> ChainRuntime:
    """Build the operators of a part for the columns of its inputs."""
    read = {stream: channels[stream] for stream in placement.external}
    here = set(placement.outputs)
    return build_chain(
        ChainSpec(
            placement=placement,
            inputs={stream: (one.input, one.schema) for stream, one in read.items()},
            origins={stream: one.origins for stream, one in read.items()},
            shares={stream: one for stream, one in setting.shares.items() if stream in here},
            windows=setting.windows,
            with_event_ids=setting.with_event_ids,
            timed_out=setting.timed_out & here,
        )
    )


def node_query(
    spark: SparkSession,
    chains: tuple[ChainRuntime, ...],
    channels: Mapping[Stream, InputStream],
    setting: NodeContext,
    plans: Path,
    pieces: Path,
) -> NodeQuery:
    """Write the query of a node.

    Args:
        spark: The session.
        chains: The parts of the node.
        channels: What they read.
        setting: What all nodes have in common.
        plans: The folder of its plans.
        pieces: The folder of what is large of what it finds.
    """
    shedding = [name for chain in chains for name in plan_tables(chain, {})]
    plan = read_plan(spark, plans, shedding) if shedding else None
    packed = [row for chain in chains for row in _packed(chain, channels, plan)]
    has_plans = any(chain.spec.shares for chain in chains)
    step = Step(
        tuple(chain.spec for chain in chains),
        setting.published_streams,
        setting.told,
        str(pieces),
        LARGE,
        setting.late,
        str(plans) if has_plans else None,
    )
    shards = reduce(DataFrame.unionByName, packed).groupBy("shard")
    matched = shards.applyInPandasWithState(
        stateful_function(step), STEP_OUTPUT_SCHEMA, STATE, "append", "NoTimeout"
    )
    collected = F.collect_list("metrics").alias(METRICS)
    found = matched.observe(METRICS, collected).where("metrics IS NULL")
    return NodeQuery(found.drop("metrics"), dict(_outputs(chains, setting)), chains)


def _outputs(
    chains: tuple[ChainRuntime, ...], setting: NodeContext
) -> Iterator[tuple[Stream, pa.Schema]]:
    for chain in chains:
        for stream, schema in chain.outputs.items():
            if stream in setting.published_streams:
                yield stream, schema
        for name, schema in chain.whole.items():
            if name in setting.late:
                yield late_output(name), schema


def _packed(
    chain: ChainRuntime, channels: Mapping[Stream, InputStream], plan: Limits | None
) -> Iterator[DataFrame]:
    shards = chain.spec.placement.shards
    every = f"explode(sequence({shards[0]}, {shards[-1]}))"
    for stream in chain.spec.placement.external:
        packed = channels[stream].packed
        if packed is not None and is_passthrough(chain.spec, stream):
            yield _passed_on(chain, stream, packed)
        else:
            kept = add_keep_flags_and_filter(chain, stream, channels[stream].events, plan)
            kept = kept.withColumn(SHARD, F.expr(_shard_sql(chain, kept)))
            yield kept.mapInArrow(packer(stream.operator or "", stream.name), PACKED)
        yield channels[stream].marks.select(
            F.expr(every).alias("shard"),
            F.lit(stream.operator or "").alias("operator"),
            F.lit(stream.name).alias("name"),
            "origin",
            "watermark",
            "idle",
            F.lit(0).alias("number"),
            F.lit(None).cast("binary").alias("events"),
            F.lit(None).cast("double").alias("arrival"),
            F.lit(None).cast("binary").alias("arrivals"),
        )


def _passed_on(chain: ChainRuntime, stream: Stream, packed: DataFrame) -> DataFrame:
    """Give packed complex events to the only shard there is."""
    for spec in chain.spec.placement.readers(stream):
        packed = observed_packed(packed, arrivals_name(spec.name, stream))
    return packed.selectExpr(
        f"{chain.spec.placement.shards[0]} AS shard",
        "operator",
        "name",
        "origin",
        "watermark",
        "idle",
        "number",
        "events",
        f"CAST(`{ARRIVAL}` AS DOUBLE) AS arrival",
        "CAST(NULL AS BINARY) AS arrivals",
    )


def _shard_sql(chain: ChainRuntime, events: DataFrame) -> str:
    """Say which shard an event goes to: the hash of its key tells."""
    placement = chain.spec.placement
    start, number = placement.shards[0], len(placement.shards)
    schema = schema_of(arrow_schema(events))
    there = [one for one in placement.key if one.column in schema]
    if not there:
        return f"CAST({start} AS INT)"
    return f"CAST({start} + pmod({hash_sql(there, schema)}, {number}L) AS INT)"
