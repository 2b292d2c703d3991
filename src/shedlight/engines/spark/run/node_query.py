"""The query of a node: from its inputs to what its groups find."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so

from shedlight.engines.spark.codec.blobs import LARGE
from shedlight.engines.spark.codec.pack import GROUP, PACKED, STEP_OUTPUT_SCHEMA, packer
from shedlight.engines.spark.outbox.outbox import late_output
from shedlight.engines.spark.shed.keep_sql import (
    add_keep_flags_and_filter,
    arrivals_name,
    plan_tables,
)
from shedlight.engines.spark.shed.plan_column import Limits, read_plan
from shedlight.engines.spark.shed.type_sql import hash_sql
from shedlight.engines.spark.source.arrival import ARRIVAL, observed_packed
from shedlight.engines.spark.source.reader import arrow_schema
from shedlight.engines.spark.step.chain import ChainRuntime, build_chain
from shedlight.engines.spark.step.stateful import STATE, Step, stateful_function
from shedlight.engines.spark.support.chain_spec import ChainSpec, is_passthrough
from shedlight.engines.spark.support.placement import OperatorChain
from shedlight.graph import Stream
from shedlight.matching.operators.cep_operator import schema_of
from shedlight.matching.operators.reorder import StreamInput
from shedlight.shedding.shares import Shares

TALLIES = "tallies"
"""What the observation of the groups is called."""


@dataclass(frozen=True, slots=True, eq=False)
class InputStream:
    """A stream as a node reads it.

    Attributes:
        input: Its ids and times.
        events: Its events, with the time of their arrival.
        marks: How far it is: `origin`, `watermark` and `idle`.
        origins: The groups that tell so.
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
        listed: The patterns whose complex events list the ids of their events.
        leaving: The streams that other nodes or sinks read.
        told: The operators whose watermarks other nodes ask for.
        late: The operators whose late events somebody asks for.
        timed_out: The patterns of which somebody asks for what timed out.
    """

    shares: Shares
    windows: Mapping[str, int]
    listed: frozenset[Stream]
    leaving: frozenset[Stream]
    told: frozenset[str]
    late: frozenset[str] = field(default_factory=frozenset)
    timed_out: frozenset[Stream] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, eq=False)
class NodeQuery:
    """The query of a node.

    Attributes:
        frame: What it writes to the outbox.
        outputs: What is in there.
        parts: What it runs.
    """

    frame: DataFrame
    outputs: Mapping[Stream, pa.Schema]
    parts: tuple[ChainRuntime, ...]

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return sum(len(fused.spec.part.groups) for fused in self.parts)

    @property
    def is_even(self) -> bool:
        """Whether all events that are packed are of one size: numbers and times, no text."""
        return all(
            pa.types.is_primitive(field.type)
            for fused in self.parts
            for stream, (_, schema) in fused.spec.inputs.items()
            if not is_passthrough(fused.spec, stream)
            for field in schema
        )


def build_node_chain(
    part: OperatorChain, channels: Mapping[Stream, InputStream], setting: NodeContext
) -> ChainRuntime:
    """Build the operators of a part for the columns of its inputs."""
    read = {stream: channels[stream] for stream in part.external}
    here = set(part.outputs)
    return build_chain(
        ChainSpec(
            part=part,
            inputs={stream: (one.input, one.schema) for stream, one in read.items()},
            origins={stream: one.origins for stream, one in read.items()},
            shares={stream: one for stream, one in setting.shares.items() if stream in here},
            windows=setting.windows,
            listed=setting.listed,
            timed_out=setting.timed_out & here,
        )
    )


def node_query(
    spark: SparkSession,
    parts: tuple[ChainRuntime, ...],
    channels: Mapping[Stream, InputStream],
    setting: NodeContext,
    plans: Path,
    pieces: Path,
) -> NodeQuery:
    """Write the query of a node.

    Args:
        spark: The session.
        parts: The parts of the node.
        channels: What they read.
        setting: What all nodes have in common.
        plans: The folder of its plans.
        pieces: The folder of what is large of what it finds.
    """
    shedding = [name for fused in parts for name in plan_tables(fused, {})]
    plan = read_plan(spark, plans, shedding) if shedding else None
    packed = [row for fused in parts for row in _packed(fused, channels, plan)]
    has_plans = any(fused.spec.shares for fused in parts)
    step = Step(
        tuple(fused.spec for fused in parts),
        setting.leaving,
        setting.told,
        str(pieces),
        LARGE,
        setting.late,
        str(plans) if has_plans else None,
    )
    groups = reduce(DataFrame.unionByName, packed).groupBy("group")
    matched = groups.applyInPandasWithState(
        stateful_function(step), STEP_OUTPUT_SCHEMA, STATE, "append", "NoTimeout"
    )
    tallies = F.collect_list("tally").alias(TALLIES)
    found = matched.observe(TALLIES, tallies).where("tally IS NULL")
    return NodeQuery(found.drop("tally"), dict(_outputs(parts, setting)), parts)


def _outputs(
    parts: tuple[ChainRuntime, ...], setting: NodeContext
) -> Iterator[tuple[Stream, pa.Schema]]:
    for fused in parts:
        for stream, schema in fused.outputs.items():
            if stream in setting.leaving:
                yield stream, schema
        for name, schema in fused.whole.items():
            if name in setting.late:
                yield late_output(name), schema


def _packed(
    fused: ChainRuntime, channels: Mapping[Stream, InputStream], plan: Limits | None
) -> Iterator[DataFrame]:
    groups = fused.spec.part.groups
    every = f"explode(sequence({groups[0]}, {groups[-1]}))"
    for stream in fused.spec.part.external:
        packed = channels[stream].packed
        if packed is not None and is_passthrough(fused.spec, stream):
            yield _passed_on(fused, stream, packed)
        else:
            kept = add_keep_flags_and_filter(fused, stream, channels[stream].events, plan)
            kept = kept.withColumn(GROUP, F.expr(_group(fused, kept)))
            yield kept.mapInArrow(packer(stream.operator or "", stream.name), PACKED)
        yield channels[stream].marks.select(
            F.expr(every).alias("group"),
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


def _passed_on(fused: ChainRuntime, stream: Stream, packed: DataFrame) -> DataFrame:
    """Give packed complex events to the only group there is."""
    for spec in fused.spec.part.readers(stream):
        packed = observed_packed(packed, arrivals_name(spec.name, stream))
    return packed.selectExpr(
        f"{fused.spec.part.groups[0]} AS group",
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


def _group(fused: ChainRuntime, events: DataFrame) -> str:
    """Say which group an event goes to: the hash of its key tells."""
    part = fused.spec.part
    start, number = part.groups[0], len(part.groups)
    schema = schema_of(arrow_schema(events))
    there = [one for one in part.key if one.column in schema]
    if not there:
        return f"CAST({start} AS INT)"
    return f"CAST({start} + pmod({hash_sql(there, schema)}, {number}L) AS INT)"
