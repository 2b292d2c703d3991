"""What all shards of a part need to know, before anything is built of it."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from shedlight.engines.spark.support.placement import OperatorChain
from shedlight.graph import OperatorSpec, Stream
from shedlight.matching.operators.reorder import StreamInput
from shedlight.shedding.shares import Shares


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSpec:
    """What all shards of a part need to know; it travels to where they run.

    Attributes:
        placement: The operators.
        inputs: The external streams and the columns of each.
        origins: The shards that tell how far each external stream is.
        shares: What patterns keep until told otherwise; one that is not in it never sheds.
        windows: The longest window of each key, for shedding by key.
        with_event_ids: The patterns whose complex events list the ids of their events.
        timed_out: The patterns of which somebody asks for what timed out.
    """

    placement: OperatorChain
    inputs: Mapping[Stream, tuple[StreamInput, pa.Schema]]
    origins: Mapping[Stream, tuple[int, ...]]
    shares: Shares
    windows: Mapping[str, int]
    with_event_ids: frozenset[Stream]
    timed_out: frozenset[Stream] = frozenset()


def has_shares(spec: OperatorSpec, shares: Shares) -> bool:
    """Say whether a plan has shares for any pattern of an operator."""
    return any(stream in shares for stream in spec.outputs)


def is_passthrough(given: ChainSpec, stream: Stream) -> bool:
    """Say whether complex events of another node come as they were packed there.

    They do where none is shed and all go to one shard.
    """
    if stream.operator is None or len(given.placement.shards) > 1:
        return False
    return not any(has_shares(spec, given.shares) for spec in given.placement.readers(stream))
