"""The option `--costs` of `shedlight simulate`: what micro-batches cost at nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

from shedlight.control.planning_input import planning_input_path, read_planning_input
from shedlight.errors import InputError, SnapshotError
from shedlight.graph import Application, Stream
from shedlight.model.snapshot import Snapshot
from shedlight.model.spark_costs import DEFAULT_COSTS, Costs

SPARK = "spark"
_LOG = "log.jsonl"  # in the checkpoint of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatchTimes:
    """What micro-batches take at nodes."""

    costs: Mapping[str, Costs]  # besides matching, by node
    times: Mapping[Stream, float]  # what patterns take for an event, as far as it is known
    origin: str  # where that is from, for people


def read_costs(application: Application, text: str) -> MicroBatchTimes:
    """Read what `--costs` says: `spark`, or the folder of a run.

    Raises:
        InputError: There is no such run, it has observed nothing, or it is of other nodes.
    """
    if text == SPARK:
        costs = dict.fromkeys(application.nodes, DEFAULT_COSTS)
        return MicroBatchTimes(costs=costs, times={}, origin="usual on two cores")
    snapshot, name = _read_run(Path(text))
    for node, spec in application.nodes.items():
        if spec.bound is not None and node not in snapshot.micro_batch:
            has = ", ".join(sorted(snapshot.micro_batch)) or "none"
            raise InputError(
                f"--costs: the run in {text} is of application {name!r} and has no costs of "
                f"node {node!r}, only of: {has}; simulate what was run, or give --costs {SPARK}"
            )
    costs = {
        node: Costs(each.fixed, each.reading, snapshot.transport.get(node, 0.0))
        for node, each in snapshot.micro_batch.items()
        if node in application.nodes
    }
    known = set(application.streams)
    times = {
        stream: _mean(seconds)
        for stream, seconds in snapshot.processing_time.items()
        if stream in known
    }
    return MicroBatchTimes(costs=costs, times=times, origin=f"as in the run {text}")


def _read_run(path: Path) -> tuple[Snapshot, str]:
    """Read what a run has observed last, and the name of its application."""
    if not path.exists():
        raise typer.BadParameter(
            f"--costs {str(path)!r} is not there; give {SPARK!r}, or the folder of a run, "
            "such as state/NAME"
        )
    log = path / _LOG if path.is_dir() else path
    file = planning_input_path(log)
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise InputError(
            f"--costs: {file} cannot be read ({error.strerror}); a run writes it when it has "
            "observed its nodes: name the checkpoint of one with a bound, without --once, "
            f"that ran for a minute, or give --costs {SPARK}"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"--costs: {file} is not text in UTF-8; name a run") from error
    try:
        observed = read_planning_input(text)
    except SnapshotError as error:
        raise InputError(f"--costs: {file}: {error}") from error
    return observed.snapshot, observed.application.name


def _mean(seconds: float | Mapping[str, float]) -> float:
    """Average what an event takes over types, if it is known by type."""
    if isinstance(seconds, Mapping):
        return sum(seconds.values()) / len(seconds) if seconds else 0.0
    return seconds
