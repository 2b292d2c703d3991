"""The query of a node: from its inputs to what its groups find."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.pandas.types import to_arrow_schema

from shedlight.automaton.intake import FOREVER, Input
from shedlight.automaton.operator import schema_of
from shedlight.engines.spark.fused import Fused, PartSpec, build_fused
from shedlight.engines.spark.layout import Part
from shedlight.engines.spark.outbox import outbox_schema
from shedlight.engines.spark.packing import FOUND, GROUP, PACKED, packer, unpacker
from shedlight.engines.spark.shedding import shed
from shedlight.engines.spark.signatures import hash_sql
from shedlight.engines.spark.sources import arrow_schema
from shedlight.engines.spark.stateful import STATE, Step, stepper
from shedlight.graph import Stream
from shedlight.shedding.shares import Shares


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """A stream as a node reads it.

    Attributes:
        input: Its ids and times.
        events: Its events.
        marks: How far it is: `origin` and `frontier`.
        origins: The groups that tell so.
    """

    input: Input
    events: DataFrame
    marks: DataFrame
    origins: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """What the nodes of an application have in common.

    Attributes:
        shares: What patterns keep; a pattern that is not in it keeps everything.
        windows: The longest window of each key.
        listed: The patterns whose complex events list the ids of their events.
        leaving: The streams that other nodes or sinks read.
        told: The operators whose frontiers other nodes ask for.
    """

    shares: Shares
    windows: Mapping[str, int]
    listed: frozenset[Stream]
    leaving: frozenset[Stream]
    told: frozenset[str]


def end_marks(ends: DataFrame, source: str) -> DataFrame:
    """Give the end of a source, once it is known, as a mark at infinity."""
    ended = ends.where(F.col("name") == source)
    return ended.selectExpr("CAST(0 AS INT) AS origin", f"{FOREVER}L AS frontier")


def build_part(part: Part, channels: Mapping[Stream, Channel], setting: Setting) -> Fused:
    """Build the operators of a part for the columns of its inputs."""
    read = {stream: channels[stream] for stream in part.external}
    here = set(part.outputs)
    return build_fused(
        PartSpec(
            part=part,
            inputs={s: (one.input, arrow_schema(one.events)) for s, one in read.items()},
            origins={stream: one.origins for stream, one in read.items()},
            shares={stream: one for stream, one in setting.shares.items() if stream in here},
            windows=setting.windows,
            listed=setting.listed,
        )
    )


def node_query(
    spark: SparkSession,
    parts: tuple[Fused, ...],
    channels: Mapping[Stream, Channel],
    setting: Setting,
) -> tuple[DataFrame, Mapping[Stream, pa.Schema]]:
    """Write the query of a node, and say what is in its outbox."""
    packed = [row for fused in parts for row in _packed(spark, fused, channels)]
    step = Step(tuple(fused.spec for fused in parts), setting.leaving, setting.told)
    found = (
        reduce(DataFrame.unionByName, packed)
        .groupBy("group")
        .applyInPandasWithState(stepper(step), FOUND, STATE, "append", "NoTimeout")
    )
    outputs = {
        stream: schema
        for fused in parts
        for stream, schema in fused.outputs.items()
        if stream in setting.leaving
    }
    schema = outbox_schema(outputs)
    arrow = to_arrow_schema(schema, timezone="UTC")
    return found.mapInArrow(unpacker(arrow), schema), outputs


def _packed(
    spark: SparkSession, fused: Fused, channels: Mapping[Stream, Channel]
) -> Iterator[DataFrame]:
    groups = fused.spec.part.groups
    every = f"explode(sequence({groups[0]}, {groups[-1]}))"
    for stream in fused.spec.part.external:
        kept = shed(spark, fused, stream, channels[stream].events)
        kept = kept.withColumn(GROUP, F.expr(_group(fused, kept)))
        yield kept.mapInArrow(packer(stream.operator or "", stream.name), PACKED)
        yield channels[stream].marks.select(
            F.expr(every).alias("group"),
            F.lit(stream.operator or "").alias("operator"),
            F.lit(stream.name).alias("name"),
            "origin",
            "frontier",
            F.lit(None).cast("binary").alias("events"),
        )


def _group(fused: Fused, events: DataFrame) -> str:
    """Say which group an event goes to: the hash of its key tells."""
    part = fused.spec.part
    start, number = part.groups[0], len(part.groups)
    schema = schema_of(arrow_schema(events))
    there = [one for one in part.key if one.column in schema]
    if not there:
        return f"CAST({start} AS INT)"
    return f"CAST({start} + pmod({hash_sql(there, schema)}, {number}L) AS INT)"
