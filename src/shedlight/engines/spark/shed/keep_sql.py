"""Shedding in the JVM: which patterns keep an event, before it is sent anywhere.

A plan is a table of one row (`plan_column.py`): for each event type the patterns that keep all
of it, and for each pattern and type the hash below which an event is kept. Events see it as the
value of a subquery, of which they carry what is about their type, and what no pattern keeps
goes no further. The decisions are those of `shedding/shedder.py`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.pandas.types import from_arrow_type

from shedlight.engines.spark.codec.event_refs import ROW
from shedlight.engines.spark.shed.cell_limits import (
    BELOW,
    BITS,
    BY_KEY,
    FLAG,
    OF_OPEN,
    OF_OTHERS,
)
from shedlight.engines.spark.shed.plan_column import (
    Limits,
    ShedPatterns,
    heavy_name,
    numbers_of,
    open_name,
)
from shedlight.engines.spark.shed.sample_sql import key_columns, with_looked_at, with_sample
from shedlight.engines.spark.shed.shed_operator import (
    CELL,
    LIMITS,
    HashedBy,
    ShedOperator,
    limit_sql,
    shed_operators,
)
from shedlight.engines.spark.shed.strata_limits import ALWAYS
from shedlight.engines.spark.shed.strata_sql import (
    APART,
    KEY,
    OPEN_KEYS,
    is_open_sql,
    strata_columns,
    with_cells,
    with_history,
)
from shedlight.engines.spark.shed.type_catalog import Catalogs
from shedlight.engines.spark.shed.type_sql import hash_sql, key_hash_sql, type_sql
from shedlight.engines.spark.source.arrival import TYPE, arrivals_name, observe_arrivals
from shedlight.engines.spark.step.chain import ChainRuntime
from shedlight.engines.spark.step.keep_flags import KEPT, flag_types
from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.engines.spark.support.plan_store import UNUSED, KeepTable, PlanStore
from shedlight.graph import Stream
from shedlight.language.ast.expression import Attribute
from shedlight.language.eval.spark_sql import quote_name
from shedlight.matching.operators.cep_operator import CepOperator, schema_of
from shedlight.matching.operators.reorder import BEYOND
from shedlight.model.arrays import Floats
from shedlight.shedding.shares import PatternShares, Shares

CATALYST_BARRIER = "(CAST(spark_partition_id() AS BIGINT) & 0L)"
"""Zero, which Spark cannot know: so it computes the flags once, not for the filter again, and
reads the plan once."""
_RELEVANT = "#relevant"


@dataclass(frozen=True, slots=True, eq=False)
class PlannedNode:
    """The operators of a node, and the plans by which they shed."""

    chains: tuple[ChainRuntime, ...]  # its operator chains
    catalogs: Catalogs  # the event types of its operators
    plans: PlanStore

    def publish(self, shares: Shares) -> int:
        """Store a plan for its patterns, which is not active yet; give its number."""
        tables: dict[str, KeepTable] = {}
        for chain in self.chains:
            tables |= tabulate_plan(chain, self.catalogs, shares)
        return self.plans.publish(self.own_shares(shares), tables)

    def own_shares(self, shares: Shares) -> Shares:
        """Select the shares of its patterns."""
        outputs = [stream for chain in self.chains for stream in chain.spec.placement.outputs]
        return {stream: shares[stream] for stream in outputs if stream in shares}


def tabulate_plan(
    chain: ChainRuntime, catalogs: Catalogs, shares: Shares
) -> dict[str, KeepTable]:
    """Write a plan by the numbers of event types, for the operators that shed in the JVM."""
    tables = {}
    for shed in shed_operators(chain, catalogs):
        if not shed.catalog.is_numbered or not shed.has_shares:
            continue
        parts = [
            _shares_by_number(shares.get(stream), shed.catalog.labels, relevant)
            for stream, relevant in zip(shed.spec.outputs, shed.relevant, strict=True)
        ]
        tables[shed.spec.name] = KeepTable(*np.stack(parts, axis=1))
    return tables


def _shares_by_number(
    shares: PatternShares | None, labels: Sequence[str], relevant: Sequence[bool]
) -> Floats:
    """Write what a pattern keeps of each type, as a `KeepTable` has it: in three parts."""
    parts = np.zeros((3, len(labels)))
    unused = ~np.array(relevant, np.bool_)
    if shares is None:
        parts[0] = 1.0
    else:
        known = {label: _parts(shares, label) for label in shares.shares}
        mean = np.mean(list(known.values()), axis=0) if known else _default_parts(shares)
        nothing = np.zeros(3)
        for number, label in enumerate(labels):
            parts[:, number] = known.get(label, mean if label else nothing)
    parts[:, unused] = [[UNUSED], [0.0], [0.0]]
    return parts


def _parts(shares: PatternShares, label: str) -> Floats:
    part = 0 if label in shares.pressure_exempt else 1 if label in shares.spared else 2
    return np.asarray(np.eye(3)[part] * shares.shares[label])


def _default_parts(shares: PatternShares) -> Floats:
    return np.asarray(np.eye(3)[1 if shares.spares_unknown else 2] * shares.default_share)


def shed_patterns(
    chains: Iterable[ChainRuntime], catalogs: Catalogs
) -> dict[str, ShedPatterns]:
    """Find the patterns of operators that shed in the JVM."""
    operators = (shed for chain in chains for shed in shed_operators(chain, catalogs))
    return {
        shed.spec.name: shed.patterns
        for shed in operators
        if shed.catalog.is_numbered and shed.has_shares
    }


def add_keep_flags_and_filter(
    chain: ChainRuntime,
    catalogs: Catalogs,
    stream: Stream,
    frame: DataFrame,
    plan: Limits | None,
) -> DataFrame:
    """Drop the events of a stream that no pattern keeps; the others carry who keeps them.

    Without a plan, no operator that reads the stream ever sheds.
    """
    columns = list(frame.columns)
    conditions: list[str] = []
    time = chain.spec.inputs[stream][0].time
    for shed in shed_operators(chain, catalogs):
        if stream in shed.spec.inputs:
            frame = _with_all_columns(frame, shed.operator)
            frame = _with_type(frame, shed, stream, plan)
            frame, condition = _with_keep_flags(frame, shed, stream, plan)
            conditions.append(condition)
            columns += shed.flags if shed.has_shares else []
    any_of = " OR ".join(dict.fromkeys(conditions))
    # the time is asked for first: a malformed record is an error, relevant or not
    frame = frame.filter(f"{quote_name(time)} >= {BEYOND}L AND ({any_of})")
    return frame.select([quote_name(name) for name in columns])


def _with_all_columns(frame: DataFrame, operator: CepOperator) -> DataFrame:
    """Add the columns that only other inputs of an operator have, null."""
    there = set(frame.columns)
    for field in operator.schema:
        if field.name not in there and not field.name.startswith((KEPT, ROW)):
            frame = frame.withColumn(field.name, F.lit(None).cast(from_arrow_type(field.type)))
    return frame


def _with_type(
    frame: DataFrame, shed: ShedOperator, stream: Stream, plan: Limits | None
) -> DataFrame:
    """Add the type of each event, and observe how many there are of each, and some keys."""
    if shed.catalog.is_numbered:
        frame = frame.withColumn(TYPE, F.expr(f"CAST({type_sql(shed.operator)} AS INT)"))
    stratified = plan if shed.catalog.by_strata else None
    if stratified is not None:
        frame = with_cells(frame, shed, stratified)
    if ARRIVAL not in frame.columns:
        return frame
    name, time = arrivals_name(shed.spec.name, stream), shed.chain.inputs[stream][0].time
    keys: list[Column] = []
    types = len(shed.catalog.labels) or None
    if plan is not None and shed.spec.name in plan and (shed.sampled or stratified):
        frame = with_looked_at(frame, plan[shed.spec.name].scalar())
        keys = key_columns(shed)
    if stratified is not None:
        frame = with_history(frame, stratified[shed.spec.name].scalar())
        keys += strata_columns(shed, time)
    return observe_arrivals(frame, name, time, types, keys)


def _with_keep_flags(
    frame: DataFrame, shed: ShedOperator, stream: Stream, plan: Limits | None
) -> tuple[DataFrame, str]:
    """Add which patterns of an operator keep an event, and give the condition that any does."""
    if not shed.catalog.is_numbered:
        types = flag_types(len(shed.flag_streams))
        for name, arrow_type in zip(shed.flags, types, strict=True):
            frame = frame.withColumn(name, F.lit(None).cast(from_arrow_type(arrow_type)))
        return frame, "true"
    if plan is not None and shed.has_shares:
        limits, size = numbers_of(plan[shed.spec.name]), shed.layout.size
        cell = F.slice(limits, F.expr(shed.cell_start), F.lit(size))
        frame = frame.withColumn(LIMITS, F.coalesce(cell, F.array(F.lit(0).cast("bigint"))))
        with_flags = _with_flags_by_strata if shed.catalog.by_strata else _with_planned_flags
        frame = with_flags(frame, shed, stream, plan)
        if any(shed.counts_events):
            return frame, "true"  # what is not kept is counted all the same
        return frame, " OR ".join(f"{quote_name(name)} != 0" for name in shed.flags)
    name, relevant = f"{_RELEVANT} {shed.spec.name}", shed.relevant_sql(shed.spec.outputs)
    return frame.withColumn(name, F.expr(relevant)), quote_name(name)


def _with_planned_flags(
    frame: DataFrame, shed: ShedOperator, stream: Stream, plan: Limits
) -> DataFrame:
    """Add which patterns keep each event by the limits of its type."""
    layout, time = shed.layout, shed.chain.inputs[stream][0].time
    texts = [_hash_sql(shed, each, time) for each in dict.fromkeys(shed.hashed)]
    names = [f"#hash{number}" for number in range(len(texts))]
    # in a branch of IF, so that an event of which all is decided is not hashed
    hashes = {
        name: F.expr(f"IF({limit_sql(layout.undecided)} = 0L, 0L, {text})")
        for name, text in zip(names, texts, strict=True)
    }
    bits: list[list[str]] = [[] for _ in range(layout.words)]
    for group, at in layout.entries():
        below = f"{quote_name(names[group.hashed])} < {limit_sql(at + BELOW)}"
        bits[group.word].append(f"IF({below}, {limit_sql(at + FLAG)}, 0L)")
    return _with_words(frame, shed, bits, hashes, plan)


def _with_words(
    frame: DataFrame,
    shed: ShedOperator,
    bits: Sequence[Sequence[str]],
    hashes: dict[str, Column],
    plan: Limits,
) -> DataFrame:
    """Put flags together: of what is kept anyway, by hashes, and for the unshed sample."""
    of_sample: dict[str, Sequence[str]] = {}
    if shed.sampled:
        heavy = numbers_of(plan[heavy_name(shed.spec.name)])
        frame, of_sample = with_sample(frame, shed, heavy)
    flags = {}
    for number, arrow_type in enumerate(flag_types(len(shed.flag_streams))):
        word = [limit_sql(number), *bits[number], CATALYST_BARRIER]
        word += [
            f"IF({quote_name(name)}, {each[number]}, 0L)" for name, each in of_sample.items()
        ]
        column = F.expr(" | ".join(word)).cast(from_arrow_type(arrow_type))
        flags[shed.flags[number]] = column
    return frame.withColumns(hashes).withColumns(flags).drop(LIMITS, *hashes, *of_sample)


def _with_flags_by_strata(
    frame: DataFrame, shed: ShedOperator, stream: Stream, plan: Limits
) -> DataFrame:
    """Add which patterns keep each event by the limits of its stratum."""
    layout, time = shed.layout, shed.chain.inputs[stream][0].time
    by_key = _hash_sql(shed, shed.hashed[0], time)
    by_event = _hash_sql(shed, HashedBy(), time)
    is_decided = f"{limit_sql(layout.undecided)} = 0L"
    hashes = {
        _BY_KEY: F.expr(f"IF({is_decided}, 0L, {by_key})"),
        # so that the greatest limit is for all
        _BY_EVENT: F.expr(f"IF({is_decided}, 0L, least({by_event}, {ALWAYS - 1}L))"),
    }
    bits: list[list[str]] = [[] for _ in range(layout.words)]
    for group, at in layout.entries():
        others, opened = limit_sql(at + OF_OTHERS), limit_sql(at + OF_OPEN)
        is_open = is_open_sql(limit_sql(at + BITS))
        below = f"IF({others} = {opened}, {others}, IF({is_open}, {opened}, {others}))"
        kept = (
            f"{quote_name(_BY_KEY)} < {limit_sql(at + BY_KEY)} OR "
            f"{quote_name(_BY_EVENT)} < {below}"
        )
        bits[group.word].append(f"IF({kept}, {limit_sql(at + FLAG)}, 0L)")
    frame = frame.withColumn(OPEN_KEYS, numbers_of(plan[open_name(shed.spec.name)]))
    frame = _with_words(frame, shed, bits, hashes, plan)
    return frame.drop(OPEN_KEYS, CELL, APART, KEY)


_BY_KEY, _BY_EVENT = "#by key", "#by event"


def _hash_sql(shed: ShedOperator, by: HashedBy, time: str) -> str:
    """Write the hash that decides about an event: of its id, or of its key."""
    schema = schema_of(shed.operator.schema)
    if not by.key:
        return hash_sql([Attribute("", (name,)) for name in shed.operator.ids], schema)
    hashed = key_hash_sql if by.guarded else hash_sql
    return hashed(by.key, schema, _epoch_sql(time, by.epoch))


def _epoch_sql(time: str, epoch: int) -> str:
    at = quote_name(time)
    return f"(({at} - pmod({at}, {epoch}L)) DIV {epoch}L)"
