"""Into how many shards the keys of a checkpoint are divided, and how they were before."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from shedlight.engines.spark.support.placement import (
    EarlierShards,
    OperatorChain,
    node_order,
    operator_chains,
)
from shedlight.errors import StateError
from shedlight.graph import Application

_LOG = logging.getLogger(__name__)

MAX_SHARD = 840
"""Below it numbers of shards stay apart as slots (`support/shard_slots.py`)."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """Into how many shards keys are divided.

    Shards that are divided anew get numbers that no shard had before: rows of Spark's state,
    files and watermarks of earlier ones are never taken for theirs.
    """

    shards: int  # of each chain with a key
    first: int = 0  # the number of the first shard of each node
    before: "Sharding | None" = None  # what their states are made of
    # the last micro-batch of each node before
    batches: Mapping[str, int] = field(default_factory=dict)

    def chains(self, application: Application) -> dict[str, tuple[OperatorChain, ...]]:
        """Find the operator chains of each node, each node after those that it reads."""
        return {
            node: operator_chains(application, node, self.shards, self.first)
            for node in node_order(application)
        }

    @property
    def folder(self) -> str:
        """Name the folder with the states that these shards begin with."""
        return f"before-{self.first}"

    def divided(self, application: Application, shards: int) -> "Sharding":
        """Give what comes after it, with another number of shards.

        Raises:
            StateError: Too many numbers were given away already.
        """
        of_nodes = self.chains(application).values()
        first = max(chain.shards.stop for chains in of_nodes for chain in chains)
        new = Sharding(shards, first, Sharding(self.shards, self.first))
        of_nodes = new.chains(application).values()
        last = max(chain.shards.stop for chains in of_nodes for chain in chains)
        if last > MAX_SHARD:
            raise StateError(
                f"the checkpoint has {self.shards} shards and cannot be divided into {shards} "
                f"any more: it has had {first} in all, and {MAX_SHARD} are possible; go on "
                f"with --shards {self.shards}, or start with a new checkpoint"
            )
        return new

    def earlier(self, application: Application) -> dict[str, tuple[EarlierShards | None, ...]]:
        """Say of each chain of each node how it was divided before."""
        now = self.chains(application)
        if self.before is None:
            return {node: (None,) * len(chains) for node, chains in now.items()}
        then = self.before.chains(application)
        written_by = {
            stream: chain.shards
            for chains in then.values()
            for chain in chains
            for stream in chain.outputs
        }
        return {
            node: tuple(
                EarlierShards(
                    chain.shards,
                    {s: tuple(written_by.get(s, (0,))) for s in chain.external},
                    self.folder,
                )
                for chain in chains
            )
            for node, chains in then.items()
        }


def choose_sharding(recorded: Sharding | None, asked: int | None, cores: int) -> Sharding:
    """Say into how many shards keys are divided: as recorded, else as many as asked for.

    If nobody asks, there are as many as cores when a checkpoint begins, and as many as there
    were when it goes on.
    """
    if recorded is None:
        return Sharding(cores if asked is None else asked)
    if asked is None and recorded.shards != cores:
        _LOG.warning(
            "the checkpoint goes on with %d shards, as it was; there are %d cores: for as many "
            "shards start it with --shards %d",
            recorded.shards,
            cores,
            cores,
        )
    return recorded


def to_json(sharding: Sharding) -> dict[str, Any]:
    """Write it down."""
    return asdict(sharding)


def from_json(given: Mapping[str, Any]) -> Sharding:
    """Read what was written down."""
    before = given["before"]
    return Sharding(
        int(given["shards"]),
        int(given["first"]),
        None if before is None else from_json(before),
        dict(given["batches"]),
    )
