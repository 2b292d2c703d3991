"""What shards are sent of a plan: shares, for which keys patterns are whole, heavy hitters.

Most shares are applied in the JVM, before an event comes to a shard. A shard applies those of
operators that read others of their chain, or whose event types are too many to number.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shedlight.engines.spark.shed.type_catalog import Catalogs
from shedlight.engines.spark.step.chain import ChainRuntime
from shedlight.engines.spark.support.batch_plan import BatchPlan, to_text
from shedlight.engines.spark.support.placement import has_shares
from shedlight.engines.spark.support.plan_store import PlanStore
from shedlight.engines.spark.support.storage import StoredPath
from shedlight.graph import Stream
from shedlight.model.model import SheddingWay
from shedlight.shedding.found_keys import NOTHING, Found, FoundKeys
from shedlight.shedding.guard import labels_to_keep
from shedlight.shedding.shares import PatternShares


@dataclass(frozen=True, slots=True)
class ShardNeeds:
    """What the shards of a node need of a plan; it may travel to a worker."""

    decided: frozenset[Stream] = frozenset()  # the patterns whose shares shards apply
    # the types that must all be kept for a pattern in a protected closure to be whole; None:
    # they are too many to list
    guarded: Mapping[Stream, tuple[str, ...] | None] = field(default_factory=dict)
    sampled: bool = False  # whether any pattern keeps the unshed sample
    strata: frozenset[str] = frozenset()  # the operators whose keys are shed in strata

    def __bool__(self) -> bool:
        """Say whether they need anything."""
        return bool(self.decided or self.guarded or self.sampled or self.strata)


def find_needs(chains: Iterable[ChainRuntime], catalogs: Catalogs) -> ShardNeeds:
    """Find what the shards of a node need of its plans."""
    decided: set[Stream] = set()
    guarded: dict[Stream, tuple[str, ...] | None] = {}
    sampled = False
    for chain in chains:
        made, context = set(chain.spec.placement.outputs), chain.spec.context
        sampled |= not made.isdisjoint(context.sample.groups)
        for spec, operator in zip(chain.spec.placement.operators, chain.operators, strict=True):
            if not has_shares(spec, context.shares):
                continue
            catalog = catalogs[spec.name]
            if not catalog.is_numbered or not made.isdisjoint(spec.inputs):
                decided |= {stream for stream in spec.outputs if stream in context.shares}
            for stream, matcher in zip(spec.outputs, operator.matchers, strict=True):
                guard = context.guards.get(stream)
                if guard is not None and stream in context.shares:
                    guarded[stream] = labels_to_keep(matcher, operator.alphabet, guard)
    strata = frozenset(name for name, catalog in catalogs.items() if catalog.by_strata)
    return ShardNeeds(frozenset(decided), guarded, sampled, strata)


def shard_plan(folder: StoredPath, needs: ShardNeeds, batch: int) -> str:
    """Write what the shards of a node need of the plan of a micro-batch."""
    plans = PlanStore(folder)
    active = plans.plan_for_batch(batch)
    shares = plans.shares(active)
    whole = {
        stream: shares[stream].whole_share(labels) if stream in shares else 1.0
        for stream, labels in needs.guarded.items()
    }
    return to_text(
        BatchPlan(
            batch=batch,
            after=active.after,
            latest=active.latest,
            whole=whole,
            shares={stream: kept for stream, kept in shares.items() if stream in needs.decided},
            heavy=plans.heavy(active) if needs.sampled else (),
            found=_found(plans.found(active), needs) if needs.strata else {},
            opened=frozenset(stream for stream in shares if _asks_openers(shares[stream])),
        )
    )


def _found(found: Found, needs: ShardNeeds) -> Found:
    """Give what is known of keys; bits only to who decides by them."""
    decides = {str(stream.operator) for stream in needs.decided}
    return {
        name: known if name in decides else FoundKeys(known.table)
        for name in needs.strata
        for known in [found.get(name, NOTHING)]
    }


def _asks_openers(shares: PatternShares) -> bool:
    return any(each.way is SheddingWay.OPENERS for each in shares.strata.values())
