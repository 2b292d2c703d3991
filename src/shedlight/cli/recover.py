"""`shedlight recover`: what shedding lost, found in the stored events of a run."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from shedlight.cli.console import say
from shedlight.cli.future_events import FutureCounts
from shedlight.cli.malformed import MalformedRecords
from shedlight.cli.options import ApplicationFile, Json, check_zone, time_of
from shedlight.cli.run_state import open_run_state
from shedlight.cli.source_files import with_absolute_paths
from shedlight.cli.stored_events import StoredEvents
from shedlight.engines.event_files import format_of, write_events
from shedlight.engines.recovery import Recovery, TimeRange, find_missed
from shedlight.engines.spark.run.fingerprint import read_record
from shedlight.engines.spark.run.outbox_readers import find_unread, outbox_readers
from shedlight.engines.spark.support.checkpoint import is_in_use, last_micro_batches
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.delivered import delivered_ids
from shedlight.engines.spark.support.shed_record import FirstShed, first_shed, read_until
from shedlight.errors import InputError, StateError, known_names
from shedlight.graph import Application
from shedlight.text_table import align_columns
from shedlight.why.words import write_time

_FORMAT = ".parquet"  # of the files in a folder
_DELIVERY_S = 10.0
"""How long a run may take to deliver what it has found by now."""


def recover(  # noqa: PLR0913  # one argument per option
    application: ApplicationFile,
    *,
    output: Annotated[
        Path,
        typer.Option(
            help="Where to write what was missed: a file (.parquet, .csv, .jsonl) for one "
            "sink, or a folder, which gets a Parquet file for each sink."
        ),
    ],
    since: Annotated[
        str | None,
        typer.Option(help="Recover complex events from this time on.  [default: all]"),
    ] = None,
    until: Annotated[str | None, typer.Option(help="... up to this time.")] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(help="Of times that have none, such as Europe/Berlin.  [default: UTC]"),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="The folder of the run's state.  "
            "[default: state/NAME where the application file is]"
        ),
    ] = None,
    sink: Annotated[
        list[str] | None,
        typer.Option(help="A sink to recover for; may be repeated.  [default: all]"),
    ] = None,
    delivered: Annotated[
        list[str] | None,
        typer.Option(
            help="What a sink has got, SINK=FILE or SINK=FOLDER, with a column `id`; for sinks "
            "that are no files here.  [default: the paths of the application]"
        ),
    ] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            help="The stored events of a source, NAME=FILE.  "
            "[default: the paths of the application]",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the complex events that a run missed because it shed.

    The stored events are matched again without shedding, and what the sinks have got is left
    out, by id.
    """
    from shedlight.graph import load_application  # noqa: PLC0415  # it reads YAML

    zone = check_zone(time_zone)
    stretch = TimeRange(
        None if since is None else time_of("--since", since, zone),
        None if until is None else time_of("--until", until, zone),
    )
    loaded = with_absolute_paths(load_application(application).application, application)
    names = _chosen(loaded, sink or [])
    places = _places(output, names)
    own = application.parent / "state" / loaded.name
    run = _Run(loaded, open_run_state(checkpoint, own, loaded), stretch)
    shed = run.check()
    ids = _delivered(run, names, delivered or [])
    left_out, future = MalformedRecords(), FutureCounts()
    stored = StoredEvents(loaded, application.parent, input_ or [], stretch.until)
    found = find_missed(loaded, stored.match(run.began, left_out, future), ids, stretch)
    left_out.report(None)
    future.report("allow for more by `max_jump` of the source")
    for name, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        write_events(found[name].missed, place)
    if as_json:
        print(json.dumps(_summary(run, shed, found, places), indent=2))
        return
    for line in _lines(run, shed, found, places):
        print(line)


@dataclass(frozen=True, slots=True)
class _Run:
    """A run, and the stretch of it that is asked about."""

    application: Application
    paths: CheckpointPaths
    stretch: TimeRange

    @property
    def began(self) -> Mapping[str, int]:
        """From when on patterns have seen events that came with a change, by name."""
        record = read_record(self.paths.fingerprint)
        if record is None:
            return {}
        return {stream.name: each.time for stream, each in record.versions.patterns.items()}

    def check(self) -> list[FirstShed]:
        """See that what is recovered is not delivered later; say since when nodes shed."""
        nodes = list(self.application.nodes)
        read = read_until(self.paths, self.application, nodes)
        until = math.inf if self.stretch.until is None else self.stretch.until
        if read is None or until >= read:
            self._check_open_end(read)
        self._check_undelivered()
        return first_shed(self.paths, nodes)

    def _check_undelivered(self) -> None:
        """Say what it means that something found is not delivered yet."""
        record = read_record(self.paths.fingerprint)
        if record is None:
            return
        is_running = is_in_use(self.paths.root)
        chains = record.sharding.chains(self.application)
        readers = outbox_readers(self.application, chains, self.paths, {})
        unread = find_unread(self.paths, readers, _DELIVERY_S if is_running else 0.0)
        if not unread:
            return
        what = f"what was found at {' and '.join(unread)} is not all delivered yet"
        if is_running:
            raise StateError(
                f"{what}, and the run goes on: it would deliver what is recovered now once "
                "more; try again when its sinks have got it, or stop it first"
            )
        say(
            f"{what}: it is among what is recovered, and the run, if it goes on from its "
            "checkpoint, delivers it with the same ids"
        )

    def _check_open_end(self, read: int | None) -> None:
        """Say what it means that the run may not be through with the stretch."""
        where = (
            "how far the run has read its sources is not on record"
            if read is None
            else f"the run has read its sources up to {write_time(read)}, less their lateness"
        )
        if is_in_use(self.paths.root):
            way = "" if read is None else "; give an earlier --until"
            raise StateError(
                f"{where}, and it goes on: what is recovered now it may deliver later{way}, or "
                "stop it first"
            )
        say(
            f"{where}; if it goes on from its checkpoint, it may deliver what is later than "
            "that itself, with the same ids"
        )


def _chosen(application: Application, asked: Sequence[str]) -> list[str]:
    for name in asked:
        if name not in application.sinks:
            raise InputError(
                f"there is no sink {name!r}; {known_names(name, application.sinks)}"
            )
    return list(dict.fromkeys(asked)) or list(application.sinks)


def _places(output: Path, names: Sequence[str]) -> Mapping[str, Path]:
    """Say where what each sink missed is written."""
    if not output.suffix:
        return {name: output / f"{name}{_FORMAT}" for name in names}
    format_of(output)
    if len(names) > 1:
        raise InputError(
            f"--output {output} is one file, and there are the sinks {', '.join(names)}; name "
            "a folder, or one of them by --sink"
        )
    return {names[0]: output}


def _delivered(run: _Run, names: Iterable[str], given: Iterable[str]) -> Mapping[str, pa.Array]:
    """Read the ids that sinks have got."""
    application = run.application
    places: dict[str, Path] = {}
    for text in given:
        name, equals, place = text.partition("=")
        if not equals or name not in application.sinks:
            raise InputError(
                f"--delivered {text!r} does not say of which sink it is; write SINK=FILE; "
                f"{known_names(name, application.sinks)}"
            )
        if not Path(place).exists():
            raise InputError(f"--delivered {text}: there is no such file or folder")
        places[name] = Path(place)
    return {
        name: delivered_ids(
            application.sinks[name],
            places.get(name),
            has_some=last_micro_batches(run.paths.delivery(name))[1] >= 0,
        )
        for name in names
    }


def _summary(
    run: _Run,
    shed: Iterable[FirstShed],
    found: Mapping[str, Recovery],
    places: Mapping[str, Path],
) -> dict[str, Any]:
    return {
        "from": "the beginning of the stored events",
        "since": run.stretch.since,
        "until": run.stretch.until,
        "first_shed": {
            each.node: {"micro_batch": each.batch, "time": each.time} for each in shed
        },
        "sinks": {
            name: {
                "matches": each.matches,
                "delivered": each.delivered,
                "recovered": len(each.missed),
                "output": str(places[name]),
            }
            for name, each in found.items()
        },
    }


def _lines(
    run: _Run,
    shed: Sequence[FirstShed],
    found: Mapping[str, Recovery],
    places: Mapping[str, Path],
) -> Iterable[str]:
    yield "matched again without shedding, from the beginning of the stored events"
    for each in shed:
        earlier = "" if each.is_first else "; what was before is not on record any more"
        yield (
            f"node {each.node} has shed since micro-batch {each.batch:,}, "
            f"{write_time(round(each.time * 1e6))}{earlier}"
        )
    if not shed:
        yield f"nothing was shed, as far as {run.paths.root} has it on record"
    rows = [
        [name, f"{one.matches:,}", f"{one.delivered:,}", f"{len(one.missed):,}"]
        for name, one in found.items()
    ]
    header = ["sink", "matches", "delivered", "recovered"]
    for line, place in zip(
        align_columns([header, *rows]), [None, *places.values()], strict=True
    ):
        yield line if place is None else f"{line} -> {place}"
