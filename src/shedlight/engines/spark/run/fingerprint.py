"""The fingerprint of an application in a checkpoint: the application as the checkpoint began.

Matching cannot go on from partial matches of another pattern, nor be right if half of the
matches are of one application and half of another. So an application that was changed is
rejected, and the message says what is different. Into how many shards keys are divided stands
in the same file, and may change (`divide.py`).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from shedlight.engines.spark.run.sharding import Sharding, from_json, to_json
from shedlight.engines.spark.support.atomic_file import write_atomically
from shedlight.engines.spark.support.checkpoint import LOCK
from shedlight.errors import StateError
from shedlight.graph import Application, OperatorSpec, Source, Stream
from shedlight.graph.application import DATAFRAME
from shedlight.graph.kafka import given_subscriptions

VERSION = 10  # of the folders and files of a checkpoint, and of the hashes in its states


def fingerprint_lines(
    application: Application, shedding: Iterable[Stream] = ()
) -> tuple[str, ...]:
    """Describe all that the matches of an application depend on.

    Which patterns may shed belongs to it, and which share of the keys never is: buffered events
    carry who keeps them.
    """
    may = ", ".join(sorted(map(str, shedding))) or "none"
    channels = application.channels
    share = application.unshed_sample if may != "none" else 0.0
    return (
        *_lines(application, located=True),
        *(() if channels is None else (f"channels: {channels.format} {channels.prefix}",)),
        f"patterns that may shed: {may}",
        f"unshed sample: {share:g}",
    )


def application_digest(application: Application, shedding: Iterable[Stream] = ()) -> str:
    """Give a short fingerprint, by which nodes know that they are of one application.

    Where sources are is left out: nodes may be on computers that see them elsewhere.
    """
    may = ", ".join(sorted(map(str, shedding)))
    share = application.unshed_sample if may else 0.0
    lines = [*_lines(application, located=False), may, f"{share:g}"]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _lines(application: Application, *, located: bool) -> Iterator[str]:
    for source in application.sources.values():
        yield from _source_lines(source, located=located)
    for spec in application.operators.values():
        yield from _operator_lines(spec)
    for name, sink in application.sinks.items():
        what = "timed-out partial matches of " if sink.timed_out else ""
        yield f"sinks.{name}: {what}{sink.input}"


def _source_lines(source: Source, *, located: bool) -> Iterator[str]:
    where = f"sources.{source.name}"
    is_given = source.format == DATAFRAME
    if located:
        yield f"{where}: {'a DataFrame' if is_given else f'{source.format} {source.path}'}"
    zone = "" if source.time_zone is None else f" {source.time_zone}"
    yield f"{where}.time: {source.time} in {source.time_unit}{zone}, lateness {source.lateness}"
    yield f"{where}.id: {', '.join(source.id)}"
    if located and source.is_kafka:
        topics = given_subscriptions(source.options).values()
        yield f"{where}.topics: {', '.join(topics)}"
    if source.value is not None:
        yield f"{where}.value: {source.value.format}"
    for name, expression in source.columns.items():
        yield f"{where}.columns.{name}: {expression}"


def _operator_lines(spec: OperatorSpec) -> Iterator[str]:
    where = f"operators.{spec.name}"
    yield f"{where}: on {spec.node}, reads {', '.join(map(str, spec.inputs))}"
    for name, pattern in spec.patterns.items():
        yield f"{where}.{name}: {pattern}"


def check_fingerprint(file: Path, lines: tuple[str, ...], sharding: Sharding) -> None:
    """Write the fingerprint of a new checkpoint, or compare with that of an old one."""
    record = _record(file)
    if record is None:
        file.parent.mkdir(parents=True, exist_ok=True)
        _write(file, lines, sharding)
        return
    before, _ = record
    if before != lines:
        raise StateError(
            f"the checkpoint {file.parent} is of another application:\n"
            f"{_changes(before, lines)}\n"
            "go on with the application as it was, or start with a new checkpoint"
        )


def recorded_sharding(file: Path) -> Sharding | None:
    """Read into how many shards a checkpoint divides keys; None: it is a new one."""
    record = _record(file)
    return None if record is None else record[1]


def record_sharding(file: Path, sharding: Sharding) -> None:
    """Have a checkpoint divide keys into other shards from now on."""
    record = _record(file)
    if record is None:
        raise RuntimeError(f"{file} is not there yet")
    _write(file, record[0], sharding)


def _write(file: Path, lines: Iterable[str], sharding: Sharding) -> None:
    content = {"version": VERSION, "sharding": to_json(sharding), "lines": tuple(lines)}
    write_atomically(file, json.dumps(content, indent=1))


def check_patterns(file: Path, application: Application) -> None:
    """See that a checkpoint is of an application with these operators and patterns.

    Raises:
        StateError: It is of others, or no checkpoint.
    """
    now = [line for spec in application.operators.values() for line in _operator_lines(spec)]
    before = [line for line in _recorded_lines(file) or now if line.startswith("operators.")]
    if before != now:
        raise StateError(
            f"the run in {file.parent} was of other patterns:\n{_changes(before, now)}\n"
            "recover with the application file as it was then"
        )


def _changes(before: Sequence[str], now: Sequence[str]) -> str:
    gone = [f"  before: {line}" for line in before if line not in now]
    new = [f"  now:    {line}" for line in now if line not in before]
    return "\n".join(gone + new) or "  the order of its parts"


def _recorded_lines(file: Path) -> tuple[str, ...] | None:
    record = _record(file)
    return None if record is None else record[0]


def _record(file: Path) -> tuple[tuple[str, ...], Sharding] | None:
    try:
        row = json.loads(file.read_text())
        if row["version"] != VERSION:
            raise StateError(
                f"the checkpoint {file.parent} is of version {row['version']}, and this is "
                f"version {VERSION}; start with a new checkpoint"
            )
        return tuple(map(str, row["lines"])), from_json(row["sharding"])
    except FileNotFoundError:
        _check_new(file.parent)
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"{file} is damaged ({error}); put it back as it was, or start with a new "
            "checkpoint"
        ) from error


def _check_new(checkpoint: Path) -> None:
    """See that a folder without a fingerprint has nothing else in it."""
    there = sorted(path.name for path in checkpoint.glob("[!.]*") if path.name != LOCK)
    if there:
        raise StateError(
            f"{checkpoint} is no checkpoint: it has no file 'application', but "
            f"{', '.join(there[:3])}; put the file back, or start with an empty folder"
        )
