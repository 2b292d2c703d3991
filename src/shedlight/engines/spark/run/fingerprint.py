"""What a checkpoint says of its application: its fingerprint, the application, its versions.

Matching cannot go on from partial matches of another pattern, nor be right if half of the
matches are of one application and half of another. So an application that was changed is
noticed, and either the run goes on with what is unchanged (`change.py`), or the message says
what is different. Into how many shards keys are divided stands in the same file, and may change
(`divide.py`).
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shedlight.engines.spark.run.sharding import Sharding, from_json, to_json
from shedlight.engines.spark.support.checkpoint import LOCK
from shedlight.engines.spark.support.storage import StoredPath, create_file, replace_file
from shedlight.engines.spark.support.versions import (
    Versions,
    versions_from_json,
    versions_to_json,
)
from shedlight.errors import StateError
from shedlight.graph import Application, OperatorSpec, Source, Stream
from shedlight.graph.application import DATAFRAME, parse_stream
from shedlight.graph.file.serialize import application_text
from shedlight.graph.kafka import given_subscriptions
from shedlight.language.ast.expression import UserCall, walk
from shedlight.shedding.shares import PatternShares, Shares

Lines = tuple[str, ...]
VERSION = 11  # of the folders and files of a checkpoint, and of the hashes in its states


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """What is on record of the application of a checkpoint."""

    lines: tuple[str, ...]  # its fingerprint
    sharding: Sharding
    application: Mapping[str, Any] = field(default_factory=dict)  # as `describe` gives it
    versions: Versions = field(default_factory=Versions)
    sinks: Mapping[str, float] = field(default_factory=dict)  # when those came that came later
    changes: tuple[Mapping[str, Any], ...] = ()  # what was before each change, and until when


class ApplicationChangedError(StateError):
    """The checkpoint is of another application."""

    def __init__(
        self, file: StoredPath, record: CheckpointRecord, application: Application, lines: Lines
    ) -> None:
        self.record, self.application, self.lines = record, application, lines
        self.checkpoint = file.parent
        super().__init__(
            f"the checkpoint {file.parent} is of another application:\n"
            f"{describe_changes(record.lines, lines)}\n"
            "go on with the application as it was, or start with a new checkpoint"
        )


def describe(application: Application, lines: Lines) -> Mapping[str, Any]:
    """Write down an application, so that what it began can be brought to its end."""
    sinks = application.sinks.items()
    places = {
        name: {"format": sink.format, "path": sink.path, "options": dict(sink.options)}
        for name, sink in sinks
    }
    text = json.loads(application_text(application))
    if "functions" in text:
        text["functions"] |= _functions(application)
    return {
        "lines": list(lines),
        "application": text,
        "sinks": places,
        "unshed_sample": application.unshed_sample,
    }


def _functions(application: Application) -> dict[str, dict[str, str]]:
    """Say where the functions are that sources compute, as far as they can be imported."""
    derived = (
        part for source in application.sources.values() for part in source.columns.values()
    )
    calls = (node for part in derived for node in walk(part) if isinstance(node, UserCall))
    found = {call.name: call.function for call in calls}
    return {
        name: {**place, "returns": str(function.returns)}
        for name, function in found.items()
        if (place := _place_of(function.call))
    }


def _place_of(function: Callable[..., Any] | str) -> dict[str, str]:
    if isinstance(function, str):
        return {"spark": function}
    module, name = (getattr(function, each, "") for each in ("__module__", "__name__"))
    is_there = getattr(sys.modules.get(module), name, None) is function
    return {"python": f"{module}:{name}"} if is_there and module != "__main__" else {}


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
        f"{_MAY_SHED}{may}",
        f"unshed sample: {share:g}",
    )


_MAY_SHED = "patterns that may shed: "


def recorded_shares(lines: Lines, shares: Shares, others: Shares) -> Shares:
    """Give shares of the patterns that might shed when lines were written, and of no others.

    What is not in `shares` is taken from others, or keeps everything.
    """
    texts = (line.removeprefix(_MAY_SHED) for line in lines if line.startswith(_MAY_SHED))
    names = [name for text in texts for name in text.split(", ") if name != "none"]
    everything = PatternShares({})
    return {
        stream: shares.get(stream, others.get(stream, everything))
        for stream in map(parse_stream, names)
    }


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


def check_fingerprint(
    file: StoredPath,
    lines: Lines,
    sharding: Sharding,
    application: Application,
) -> CheckpointRecord:
    """Write the record of a new checkpoint, or compare with that of an old one.

    What may be another without a change, such as where sinks are, is noted as it is now.

    Raises:
        ApplicationChangedError: It is of another application.
    """
    record, described = read_record(file), describe(application, lines)
    if record is None:
        file.parent.mkdir(parents=True, exist_ok=True)
        record = CheckpointRecord(lines=lines, sharding=sharding, application=described)
        create_file(file, _content(record))
    elif record.lines != lines:
        raise ApplicationChangedError(file, record, application, lines)
    elif record.application != described:
        record = replace(record, application=described)
        write_record(file, record)
    return record


def recorded_sharding(file: StoredPath) -> Sharding | None:
    """Read into how many shards a checkpoint divides keys; None: it is a new one."""
    record = read_record(file)
    return None if record is None else record.sharding


def record_sharding(file: StoredPath, sharding: Sharding) -> None:
    """Have a checkpoint divide keys into other shards from now on."""
    record = read_record(file)
    if record is None:
        raise RuntimeError(f"{file} is not there yet")
    write_record(file, replace(record, sharding=sharding))


def write_record(file: StoredPath, record: CheckpointRecord) -> None:
    """Have a checkpoint be of an application."""
    replace_file(file, _content(record))


def _content(record: CheckpointRecord) -> str:
    content = {
        "version": VERSION,
        "sharding": to_json(record.sharding),
        "lines": record.lines,
        "application": record.application,
        "versions": versions_to_json(record.versions),
        "sinks": record.sinks,
        "changes": record.changes,
    }
    return json.dumps(content, indent=1)


def check_patterns(file: StoredPath, application: Application) -> None:
    """See that a checkpoint is of an application with these operators and patterns.

    Raises:
        StateError: It is of others, or no checkpoint.
    """
    now = [line for spec in application.operators.values() for line in _operator_lines(spec)]
    record = read_record(file)
    lines = now if record is None else record.lines
    before = [line for line in lines if line.startswith("operators.")]
    if before != now:
        raise StateError(
            f"the run in {file.parent} was of other patterns:\n"
            f"{describe_changes(before, now)}\ngive the application file as it was then"
        )


def describe_changes(before: Sequence[str], now: Sequence[str]) -> str:
    """Say which lines of a fingerprint are others."""
    gone = [f"  before: {line}" for line in before if line not in now]
    new = [f"  now:    {line}" for line in now if line not in before]
    return "\n".join(gone + new) or "  the order of its parts"


def read_record(file: StoredPath) -> CheckpointRecord | None:
    """Read what a checkpoint says of its application; None: it is a new one.

    Raises:
        StateError: It is damaged, or no checkpoint.
    """
    try:
        row = json.loads(file.read_text())
        if row["version"] != VERSION:
            raise StateError(
                f"the checkpoint {file.parent} is of version {row['version']}, and this is "
                f"version {VERSION}; start with a new checkpoint"
            )
        return CheckpointRecord(
            lines=tuple(map(str, row["lines"])),
            sharding=from_json(row["sharding"]),
            application=row["application"],
            versions=versions_from_json(row["versions"]),
            sinks=row["sinks"],
            changes=tuple(row["changes"]),
        )
    except FileNotFoundError:
        _check_new(file.parent)
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"{file} is damaged ({error}); put it back as it was, or start with a new "
            "checkpoint"
        ) from error


def _check_new(checkpoint: StoredPath) -> None:
    """See that a folder without a fingerprint has nothing else in it."""
    there = sorted(path.name for path in checkpoint.glob("[!.]*") if path.name != LOCK)
    if there:
        raise StateError(
            f"{checkpoint} is no checkpoint: it has no file 'application', but "
            f"{', '.join(there[:3])}; put the file back, or start with an empty folder"
        )
