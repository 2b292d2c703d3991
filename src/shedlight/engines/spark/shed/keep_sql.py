"""Shedding in the JVM: which patterns keep an event, before it is sent anywhere.

A plan is a table of one row (`plan_row.py`): for each type the patterns that keep it all, and
for each pattern and type the hash below which an event is kept. Events see it as the value of
a subquery, and what no pattern keeps goes no further. The decisions are those of
`shedding/shedder.py`.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.pandas.types import from_arrow_type

from shedlight.engines.spark.codec.event_refs import ROW
from shedlight.engines.spark.shed.plan_column import Limits
from shedlight.engines.spark.shed.type_sql import all_signatures, hash_sql, type_sql
from shedlight.engines.spark.source.arrival import TYPE, observe_arrivals
from shedlight.engines.spark.step.chain import ChainRuntime
from shedlight.engines.spark.step.keep_flags import flag_column, kept_kinds, kept_names
from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.engines.spark.support.placement import ChainSpec, has_shares
from shedlight.engines.spark.support.plan_store import UNUSED, WORD, KeepTable
from shedlight.graph import OperatorSpec, Stream
from shedlight.graph.topology import key_name
from shedlight.language.ast.expression import Attribute
from shedlight.language.ast.pattern import WindowUnit
from shedlight.language.eval.spark_sql import quote_name
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.compile.predicates import Signature
from shedlight.matching.operators.cep_operator import Operator, schema_of
from shedlight.matching.operators.reorder import NEVER
from shedlight.shedding.shares import PatternShares, Shares
from shedlight.shedding.shedder import EPOCH_WINDOWS

_ONCE = "(CAST(spark_partition_id() AS BIGINT) & 0L)"
"""Nothing, of which Spark does not know that; so it computes the flags once, not for the filter
again, and asks once for the plan."""
_LIMITS, _RELEVANT = "#limits", "#relevant"


def plan_tables(chain: ChainRuntime, shares: Shares) -> dict[str, KeepTable]:
    """Write a plan down by the numbers of types, for the operators that shed in the JVM."""
    found = {}
    for spec, operator in zip(chain.spec.placement.operators, chain.operators, strict=True):
        signatures = all_signatures(operator.alphabet)
        if signatures is None or not has_shares(spec, chain.spec.shares):
            continue
        labels = [operator.alphabet.label(signature) for signature in signatures]
        kept, exempt = [], []
        for stream, matcher in zip(spec.outputs, operator.matchers, strict=True):
            used = [_uses(matcher, signature) for signature in signatures]
            kept.append(_shares_by_number(shares.get(stream), labels, used))
            lasting = shares[stream].pressure_exempt if stream in shares else frozenset(labels)
            exempt.append([label in lasting for label in labels])
        found[spec.name] = KeepTable(np.array(kept, np.float64), np.array(exempt, np.bool_))
    return found


def _shares_by_number(
    shares: PatternShares | None, labels: Sequence[str], used: Sequence[bool]
) -> list[float]:
    if shares is None:
        return [1.0 if one else UNUSED for one in used]
    mean = shares.mean
    return [
        shares.shares.get(label, mean if label else 0.0) if one else UNUSED
        for label, one in zip(labels, used, strict=True)
    ]


def _uses(matcher: Matcher, signature: Signature) -> bool:
    return _counts_events(matcher) or bool(matcher.symbol(signature))


def _counts_events(matcher: Matcher) -> bool:
    within = matcher.pattern.within
    return within is not None and within.span is WindowUnit.EVENTS


def add_keep_flags_and_filter(
    chain: ChainRuntime, stream: Stream, frame: DataFrame, plan: Limits | None
) -> DataFrame:
    """Drop the events of a stream that no pattern keeps; the rest carry who keeps them.

    Args:
        chain: The operators.
        stream: What they read.
        frame: Its events.
        plan: The plan in force; None if no operator that reads the stream ever sheds.
    """
    columns = list(frame.columns)
    wanted: list[str] = []
    time = chain.spec.inputs[stream][0].time
    for spec, operator in zip(chain.spec.placement.operators, chain.operators, strict=True):
        if stream in spec.inputs:
            frame = _typed(_with_all_columns(frame, operator), operator, (spec, stream), time)
            frame, useful = _judged(chain.spec, (spec, operator, stream), frame, plan)
            wanted.append(useful)
            columns += _flags(spec, operator) if has_shares(spec, chain.spec.shares) else []
    any_of = " OR ".join(dict.fromkeys(wanted))
    # the time is asked for first: an event to refuse is refused, of use or not
    frame = frame.filter(f"{quote_name(time)} > {NEVER}L AND ({any_of})")
    return frame.select([quote_name(name) for name in columns])


def _flags(spec: OperatorSpec, operator: Operator) -> list[str]:
    return [flag_column(spec.name, name) for name in kept_names(len(operator.matchers))]


def _typed(
    frame: DataFrame, operator: Operator, which: tuple[OperatorSpec, Stream], time: str
) -> DataFrame:
    """Add the type of each event, and observe how many there are of each."""
    spec, stream = which
    signatures = all_signatures(operator.alphabet)
    if signatures is not None:
        frame = frame.withColumn(TYPE, F.expr(f"CAST({type_sql(operator)} AS INT)"))
    if ARRIVAL in frame.columns:
        types = None if signatures is None else len(signatures)
        frame = observe_arrivals(frame, arrivals_name(spec.name, stream), time, types)
    return frame


def _judged(
    given: ChainSpec,
    which: tuple[OperatorSpec, Operator, Stream],
    frame: DataFrame,
    plan: Limits | None,
) -> tuple[DataFrame, str]:
    """Say which patterns of an operator keep an event, and how to ask whether any does."""
    spec, operator, _ = which
    signatures, flags = all_signatures(operator.alphabet), _flags(spec, operator)
    if signatures is None:
        for name, kind in zip(flags, kept_kinds(len(operator.matchers)), strict=True):
            frame = frame.withColumn(name, F.lit(None).cast(from_arrow_type(kind)))
        return frame, "true"
    if plan is not None and has_shares(spec, given.shares):
        frame = frame.withColumn(_LIMITS, plan[spec.name].scalar())
        return _with_flags(frame, given, which), _kept_by_any(operator, flags)
    relevant_events = flag_column(spec.name, _RELEVANT)
    frame = frame.withColumn(relevant_events, F.expr(_of_use(operator, signatures)))
    return frame, quote_name(relevant_events)


def arrivals_name(operator: str, stream: Stream) -> str:
    """Name the observation of what arrives at an operator."""
    return f"arrived {operator} {stream}"


def _with_all_columns(frame: DataFrame, operator: Operator) -> DataFrame:
    """Add the columns that only other inputs of an operator have, null."""
    there = set(frame.columns)
    for field in operator.schema:
        if field.name not in there and not field.name.startswith(("#kept", ROW)):
            frame = frame.withColumn(field.name, F.lit(None).cast(from_arrow_type(field.type)))
    return frame


def _of_use(operator: Operator, signatures: Sequence[Signature]) -> str:
    """Ask whether any pattern has a use for an event."""
    used = [
        number
        for number, signature in enumerate(signatures)
        if any(_uses(matcher, signature) for matcher in operator.matchers)
    ]
    if len(used) == len(signatures):
        return "true"
    return f"{quote_name(TYPE)} IN ({', '.join(map(str, used))})" if used else "false"


def _kept_by_any(operator: Operator, flags: Iterable[str]) -> str:
    if any(map(_counts_events, operator.matchers)):
        return "true"  # what is not kept is counted all the same
    return " OR ".join(f"{quote_name(name)} != 0" for name in flags)


def _with_flags(
    frame: DataFrame, given: ChainSpec, which: tuple[OperatorSpec, Operator, Stream]
) -> DataFrame:
    """Write down which patterns keep each event by the limits of a plan."""
    spec, operator, read = which
    types, names = len(all_signatures(operator.alphabet) or ()), kept_names(len(spec.outputs))
    time = given.inputs[read][0].time

    def told(row: int) -> str:
        return f"get({quote_name(_LIMITS)}, {row * types} + {quote_name(TYPE)})"

    needed = [_hash(given, operator, output, time) for output in spec.outputs]
    hashes = {one: f"#hash{number}" for number, one in enumerate(dict.fromkeys(needed))}
    # in a branch of IF, so that an event of which all is decided is not hashed
    hashed = {
        name: F.expr(f"IF({told(len(names))} = 0L, 0L, {one})") for one, name in hashes.items()
    }
    bits = [
        f"IF({quote_name(hashes[one])} < {told(len(names) + 1 + number)}, "
        f"{1 << number % WORD}L, 0L)"
        for number, one in enumerate(needed)
    ]
    flags = {}
    for number, kind in enumerate(kept_kinds(len(bits))):
        word = [told(number), *bits[number * WORD : (number + 1) * WORD], _ONCE]
        name = flag_column(spec.name, names[number])
        flags[name] = F.expr(" | ".join(word)).cast(from_arrow_type(kind))
    return frame.withColumns(hashed).withColumns(flags).drop(_LIMITS, *hashed)


def _hash(given: ChainSpec, operator: Operator, stream: Stream, time: str) -> str:
    """Write the hash that decides about an event for a pattern: of its id, or of its key."""
    shares = given.shares.get(stream)
    schema = schema_of(operator.schema)
    pattern = next(one.pattern for one in operator.matchers if one.name == stream.name)
    if shares is not None and shares.by_key and pattern.partition_by:
        epoch = EPOCH_WINDOWS * given.windows.get(key_name(pattern.partition_by), 1)
        at = quote_name(time)
        floor = f"(({at} - pmod({at}, {epoch}L)) DIV {epoch}L)"
        return hash_sql(pattern.partition_by, schema, floor)
    return hash_sql([Attribute("", (name,)) for name in operator.ids], schema)
