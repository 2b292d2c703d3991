"""The unshed sample in the JVM: which events are of it, and which keys there are.

An event whose key is in the sample is kept for the patterns that keep the sample, whatever the
plan says. Of some events, chosen by a hash of their ids, the keys are observed: so the driver
finds heavy hitters among all that arrives, shed or not.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so

from shedlight.engines.spark.shed.cell_limits import LOOKED_AT as LOOKED_AT_LIMIT
from shedlight.engines.spark.shed.shed_operator import ShedOperator, limit_sql
from shedlight.engines.spark.shed.type_sql import hash_sql, key_hash_sql
from shedlight.graph import Stream
from shedlight.language.ast.expression import Attribute
from shedlight.language.eval.spark_sql import quote_name
from shedlight.matching.operators.cep_operator import schema_of
from shedlight.shedding.shedder import threshold
from shedlight.shedding.unshed_sample import SALT

KEYS = "keys "  # what the name of observed keys begins with
LOOKED_AT = "#looked at"
LOOKED_AT_SALT = 0x3C6E_F372_FE94_F82B


def with_sample(
    frame: DataFrame, shed: ShedOperator, heavy: Column
) -> tuple[DataFrame, dict[str, Sequence[str]]]:
    """Add whether an event is of the unshed sample, where the plan sheds it.

    Gives the columns, one for each key, with what the sample spares then: words of flags.
    """
    words, sample = len(shed.flags), shed.chain.context.sample
    schema = schema_of(shed.operator.schema)
    of_sample: dict[str, Sequence[str]] = {}
    columns = {}
    for number, key in enumerate(sample.numbers_by_key(shed.spec)):
        name, first = f"#sampled{number}", shed.layout.sample + number * words
        spared = [limit_sql(place) for place in range(first, first + words)]
        is_shed = " OR ".join(f"{word} != 0L" for word in spared)
        salted = key_hash_sql(key, schema, f"{SALT}L")
        asked = F.expr(f"({is_shed}) AND {salted} < ({threshold(sample.share)}L)")
        chosen = ~F.array_contains(heavy, F.expr(key_hash_sql(key, schema)))
        of_sample[name], columns[name] = spared, F.when(asked, chosen).otherwise(F.lit(False))  # noqa: FBT003
    return frame.withColumns(columns), of_sample


def with_looked_at(frame: DataFrame, limits: Column) -> DataFrame:
    """Add the limit below which the key of an event is looked at: a number, not all limits."""
    return frame.withColumn(LOOKED_AT, F.get(limits, F.lit(LOOKED_AT_LIMIT)))


def key_columns(shed: ShedOperator) -> list[Column]:
    """Collect the keys of relevant events that are looked at, by group of patterns."""
    schema, sample = schema_of(shed.operator.schema), shed.chain.context.sample
    ids = [Attribute("", (name,)) for name in shed.operator.ids]
    hashed = hash_sql(ids, schema, f"{LOOKED_AT_SALT}L")
    groups: dict[str, list[Stream]] = {}
    for each in sample.patterns_of(shed.spec):
        groups.setdefault(sample.groups[each], []).append(each)
    columns = []
    for group, streams in groups.items():
        key = key_hash_sql(shed.spec.patterns[streams[0].name].partition_by, schema)
        asked = f"{shed.relevant_sql(streams)} AND {hashed} < {quote_name(LOOKED_AT)}"
        collected = F.collect_list(F.expr(f"IF({asked}, {key}, NULL)"))
        columns.append(collected.alias(f"{KEYS}{group}"))
    return columns


def read_keys(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, ...]]:
    """Read the hashes of keys that were observed, by group of patterns."""
    keys: dict[str, tuple[int, ...]] = {}
    for row in rows:
        for name, hashes in row.items():
            if name.startswith(KEYS):
                group = name.removeprefix(KEYS)
                keys[group] = (*keys.get(group, ()), *(hashes or ()))
    return keys
