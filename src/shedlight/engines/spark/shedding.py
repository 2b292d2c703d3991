"""Shedding in the JVM: which patterns keep an event, before it is sent anywhere.

A plan is a small table: a row per type, and for each pattern the hash below which an event of
the type is kept; null keeps it whatever its hash is. It is joined to the events by broadcast,
and what no pattern keeps goes no further. The decisions are those of `shedding/shedder.py`.
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so
from pyspark.sql.pandas.types import from_arrow_type

from shedlight.automaton.intake import NEVER
from shedlight.automaton.matcher import Matcher
from shedlight.automaton.operator import Operator, schema_of
from shedlight.automaton.signature import Signature
from shedlight.engines.spark.fused import WORD, Fused, PartSpec, carried, kept_names, sheds
from shedlight.engines.spark.layout import key_name
from shedlight.engines.spark.signatures import all_signatures, hash_sql, type_sql
from shedlight.engines.spark.sources import quoted
from shedlight.graph import OperatorSpec, Stream
from shedlight.language.expression import Attribute
from shedlight.language.pattern import Span
from shedlight.shedding.shares import PatternShares
from shedlight.shedding.shedder import EPOCH, threshold

NOTHING = threshold(0.0)
"""The hash below which there is none."""


def limits_table(
    operator: Operator, spec: OperatorSpec, given: PartSpec, signatures: Sequence[Signature]
) -> pa.Table:
    """Write a plan down as a table: `#type`, and a limit for each pattern by its number."""
    labels = [operator.alphabet.label(signature) for signature in signatures]
    columns = {"#type": pa.array(range(len(signatures)), pa.int64())}
    for number, (stream, matcher) in enumerate(
        zip(spec.outputs, operator.matchers, strict=True)
    ):
        shares = given.shares.get(stream)
        columns[f"#limit{number}"] = pa.array(
            [
                limit_of(shares, label) if _uses(matcher, signature) else NOTHING
                for signature, label in zip(signatures, labels, strict=True)
            ],
            pa.int64(),
        )
    return pa.table(columns)


def limit_of(shares: PatternShares | None, label: str) -> int | None:
    """Find the hash below which events of a type are kept; None: all of them."""
    if shares is None:
        return None
    share = shares.shares.get(label, shares.mean if label else 0.0)
    return None if share >= 1 else threshold(share)


def _uses(matcher: Matcher, signature: Signature) -> bool:
    return _counts_events(matcher) or bool(matcher.symbol(signature))


def _counts_events(matcher: Matcher) -> bool:
    within = matcher.pattern.within
    return within is not None and within.span is Span.EVENTS


def shed(spark: SparkSession, fused: Fused, stream: Stream, frame: DataFrame) -> DataFrame:
    """Drop the events of a stream that no pattern keeps; the rest carry who keeps them."""
    columns = list(frame.columns)
    wanted: list[str] = []
    for spec, operator in zip(fused.spec.part.operators, fused.operators, strict=True):
        if stream not in spec.inputs:
            continue
        frame = _with_all_columns(frame, operator)
        signatures = all_signatures(operator.alphabet)
        flags = [carried(spec.name, name) for name in kept_names(len(operator.matchers))]
        if sheds(spec, fused.spec.shares):
            columns += flags
        if signatures is None:
            wanted.append("true")
            for name in flags:
                frame = frame.withColumn(name, F.lit(None).cast("bigint"))
        elif sheds(spec, fused.spec.shares):
            table = limits_table(operator, spec, fused.spec, signatures)
            limits = spark.createDataFrame(table)
            frame = _with_flags(frame, limits, fused.spec, (spec, operator, stream))
            wanted.append(_kept_by_any(operator, flags))
        else:
            wanted.append(_of_use(operator, signatures))
    useful = " OR ".join(dict.fromkeys(wanted))
    time = quoted(fused.spec.inputs[stream][0].time)
    # the time is asked for first: an event to refuse is refused, of use or not
    frame = frame.filter(f"{time} > {NEVER}L AND ({useful})")
    return frame.select([quoted(name) for name in columns])


def _with_all_columns(frame: DataFrame, operator: Operator) -> DataFrame:
    """Add the columns that only other inputs of an operator have, null."""
    there = set(frame.columns)
    for field in operator.schema:
        if field.name not in there and not field.name.startswith("#kept"):
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
    return f"{type_sql(operator)} IN ({', '.join(f'{n}L' for n in used)})" if used else "false"


def _kept_by_any(operator: Operator, flags: Iterable[str]) -> str:
    if any(map(_counts_events, operator.matchers)):
        return "true"  # what is not kept is counted all the same
    return " OR ".join(f"{quoted(name)} != 0" for name in flags)


def _with_flags(
    frame: DataFrame,
    limits: DataFrame,
    given: PartSpec,
    which: tuple[OperatorSpec, Operator, Stream],
) -> DataFrame:
    """Join a plan to events and write down which patterns keep each."""
    spec, operator, read = which
    frame = frame.withColumn("#type", F.expr(type_sql(operator)))
    frame = frame.join(F.broadcast(limits), "#type")
    hashes: dict[str, str] = {}
    bits: list[str] = []
    for number, output in enumerate(spec.outputs):
        text = _hash(given, operator, output, given.inputs[read][0].time)
        name = hashes.setdefault(text, f"#hash{len(hashes)}")
        keeps = f"coalesce({quoted(name)} < {quoted(f'#limit{number}')}, true)"
        bits.append(f"IF({keeps}, {1 << number % WORD}L, 0L)")
    for text, name in hashes.items():
        frame = frame.withColumn(name, F.expr(text))
    for number, name in enumerate(kept_names(len(bits))):
        word = " | ".join(bits[number * WORD : (number + 1) * WORD])
        frame = frame.withColumn(carried(spec.name, name), F.expr(word))
    return frame.drop("#type", *limits.columns, *hashes.values())


def _hash(given: PartSpec, operator: Operator, stream: Stream, time: str) -> str:
    """Write the hash that decides about an event for a pattern: of its id, or of its key."""
    shares = given.shares.get(stream)
    schema = schema_of(operator.schema)
    pattern = next(one.pattern for one in operator.matchers if one.name == stream.name)
    if shares is not None and shares.by_key and pattern.partition_by:
        epoch = EPOCH * given.windows.get(key_name(pattern.partition_by), 1)
        at = quoted(time)
        floor = f"(({at} - pmod({at}, {epoch}L)) DIV {epoch}L)"
        return hash_sql(pattern.partition_by, schema, floor)
    return hash_sql([Attribute("", (name,)) for name in operator.ids], schema)
