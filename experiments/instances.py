"""Planning problems of any size, drawn at random: one operator with too much to do.

Rates of types, needs and processing times of queries are uniform. Processing times are then
scaled so that the work for all matches alone, without a single event that could be spared, is a
multiple of what the operator can do: there is no plan that loses nothing.
"""

from dataclasses import dataclass

import numpy as np

from shedlight.graph.application import Stream
from shedlight.model.arrays import Floats, Ints, repeat_value
from shedlight.model.model import Model, NodeModel, OperatorModel, PatternModel, SinkModel
from shedlight.model.selectivity.demand import plain_demand

BOUND = 1.0
"""The bound of the operator, in seconds."""
OVERLOAD = 2.0
"""The work for all matches, in busy seconds per second."""

_NODE, _OPERATOR, _SOURCE = "node", "operator", "source"
_TYPES_PER_DRAW = 1_000
"""For how many types the queries are drawn in one go: it bounds the memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """A problem as a snapshot has it.

    Attributes:
        types: The labels of the types.
        rates: Events per second of each type.
        uses: The types that each query uses, ascending.
        needs: How many events of each of them a match of the query takes.
        seconds: The mean processing time of an event, by query.
        weights: What a match is worth, by query.
        transport: Seconds per event that any query keeps.
    """

    types: tuple[str, ...]
    rates: Floats
    uses: tuple[Ints, ...]
    needs: tuple[Floats, ...]
    seconds: Floats
    weights: Floats
    transport: float = 0.0


def dense_instance(types: int, queries: int, share: float, seed: int) -> Model:
    """Make a model of one overloaded operator.

    Args:
        types: How many types arrive.
        queries: How many queries it has: each an AND of all types that it uses.
        share: The share of the queries that use a type.
        seed: The same one gives the same model.

    Example:
        >>> model = dense_instance(types=6, queries=4, share=0.5, seed=0)
        >>> sum(len(pattern.demand.uses) for pattern in model.patterns.values())
        12
    """
    return model_of(draw_arrays(types, queries, share, seed))


def draw_arrays(
    types: int, queries: int, share: float, seed: int, *, transport: float = 0.0
) -> Arrays:
    """Draw a problem, as `dense_instance` does.

    Args:
        types: See there.
        queries: See there.
        share: See there.
        seed: See there.
        transport: What an event that any query keeps costs once, in mean processing times.
    """
    if min(types, queries) < 1 or not 0 < share <= 1:
        raise ValueError(
            "types and queries must be at least 1, share above 0 and at most 1; "
            f"got {types}, {queries} and {share}"
        )
    rng = np.random.default_rng(seed)
    rates = rng.uniform(1, 100, types)
    used, users = _pairs(rng, types, queries, max(1, round(share * queries)))
    cuts = np.searchsorted(users, np.arange(1, queries))
    counts = rng.integers(1, 3, len(used)).astype(np.float64)
    uses, needs = np.split(used, cuts), np.split(counts, cuts)
    seconds = rng.uniform(0.5, 2, queries)
    works = [
        float(one.sum()) * float((rates[use] / one).min())
        for use, one in zip(uses, needs, strict=True)
    ]
    seconds *= OVERLOAD / float((seconds * works).sum())
    return Arrays(
        tuple(f"type={number}" for number in range(types)),
        rates,
        tuple(uses),
        tuple(needs),
        seconds,
        rng.uniform(0.5, 2, queries),
        transport * float(seconds.mean()),
    )


def model_of(arrays: Arrays) -> Model:
    """Make the model of a problem; processing times are exponential."""
    patterns = tuple(
        PatternModel(
            stream=Stream(f"Q{number}", _OPERATOR),
            demand=plain_demand(uses, needs),
            seconds=repeat_value(np.float64(mean), len(uses)),
            moments=repeat_value(np.float64(2 * mean * mean), len(uses)),
        )
        for number, (uses, needs, mean) in enumerate(
            zip(arrays.uses, arrays.needs, arrays.seconds.tolist(), strict=True)
        )
    )
    operator = OperatorModel(
        name=_OPERATOR,
        node=_NODE,
        types=arrays.types,
        sources={_SOURCE: arrays.rates},
        feeds={},
        patterns=patterns,
    )
    sinks = {
        f"sink{number}": SinkModel(name=f"sink{number}", stream=one.stream, weight=weight)
        for number, (one, weight) in enumerate(
            zip(patterns, arrays.weights.tolist(), strict=True)
        )
    }
    node = NodeModel(name=_NODE, bound=BOUND, transport=arrays.transport)
    return Model(nodes={_NODE: node}, operators={_OPERATOR: operator}, sinks=sinks)


def _pairs(rng: np.random.Generator, types: int, queries: int, users: int) -> tuple[Ints, Ints]:
    """Draw so many queries for each type: types and queries of all pairs, by query and type."""
    if users >= queries:
        chosen = np.broadcast_to(np.arange(queries), (types, queries))
    else:
        chosen = np.concatenate(
            [
                np.argpartition(
                    rng.random((min(_TYPES_PER_DRAW, types - first), queries)),
                    users - 1,
                    axis=1,
                )[:, :users]
                for first in range(0, types, _TYPES_PER_DRAW)
            ]
        )
    idle = np.setdiff1d(np.arange(queries), chosen)  # a query without types takes any one
    one = np.concatenate([np.repeat(np.arange(types), chosen.shape[1]), idle % types])
    other = np.concatenate([chosen.reshape(-1), idle])
    order = np.argsort(other, kind="stable")  # types are ascending, and stay so
    return one[order], other[order]
