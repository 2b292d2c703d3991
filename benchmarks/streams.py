"""Streams and patterns that the benchmarks use."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shedlight.language import parse_pattern
from shedlight.matching.hashing import hash_keys
from shedlight.matching.kernel.match_state import MatchState, new_state
from shedlight.matching.operators.cep_operator import (
    CepOperator,
    build_operator,
    operator_keys,
    schema_of,
)
from shedlight.matching.operators.classify import EventTypes, classify
from shedlight.matching.operators.reorder import FOREVER, StreamInput
from shedlight.matching.operators.step import ReadyBatch, match
from shedlight.matching.output.matches import Matches
from shedlight.matching.permuted import PermutedTable, row_column

__all__ = ["Stream", "hash_keys", "prepared", "random_stream"]

EVENTS = 5_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Events in order, as columns."""

    table: pa.Table

    @property
    def types(self) -> np.ndarray:
        """The column that says what type an event has."""
        return np.asarray(self.table["type"].to_numpy())


def random_stream(
    types: int = 4,
    events: int = EVENTS,
    keys: int = 1,
    gap: int = 1_000,
    shares: list[float] | None = None,
    seed: int = 1,
) -> Stream:
    """Make events of random types and keys, `gap` microseconds apart."""
    rng = np.random.default_rng(seed)
    return Stream(
        pa.table(
            {
                "type": rng.choice(types, events, p=shares).astype(np.int64),
                "key": rng.integers(0, keys, events),
                "value": rng.random(events),
                "time": np.arange(events) * gap,
                "id": np.arange(events),
            }
        )
    )


def prepared(
    text: str, stream: Stream, state: Callable[[CepOperator], MatchState] | None = None
) -> Callable[[], tuple[MatchState, Matches]]:
    """Prepare the matching of a stream: from its columns to the matches and the new state."""
    table = stream.table
    pattern = parse_pattern(text, schema_of(table.schema)).pattern
    operator = build_operator(
        [(StreamInput("stream", ("id",), "time"), table.schema)], {"P": pattern}
    )
    matcher = operator.matchers[0]
    start = state(operator) if state else new_state(matcher)

    def work() -> tuple[MatchState, Matches]:
        types, numbers = classify(
            EventTypes(operator.alphabet), len(table), lambda node: row_column(table, node)
        )
        keys = operator_keys(operator, table)
        times = table["time"].to_numpy()
        watermark = int(times[-1]) if len(times) else FOREVER
        ready = ReadyBatch(times, PermutedTable(table), types, numbers, keys, watermark)
        return match(matcher, start, ready)

    return work
