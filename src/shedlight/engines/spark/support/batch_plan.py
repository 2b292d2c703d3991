"""What a shard has to know of the plan of its micro-batch: a text that comes with every row."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from shedlight.graph import Stream
from shedlight.graph.application import parse_stream
from shedlight.shedding.shares import PatternShares, Shares


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """The plan of a micro-batch, as far as shards need it."""

    batch: int  # the id of the micro-batch
    after: int = -1  # the micro-batch after which the plan was decided; -1: nobody decides
    # the latest timestamp of each source in micro-batches up to that one, in microseconds
    latest: Mapping[str, int] = field(default_factory=dict)
    # for which share of keys each pattern in a protected closure is whole; 1 or 0 without a key
    whole: Mapping[Stream, float] = field(default_factory=dict)
    shares: Shares = field(default_factory=dict)  # of patterns for which shards decide
    heavy: tuple[
        int, ...
    ] = ()  # the hashes of heavy hitters, which the unshed sample leaves out


def to_text(plan: BatchPlan) -> str:
    """Write a plan."""
    row = {
        "batch": plan.batch,
        "after": plan.after,
        "latest": dict(plan.latest),
        "whole": {str(stream): share for stream, share in plan.whole.items()},
        "shares": shares_to_rows(plan.shares),
        "heavy": plan.heavy,
    }
    return json.dumps(row, default=sorted)  # a set is written as a list


def from_text(text: str) -> BatchPlan:
    """Read a plan."""
    row = json.loads(text)
    whole = {parse_stream(name): share for name, share in row["whole"].items()}
    shares, heavy = shares_from_rows(row["shares"]), tuple(row["heavy"])
    return BatchPlan(**{**row, "whole": whole, "shares": shares, "heavy": heavy})


def shares_to_rows(shares: Shares) -> list[dict[str, Any]]:
    """Write what patterns keep, each as a row; sets are still sets."""
    return [
        {"operator": stream.operator, "pattern": stream.name, **asdict(kept)}
        for stream, kept in shares.items()
    ]


def shares_from_rows(rows: list[dict[str, Any]]) -> Shares:
    """Read what patterns keep."""
    shares = {}
    for row in rows:
        stream = Stream(row.pop("pattern"), row.pop("operator"))
        exempt, spared = frozenset(row.pop("pressure_exempt")), frozenset(row.pop("spared"))
        shares[stream] = PatternShares(**row, pressure_exempt=exempt, spared=spared)
    return shares
