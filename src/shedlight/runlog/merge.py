"""Micro-batch records added up, for who cannot send each of them."""

from shedlight.runlog.records import MicroBatchRecord, PatternRecord


def add_batches(before: MicroBatchRecord | None, batch: MicroBatchRecord) -> MicroBatchRecord:
    """Give one record for what came before and another micro-batch of the same node.

    Events by type are left out. Of quantiles of latency the highest stands for all.
    """
    patterns = {name: _without_types(each) for name, each in batch.patterns.items()}
    if before is None:
        return batch.model_copy(update={"patterns": patterns})
    return batch.model_copy(
        update={
            "seconds": before.seconds + batch.seconds,
            "events": before.events + batch.events,
            "kept": before.kept + batch.kept,
            "relevant_events": _sum(before.relevant_events, batch.relevant_events),
            "lag": before.lag if batch.lag is None else batch.lag,
            "latency": _latency(before, batch),
            "state_bytes": max(before.state_bytes, batch.state_bytes),
            "malformed": _sums(before.malformed, batch.malformed),
            "late": {**before.late, **batch.late},
            "patterns": {
                name: _add_patterns(before.patterns.get(name), patterns.get(name))
                for name in {**before.patterns, **patterns}
            },
            "arrived": {
                name: _sums(before.arrived.get(name, {}), batch.arrived.get(name, {}))
                for name in {**before.arrived, **batch.arrived}
            },
            "unshed_sample": batch.unshed_sample or before.unshed_sample,
        }
    )


def _latency(before: MicroBatchRecord, batch: MicroBatchRecord) -> dict[str, float]:
    if not before.latency or not batch.latency:
        return before.latency or batch.latency
    latency = {
        name: max(value, before.latency.get(name, value))
        for name, value in batch.latency.items()
    }
    kept = before.kept + batch.kept
    waited = before.latency["mean"] * before.kept + batch.latency["mean"] * batch.kept
    return latency | ({"mean": waited / kept} if kept else {})


def _add_patterns(before: PatternRecord | None, pattern: PatternRecord | None) -> PatternRecord:
    if before is None or pattern is None:
        return before or pattern or PatternRecord()
    return PatternRecord(
        kept=before.kept + pattern.kept,
        seconds=before.seconds + pattern.seconds,
        matches=before.matches + pattern.matches,
        partial_matches=pattern.partial_matches,
        cancelled=before.cancelled + pattern.cancelled,
        offered=_sum(before.offered, pattern.offered),
    )


def _without_types(pattern: PatternRecord) -> PatternRecord:
    return pattern.model_copy(update={"types": {}})


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _sums(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
