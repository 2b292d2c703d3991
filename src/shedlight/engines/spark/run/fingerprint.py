"""The fingerprint of an application in a checkpoint: the application as the checkpoint began.

Matching cannot go on from partial matches of another pattern, nor be right if half of the
matches are of one application and half of another. So an application that was changed is
rejected, and the message says what is different.
"""

import json
import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from shedlight.engines.spark.support.atomic_file import write_atomically
from shedlight.engines.spark.support.checkpoint import LOCK
from shedlight.errors import StateError
from shedlight.graph import Application, OperatorSpec, Source, Stream
from shedlight.graph.application import DATAFRAME
from shedlight.graph.kafka import given_subscriptions

_LOG = logging.getLogger(__name__)

VERSION = 9  # of the folders and files of a checkpoint, and of the hashes in its states


def fingerprint_lines(
    application: Application, shards: int, shedding: Iterable[Stream] = ()
) -> tuple[str, ...]:
    """Describe all that the matches of an application depend on.

    Which patterns may shed belongs to it, and which share of the keys never is: buffered events
    carry who keeps them.
    """
    may = ", ".join(sorted(map(str, shedding))) or "none"
    share = application.unshed_sample if may != "none" else 0.0
    return (
        *_lines(application, shards),
        f"patterns that may shed: {may}",
        f"unshed sample: {share:g}",
    )


def choose_shards(file: Path, asked: int | None, cores: int) -> int:
    """Say into how many shards keys are divided: as many as asked for, or else as cores.

    A checkpoint keeps the number that it began with: keys would else be in other shards than
    their partial matches. Another number that is asked for is rejected with the fingerprint.
    """
    if asked is not None:
        return asked
    before = _recorded(file)
    if before is None:
        return cores
    kept = next(int(n[1]) for n in map(_SHARDS.fullmatch, before) if n)
    if kept != cores:
        _LOG.warning(
            "the checkpoint %s goes on with %d shards, as it began; there are %d cores, for "
            "which it takes a new checkpoint",
            file.parent,
            kept,
            cores,
        )
    return kept


_SHARDS = re.compile(r"shards: (\d+)")


def _lines(application: Application, shards: int) -> Iterator[str]:
    yield f"shards: {shards}"
    for source in application.sources.values():
        yield from _source_lines(source)
    for spec in application.operators.values():
        yield from _operator_lines(spec)
    for name, sink in application.sinks.items():
        what = "timed-out partial matches of " if sink.timed_out else ""
        yield f"sinks.{name}: {what}{sink.input}"


def _source_lines(source: Source) -> Iterator[str]:
    where = f"sources.{source.name}"
    is_given = source.format == DATAFRAME
    yield f"{where}: {'a DataFrame' if is_given else f'{source.format} {source.path}'}"
    zone = "" if source.time_zone is None else f" {source.time_zone}"
    yield f"{where}.time: {source.time} in {source.time_unit}{zone}, lateness {source.lateness}"
    yield f"{where}.id: {', '.join(source.id)}"
    if source.is_kafka:
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


def check_fingerprint(file: Path, lines: tuple[str, ...]) -> None:
    """Write the fingerprint of a new checkpoint, or compare with that of an old one."""
    before = _recorded(file)
    if before is None:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps({"version": VERSION, "lines": lines}, indent=1))
    elif before != lines:
        gone = [f"  before: {line}" for line in before if line not in lines]
        new = [f"  now:    {line}" for line in lines if line not in before]
        changes = "\n".join(gone + new) or "  the order of its parts"
        raise StateError(
            f"the checkpoint {file.parent} is of another application:\n{changes}\n"
            "go on with the application as it was, or start with a new checkpoint"
        )


def _recorded(file: Path) -> tuple[str, ...] | None:
    try:
        row = json.loads(file.read_text())
        if row["version"] != VERSION:
            raise StateError(
                f"the checkpoint {file.parent} is of version {row['version']}, and this is "
                f"version {VERSION}; start with a new checkpoint"
            )
        return tuple(map(str, row["lines"]))
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
