"""What the driver knows after a micro-batch: the latest timestamps of sources until then."""

from dataclasses import replace

from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.support.plan_store import ActivePlan
from shedlight.graph import Application
from shedlight.matching.operators.reorder import NEVER


def with_latest(
    active: ActivePlan, application: Application, batch: MicroBatchReport
) -> ActivePlan:
    """Give the active plan after a micro-batch, with the latest timestamps in all so far.

    Of micro-batches that nobody saw, before a restart, they are later by the lateness at
    most: events of the next one that are not late say so.
    """
    latest, unseen = dict(active.latest), dict(active.unseen)
    if batch.number > active.after + 1:
        read = (stream for _, stream in batch.arrived if stream in application.sources)
        unseen |= dict.fromkeys(read, batch.number)
    seen = set[str]()
    for (_, stream), stats in batch.arrived.items():
        source = application.sources.get(stream)
        if source is not None and stats.latest is not None:
            time = stats.latest + (source.lateness if stream in unseen else 0)
            latest[stream] = max(latest.get(stream, time), time)
            seen.add(stream)
        elif source is not None and batch.number == 0:
            latest[stream] = NEVER  # and not: nobody knows
    left = {stream: number for stream, number in unseen.items() if stream not in seen}
    return replace(active, after=batch.number, latest=latest, unseen=left)
