"""What a shard holds of the unshed sample: shadows, and the results of the sample's keys.

Results are counted by key for one to two hours of event time, so that the counts are of now,
and do not grow for ever.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from shedlight.graph import Stream
from shedlight.matching.jit import Array
from shedlight.matching.kernel.match_state import MatchState
from shedlight.matching.operators.reorder import FOREVER, NEVER
from shedlight.matching.operators.step import ReadyBatch
from shedlight.shedding.estimate import SampleCounts, add_counts

PERIOD = 3_600_000_000  # microseconds; results are counted of this one and the one before


@dataclass(frozen=True, slots=True, eq=False)
class ResultCounts:
    """Results of the sample's keys in a stretch of event time, in microseconds."""

    since: int = FOREVER
    until: int = NEVER
    counts: SampleCounts = field(default_factory=partial(add_counts, ()))
    heavy: int = 0  # the results of keys that were known as heavy hitters then


@dataclass(frozen=True, slots=True, eq=False)
class PatternSample:
    """What a shard holds of the sample for a pattern."""

    # partial matches by the plan alone; None: they are those of the matching proper
    shadow: MatchState | None = None
    recent: ResultCounts = field(default_factory=ResultCounts)
    before: ResultCounts = field(default_factory=ResultCounts)  # of the period before

    def count(self, new: ResultCounts) -> "PatternSample":
        """Add the results of a batch; where a period ends, those before it are forgotten."""
        old, before = self.recent, self.before
        if old.until > NEVER and new.until // PERIOD > old.until // PERIOD:
            old, before = ResultCounts(), old
        counts = add_counts([old.counts, new.counts]) if len(new.counts.keys) else old.counts
        recent = ResultCounts(
            min(old.since, new.since), max(old.until, new.until), counts, old.heavy + new.heavy
        )
        return replace(self, recent=recent, before=before)


@dataclass(frozen=True, slots=True)
class SampleMetrics:
    """What a shard has counted of the results of a pattern, in microseconds of event time."""

    since: int
    until: int
    # results without shedding, how many of these by the plan alone, how many keys have so many
    keys: list[tuple[int, int, int]]
    heavy: int  # the results of heavy hitters


def covered_time(ready: ReadyBatch, since: int) -> tuple[int, int]:
    """Say from which time to which a batch is that is ready after a watermark."""
    times = ready.time
    if since == NEVER:
        since = int(times[0]) if len(times) else FOREVER
    until = ready.watermark
    if until == FOREVER:  # all has ended
        until = int(times[-1]) if len(times) else NEVER
    return since, until


def sample_metrics(
    samples: Mapping[Stream, PatternSample], heavy: Array
) -> dict[str, SampleMetrics]:
    """Say what was counted by pattern, without heavy hitters."""
    metrics = {}
    for stream, held in samples.items():
        both = [held.before, held.recent]
        counts = add_counts([each.counts for each in both]).without(heavy)
        pairs, numbers = np.unique(
            np.stack([counts.unshed, counts.same], axis=1), axis=0, return_counts=True
        )
        metrics[str(stream)] = SampleMetrics(
            min(each.since for each in both),
            max(each.until for each in both),
            [
                (*pair, number)
                for pair, number in zip(pairs.tolist(), numbers.tolist(), strict=True)
            ],
            sum(each.heavy for each in both),
        )
    return metrics
