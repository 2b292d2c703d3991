"""What was lost under shedding: results compared with those without it, by their events.

As many results need not be the same results: with events missing, a pattern that uses an event
once pairs the others anew. So a result is compared by the events of the sources that it was
made of. It is *the same* as one without shedding if its pattern took the same events, and
*overlaps* one if at least half of the events of both are in common.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.graph import Application, Stream, operator_order
from shedlight.matching.jit import Array
from shedlight.matching.output.complex_events import EVENTS, ID
from shedlight.shedding.shedder import event_hashes

Outputs = Mapping[Stream, pa.Table]
"""The complex events of each pattern, with the ids of their events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """What the results of a sink have in common with those without shedding."""

    results: int  # under shedding
    unshed: int  # without it
    same: int  # results that are the same as one without shedding
    overlapping: int  # results that overlap one without shedding
    covered: int  # results without shedding that one under it overlaps

    @property
    def recall(self) -> float | None:
        """The share of the results without shedding that are there; None if there is none."""
        return _share(self.same, self.unshed)

    @property
    def precision(self) -> float | None:
        """The share of the results that are there without shedding too."""
        return _share(self.same, self.results)

    @property
    def recall_by_overlap(self) -> float | None:
        """The share of the results without shedding that one under it overlaps."""
        return _share(self.covered, self.unshed)

    @property
    def precision_by_overlap(self) -> float | None:
        """The share of the results that overlap one without shedding."""
        return _share(self.overlapping, self.results)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def compare_results(
    application: Application, shed: Outputs, unshed: Outputs
) -> Mapping[str, Recall]:
    """Compare the results of each sink with those without shedding."""
    ours, theirs = source_events(application, shed), source_events(application, unshed)
    nothing = _Parts(np.zeros(0, np.int64), np.zeros(0, np.int64), pa.array([], pa.string()))
    return {
        name: _compare(ours.get(sink.stream, nothing), theirs.get(sink.stream, nothing))
        for name, sink in application.sinks.items()
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """Of which events of sources complex events are made: pairs in order of the first."""

    rows: Array  # the number of a complex event
    events: Array  # the hash of an event's id
    ids: pa.Array  # the ids of the complex events

    def __len__(self) -> int:
        return len(self.ids)

    def sizes(self) -> Array:
        """Count the events of each."""
        return np.bincount(self.rows, minlength=len(self))

    def of_rows(self, wanted: Array) -> tuple[Array, Array]:
        """Give the events of some rows, each with the position of its row among the wanted."""
        sizes = self.sizes()
        starts, counts = (np.cumsum(sizes) - sizes)[wanted], sizes[wanted]
        owners = np.repeat(np.arange(len(wanted)), counts)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        return owners, self.events[np.repeat(starts, counts) + within]


def source_events(application: Application, outputs: Outputs) -> Mapping[Stream, _Parts]:
    """Follow all complex events upstream to the events of the sources that they are made of."""
    parts: dict[Stream, _Parts] = {}
    for spec in operator_order(application):
        upstream = _joined([parts[stream] for stream in spec.inputs if stream in parts])
        # two sources may have events of the same id
        sources = " ".join(str(stream) for stream in spec.inputs if stream.operator is None)
        for stream, table in outputs.items():
            if stream.operator == spec.name:
                parts[stream] = _parts(table, upstream, sources)
    return parts


def _joined(parts: list[_Parts]) -> _Parts:
    """Number the complex events of several patterns through."""
    firsts = np.cumsum([0, *map(len, parts)])
    return _Parts(
        np.concatenate(
            [np.zeros(0, np.int64), *(p.rows + n for p, n in zip(parts, firsts, strict=False))]
        ),
        np.concatenate([np.zeros(0, np.int64), *(each.events for each in parts)]),
        pa.chunked_array([each.ids for each in parts], pa.string()).combine_chunks(),
    )


def _parts(table: pa.Table, upstream: _Parts, sources: str) -> _Parts:
    """Take complex events apart, given those and the sources that they may be made of."""
    listing = table[EVENTS].combine_chunks()
    owners = np.repeat(np.arange(len(table)), pc.list_value_length(listing).to_numpy())
    values = pc.list_flatten(listing)
    fields, ids = [values], values
    if pa.types.is_struct(values.type):  # events have several columns of ids
        fields = values.flatten()
        ids = pc.struct_field(values, ID) if values.type.get_field_index(ID) >= 0 else None
    found = np.full(len(values), -1)  # the row upstream of a complex event, -1 of others
    if ids is not None and pa.types.is_string(ids.type):
        found = pc.index_in(ids, upstream.ids).fill_null(-1).to_numpy()
    is_source = found < 0
    fields = [*fields, pa.repeat(sources, len(values))]
    columns = [str(number) for number in range(len(fields))]
    hashes = event_hashes(pa.table(fields, columns), columns)
    inner, events = upstream.of_rows(found[~is_source])
    rows = np.concatenate([owners[is_source], owners[~is_source][inner]])
    pairs = np.unique(
        np.stack([rows, np.concatenate([hashes[is_source], events])], axis=1), axis=0
    )
    return _Parts(pairs[:, 0], pairs[:, 1], table[ID].combine_chunks())


def _compare(ours: _Parts, theirs: _Parts) -> Recall:
    same = pc.is_in(ours.ids, value_set=theirs.ids)
    mine, their = _overlaps(ours, theirs)
    return Recall(
        results=len(ours),
        unshed=len(theirs),
        same=int(pc.sum(same).as_py() or 0),
        overlapping=len(np.unique(mine)),
        covered=len(np.unique(their)),
    )


def _overlaps(ours: _Parts, theirs: _Parts) -> tuple[Array, Array]:
    """Give the pairs of complex events that have at least half of their events in common."""
    order = np.argsort(theirs.events, kind="stable")
    events, rows = theirs.events[order], theirs.rows[order]
    starts = np.searchsorted(events, ours.events)
    counts = np.searchsorted(events, ours.events, side="right") - starts
    mine = np.repeat(ours.rows, counts)
    within = np.arange(len(mine)) - np.repeat(np.cumsum(counts) - counts, counts)
    their = rows[np.repeat(starts, counts) + within]
    pairs, common = np.unique(np.stack([mine, their], axis=1), axis=0, return_counts=True)
    largest = np.maximum(ours.sizes()[pairs[:, 0]], theirs.sizes()[pairs[:, 1]])
    chosen = pairs[2 * common >= largest]
    return chosen[:, 0], chosen[:, 1]
