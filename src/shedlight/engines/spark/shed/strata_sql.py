"""Strata of keys in the JVM: which one an event is of, and what is observed of keys."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so

from shedlight.engines.spark.shed.cell_limits import HISTORY
from shedlight.engines.spark.shed.plan_column import Limits, found_name, numbers_of
from shedlight.engines.spark.shed.sample_sql import LOOKED_AT, LOOKED_AT_SALT
from shedlight.engines.spark.shed.shed_operator import CELL, ShedOperator
from shedlight.engines.spark.shed.strata_limits import (
    ANY,
    CODES_MASK,
    HEAVY,
    MAX_STRATA,
    REST_NUMBER,
    SHIFT,
    SLOTS,
    SLOTS_AT,
)
from shedlight.engines.spark.shed.type_sql import hash_sql, key_hash_sql
from shedlight.engines.spark.source.arrival import BINS_PER_TYPE, CELLS, TYPE
from shedlight.language.ast.expression import Attribute
from shedlight.language.eval.spark_sql import quote_name
from shedlight.matching.operators.cep_operator import schema_of
from shedlight.shedding.key_bitmap import CODE_BITS
from shedlight.shedding.unshed_sample import SALT

FOUND_KEYS = "#found"  # the column of what says of which strata keys are
OPEN_KEYS = "#open"  # the column of what says which keys are open
APART = "#apart"  # the column of the cells of all strata but the rest
KEY = "#key"  # the column of the hash of an event's key; 0 if nobody asks
LOOKED = "looked "  # what the name of keys of looked-at events begins with
HISTORIES = "histories "  # and of all events of some keys
_HISTORY = "#history"
_LOWEST = -(1 << 63)
_CODES_IN_WORD = 64 // CODE_BITS


@dataclass(frozen=True, slots=True)
class KeyEvents:
    """What was looked at of the keys of an operator in a micro-batch."""

    looked: tuple[int, ...] = ()  # the hashes of the keys of some relevant events
    # all relevant events of some keys: time, hash of the key, type, hash of the id
    histories: tuple[tuple[int, int, int, int], ...] = ()


def _at(numbers: str, place: str | int) -> str:
    return f"{quote_name(numbers)}[CAST({place} AS INT)]"


_IS_ASKED = f"({_at(FOUND_KEYS, ANY)} != 0L)"
"""Whether strata differ at all."""


def _stratum_sql() -> str:
    """Ask for the number of the stratum of a key."""
    key, slots, found = quote_name(KEY), _at(FOUND_KEYS, SLOTS), partial(_at, FOUND_KEYS)
    shifted = f"shiftrightunsigned({key}, CAST({found(SHIFT)} AS INT))"
    slot = f"({SLOTS_AT}L + ({shifted} & {slots}))"
    number = found(f"{slot} + {slots} + 1L")
    place = f"({key} & {found(CODES_MASK)})"
    word = found(f"{SLOTS_AT}L + 2L * ({slots} + 1L) + shiftright({place}, 5)")
    bits = f"CAST(({place} & {_CODES_IN_WORD - 1}L) * {CODE_BITS}L AS INT)"
    code = f"({found(HEAVY)} + (shiftright({word}, {bits}) & 3L))"
    return f"IF({found(slot)} = {key} AND {number} >= 0L, {number}, {code})"


def is_open_sql(bits: str) -> str:
    """Ask whether a key has a partial match of a pattern; `bits` is where its bits begin."""
    place = f"({quote_name(KEY)} & {_at(OPEN_KEYS, f'{bits} + 1L')})"
    word = _at(OPEN_KEYS, f"{_at(OPEN_KEYS, bits)} + shiftright({place}, 6)")
    return f"((shiftright({word}, CAST({place} & 63L AS INT)) & 1L) = 1L)"


def with_cells(frame: DataFrame, shed: ShedOperator, plan: Limits) -> DataFrame:
    """Add the hash of each event's key, and its stratum and type as one number."""
    types = len(shed.catalog.labels)
    hashed = key_hash_sql(shed.key, schema_of(shed.operator.schema))
    stratum, cell = f"IF({_IS_ASKED}, {_stratum_sql()}, 0L)", quote_name(CELL)
    rest = _at(FOUND_KEYS, REST_NUMBER)  # of all other keys, which is the last
    apart = f"IF({cell} < {rest} * {types}L, CAST({cell} AS DOUBLE), NULL)"
    return (
        frame.withColumn(FOUND_KEYS, numbers_of(plan[found_name(shed.spec.name)]))
        .withColumn(KEY, F.expr(f"IF({_IS_ASKED}, {hashed}, 0L)"))
        .withColumn(CELL, F.expr(f"CAST({stratum} AS INT) * {types} + {quote_name(TYPE)}"))
        .withColumn(APART, F.expr(apart))
        .drop(FOUND_KEYS)
    )


def with_history(frame: DataFrame, limits: Column) -> DataFrame:
    """Add the limit below which all events of a key are looked at."""
    return frame.withColumn(_HISTORY, F.get(limits, F.lit(HISTORY)))


def strata_columns(shed: ShedOperator, time: str) -> list[Column]:
    """Count cells, collect the keys of events that are looked at, and all events of some."""
    schema, name = schema_of(shed.operator.schema), shed.spec.name
    ids = [Attribute("", (each,)) for each in shed.operator.ids]
    relevant, key = shed.relevant_sql(shed.spec.outputs), key_hash_sql(shed.key, schema)
    looked = f"{hash_sql(ids, schema, f'{LOOKED_AT_SALT}L')} < {quote_name(LOOKED_AT)}"
    limit, salted = quote_name(_HISTORY), key_hash_sql(shed.key, schema, f"{SALT}L")
    chosen = f"{limit} != ({_LOWEST + 1}L - 1L) AND {salted} < {limit}"
    event = (
        f"array({quote_name(time)}, {key}, CAST({quote_name(TYPE)} AS BIGINT), "
        f"{hash_sql(ids, schema)})"
    )
    bins = MAX_STRATA * len(shed.catalog.labels) * BINS_PER_TYPE
    return [
        F.histogram_numeric(quote_name(APART), F.lit(bins)).alias(CELLS),
        F.collect_list(F.expr(f"IF({relevant} AND {looked}, {key}, NULL)")).alias(
            f"{LOOKED}{name}"
        ),
        F.collect_list(F.expr(f"IF({relevant} AND {chosen}, {event}, NULL)")).alias(
            f"{HISTORIES}{name}"
        ),
    ]


def read_key_events(rows: Iterable[Mapping[str, Any]]) -> dict[str, KeyEvents]:
    """Read what was observed of keys, by operator."""
    looked: dict[str, list[int]] = {}
    histories: dict[str, list[tuple[int, int, int, int]]] = {}
    for row in rows:
        for name, values in row.items():
            if name.startswith(LOOKED):
                looked.setdefault(name.removeprefix(LOOKED), []).extend(values or ())
            elif name.startswith(HISTORIES):
                each = histories.setdefault(name.removeprefix(HISTORIES), [])
                each.extend(map(tuple, values or ()))
    return {
        name: KeyEvents(tuple(hashes), tuple(histories.get(name, ())))
        for name, hashes in looked.items()
    }
