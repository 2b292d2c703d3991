"""Recall and precision by sets of events, in plain Python: nothing of the engine's is used."""

from typing import NamedTuple


class SetRecall(NamedTuple):
    """What the results of a sink have in common with those without shedding."""

    results: int
    unshed: int
    recall: float
    precision: float
    recall_by_overlap: float
    precision_by_overlap: float


def recall_by_sets(shed, unshed, stream, since=0):
    """Compare the results of a stream from a time on, each as the set of its source events."""
    mine, others = _results(shed, stream, since), _results(unshed, stream, since)
    return SetRecall(
        len(mine),
        len(others),
        sum(each in mine for each in others) / len(others),
        sum(each in others for each in mine) / len(mine),
        sum(any(_overlap(m, o) for m in mine) for o in others) / len(others),
        sum(any(_overlap(m, o) for o in others) for m in mine) / len(mine),
    )


def _results(outputs, stream, since):
    made_of = _events(outputs)
    rows = outputs[stream].to_pylist()
    return [made_of[row["id"]] for row in rows if row["time"] >= since]


def _events(outputs):
    """Say of which events of sources each complex event is made, by its id.

    Events are told apart by operator too: each has a source of its own in the paper's example.
    """
    found: dict[str, frozenset[object]] = {}
    for stream, table in outputs.items():  # upstream first
        for row in table.to_pylist():
            parts = (
                found.get(each, frozenset([(stream.operator, each)])) for each in row["events"]
            )
            found[row["id"]] = frozenset().union(*parts)
    return found


def _overlap(one, other):
    return 2 * len(one & other) >= max(len(one), len(other))
