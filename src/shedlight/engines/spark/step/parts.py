"""Watermarks on their way to a shard: in order, and once all that belongs to them is there.

A micro-batch may read several of one origin, as after a pause in which a cluster lost a worker,
and rows come from a shuffle in any order. An origin that was idle and is not any more must not
be taken to be idle again by the older of two: so they are taken in the order in which they were
written.

A channel delivers at least once. What a shard said in a micro-batch of its channel comes in
several records, each of which says how many there are, and how far the shard is after all of
them. Until all are there, its watermark stays as it was; what comes again is left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from shedlight.graph import Stream


@dataclass(frozen=True, slots=True)
class RecordPart:
    """One of the records in which a shard said something."""

    batch: int  # the micro-batch of the channel
    number: int  # which of its records
    of: int  # how many there are


@dataclass(frozen=True, slots=True)
class WatermarkUpdate:
    """The watermark of a stream in the shard that sends it, in microseconds."""

    stream: Stream
    origin: int
    watermark: int
    idle: bool = False
    steps: str | None = None  # what was kept upstream since the last one, where guards need it
    # with which record of a channel it came; None: it stands alone
    part: RecordPart | None = None
    written: float = 0.0  # when, in microseconds, if it stands alone


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A micro-batch of a channel of which records are missing."""

    of: int  # how many records it has
    there: frozenset[int]  # those that came
    update: WatermarkUpdate  # what holds once all are there


@dataclass(frozen=True, slots=True)
class ChannelProgress:
    """What came of another shard by a channel."""

    done: int = -1  # the last micro-batch of the channel of which all came
    open: Mapping[int, OpenBatch] = field(default_factory=dict)

    def take(self, update: WatermarkUpdate, part: RecordPart) -> "ChannelProgress":
        """Take a record, unless it came before."""
        if part.batch <= self.done:
            return self
        batch = self.open.get(part.batch, OpenBatch(part.of, frozenset(), update))
        steps = update.steps if update.steps is not None else batch.update.steps
        batch = replace(
            batch,
            there=batch.there | {part.number},
            update=replace(batch.update, steps=steps, part=None),
        )
        return replace(self, open={**self.open, part.batch: batch})

    def complete(self) -> tuple["ChannelProgress", list[WatermarkUpdate]]:
        """Give what holds now, of micro-batches in their order."""
        done, still_open, updates = self.done, dict(self.open), []
        for number, batch in sorted(self.open.items()):
            if len(batch.there) < batch.of:
                break
            done = number
            updates.append(still_open.pop(number).update)
        return ChannelProgress(done, still_open), updates


Progresses = Mapping[tuple[str, int], ChannelProgress]
"""By stream and origin."""


def take_parts(
    progresses: Progresses, updates: Iterable[WatermarkUpdate]
) -> tuple[Progresses, list[WatermarkUpdate]]:
    """Take updates; give those that hold now, each after those that were written before it.

    One that is of no channel holds at once.
    """
    new, ready = dict(progresses), []
    touched: dict[tuple[str, int], None] = {}
    alone: list[WatermarkUpdate] = []
    for update in updates:
        if update.part is None:
            alone.append(update)
            continue
        key = (str(update.stream), update.origin)
        new[key] = new.get(key, ChannelProgress()).take(update, update.part)
        touched[key] = None
    for key in touched:
        new[key], complete = new[key].complete()
        ready += complete
    alone.sort(key=lambda update: (update.written, update.watermark))
    return new, alone + ready


def furthest_announced(progresses: Progresses) -> dict[tuple[str, int], int]:
    """Say before which time complex events are of which some came, and not yet all."""
    return {
        key: max(batch.update.watermark for batch in progress.open.values())
        for key, progress in progresses.items()
        if progress.open
    }
