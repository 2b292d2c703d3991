"""What a shard has to know of the plan of its micro-batch: a text that comes with every row."""

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from shedlight.graph import Stream
from shedlight.graph.application import parse_stream
from shedlight.model.model import SheddingWay
from shedlight.shedding.found_keys import Found, read_frame, write_frame
from shedlight.shedding.shares import PatternShares, Shares
from shedlight.shedding.stratum_shares import StratumShares


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
    found: Found = field(default_factory=dict)  # the keys of operators that shed them in strata
    # the patterns whose open keys shards are to tell
    opened: frozenset[Stream] = frozenset()


def to_text(plan: BatchPlan) -> str:
    """Write a plan."""
    row = {
        "batch": plan.batch,
        "after": plan.after,
        "latest": dict(plan.latest),
        "whole": {str(stream): share for stream, share in plan.whole.items()},
        "shares": shares_to_rows(plan.shares),
        "heavy": plan.heavy,
        "found": base64.b64encode(write_frame(plan.found, {})).decode() if plan.found else "",
        "opened": [str(stream) for stream in plan.opened],
    }
    return json.dumps(row, default=sorted)  # a set is written as a list


def from_text(text: str) -> BatchPlan:
    """Read a plan."""
    row = json.loads(text)
    whole = {parse_stream(name): share for name, share in row["whole"].items()}
    read = {
        "whole": whole,
        "shares": shares_from_rows(row["shares"]),
        "heavy": tuple(row["heavy"]),
        "found": read_frame(base64.b64decode(row["found"]), {}) if row["found"] else {},
        "opened": frozenset(map(parse_stream, row["opened"])),
    }
    return BatchPlan(**{**row, **read})


def shares_to_rows(shares: Shares) -> list[dict[str, Any]]:
    """Write what patterns keep, each as a row; sets are still sets."""
    return [
        {
            "operator": stream.operator,
            "pattern": stream.name,
            **asdict(replace(kept, strata={})),
            "strata": {name: _stratum_row(each) for name, each in kept.strata.items()},
        }
        for stream, kept in shares.items()
    ]


def _stratum_row(shares: StratumShares) -> dict[str, Any]:
    return {**asdict(shares), "way": shares.way.value}


def shares_from_rows(rows: list[dict[str, Any]]) -> Shares:
    """Read what patterns keep."""
    shares = {}
    for row in rows:
        stream = Stream(row.pop("pattern"), row.pop("operator"))
        exempt, spared = frozenset(row.pop("pressure_exempt")), frozenset(row.pop("spared"))
        strata = {
            name: StratumShares(**{**each, "way": SheddingWay(each["way"])})
            for name, each in row.pop("strata", {}).items()
        }
        shares[stream] = PatternShares(
            **row, pressure_exempt=exempt, spared=spared, strata=strata
        )
    return shares
