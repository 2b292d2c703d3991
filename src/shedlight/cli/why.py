"""`shedlight why`: why a pattern did not match, from files of events."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from shedlight.cli.console import announce_compiling, say
from shedlight.cli.future_events import FutureCounts
from shedlight.cli.malformed import MalformedRecords
from shedlight.cli.options import (
    ROW,
    Ids,
    Inputs,
    Json,
    Lateness,
    TimeColumn,
    TimeUnitOption,
    TimeZone,
    check_zone,
    microseconds_of,
    time_of,
)
from shedlight.cli.source_files import read_sources
from shedlight.engines import event_files
from shedlight.engines.tables import prepare_operator, prepare_source
from shedlight.engines.time_jumps import leave_out_future
from shedlight.errors import InputError, known_names
from shedlight.graph import Application, Source, Stream, TimeUnit
from shedlight.language import parse_pattern
from shedlight.language.ast.pattern import WindowUnit
from shedlight.language.ast.window import UNITS
from shedlight.matching.operators.cep_operator import CepOperator, build_operator, schema_of
from shedlight.why.explain import WhyQuestion, explain
from shedlight.why.judged_events import ShedRows
from shedlight.why.words import WhySettings, answer_lines, answer_value

_AROUND = UNITS["min"]  # how far around a time is looked without a window of time


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A pattern, its operator, and the events of its inputs."""

    name: str
    operator: CepOperator
    tables: list[pa.Table]
    settings: WhySettings
    # what a run shed of them, by the number of the input
    shed: Mapping[int, ShedRows] = field(default_factory=dict)

    @property
    def around(self) -> int:
        """How far around a time is looked: one window, if it is one of time."""
        matchers = self.operator.matchers
        window = next(each.pattern.within for each in matchers if each.name == self.name)
        is_time = window is not None and window.unit is WindowUnit.TIME
        return window.length if window is not None and is_time else _AROUND


def why(  # noqa: PLR0913  # one argument per option
    application: Annotated[
        Path | None, typer.Argument(help="An application file (YAML), or give a pattern.")
    ] = None,
    *,
    pattern: Annotated[
        str | None,
        typer.Option(
            help="The name of a pattern of the application; without one, the text of a pattern."
        ),
    ] = None,
    event: Annotated[
        str | None, typer.Option(help="Ask about this event: its id, VALUE,VALUE,...")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Ask about this key, as PARTITION BY has it: VALUE,VALUE,..."),
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="Ask about this time, and one window around it.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Ask about events from this time on.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="... up to this time.")] = None,
    input_: Inputs = None,
    time_column: TimeColumn = "time",
    time_unit: TimeUnitOption = TimeUnit.MICROSECONDS,
    time_zone: TimeZone = None,
    id_: Ids = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="The folder of a run's state, such as state/NAME: the answer then says "
            "which of these events it shed, and by which plan."
        ),
    ] = None,
    lateness: Lateness = "0 s",
    limit: Annotated[int, typer.Option(min=1, help="Print at most so many candidates.")] = 3,
    as_json: Json = False,
) -> None:
    """Say why a pattern did not match: the nearest candidates, and what stopped them.

    Ask about an event, a key, a time, or several of them together.
    """
    if application is None:
        if pattern is None or len(input_ or []) != 1:
            raise typer.BadParameter(
                "give an application file, or --pattern TEXT and one --input FILE"
            )
        source = Source(
            name=(input_ or [""])[0],
            time=time_column,
            time_unit=time_unit,
            time_zone=check_zone(time_zone),
            id=_split(id_) if id_ else (ROW,),
            lateness=microseconds_of("--lateness", lateness),
        )
        if checkpoint is not None:
            raise typer.BadParameter("--checkpoint needs the application file of the run")
        asked = _ask_pattern(pattern, source)
    else:
        asked = _ask_application(application, pattern, input_ or [], checkpoint)
    question = _question(event, key, (at, since, until), time_zone, asked.around)
    answer = explain(asked.operator, asked.name, asked.tables, question, asked.shed)
    if as_json:
        print(json.dumps(answer_value(answer, asked.settings, limit), indent=2))
        return
    for line in answer_lines(answer, asked.settings, limit):
        print(line)


def _split(text: str) -> tuple[str, ...]:
    return tuple(value.strip() for value in text.split(","))


def _question(
    event: str | None,
    key: str | None,
    times: tuple[str | None, str | None, str | None],
    zone: str | None,
    around: int,
) -> WhyQuestion:
    at, since, until = (
        None if text is None else time_of(option, text, zone)
        for option, text in zip(("--at", "--since", "--until"), times, strict=True)
    )
    if (event, key, at, since, until) == (None,) * 5:
        raise typer.BadParameter("say what to ask about: --event, --key, --at or --since")
    if at is not None and (since is not None or until is not None):
        raise typer.BadParameter("give --at, or --since and --until, one of the two")
    if at is not None:
        since, until = at - around, at + around
    return WhyQuestion(
        event=None if event is None else _split(event),
        key=None if key is None else _split(key),
        since=since,
        until=until,
    )


def _ask_pattern(text: str, source: Source) -> _Asked:
    """Ask about a pattern over a file."""
    path = Path(source.name)
    future = FutureCounts()
    events = event_files.read_events(path, times_as_text=source.time_zone is not None)
    if source.id == (ROW,):
        events = event_files.add_row_numbers(events, ROW)
    events = leave_out_future(source, events, time.time_ns() // 1000, future.add)
    future.report("put their times right")
    stream, table = prepare_source(source, events)
    parsed = parse_pattern(text, schema_of(events.schema))
    for warning in parsed.warnings:
        say(f"warning: {warning}")
    announce_compiling([parsed.pattern])
    operator = build_operator([(stream, table.schema)], {"P1": parsed.pattern})
    settings = WhySettings("P1", operator.ids, (source.lateness,), "--lateness", "--id")
    return _Asked("P1", operator, [table], settings)


def _ask_application(
    path: Path, name: str | None, inputs: list[str], checkpoint: str | None
) -> _Asked:
    """Ask about a pattern of an application."""
    from shedlight.graph import load_application  # noqa: PLC0415  # it reads YAML

    application = load_application(path).application
    operators = _operators_of(application)
    if name is None and len(operators) == 1:
        name = next(iter(operators))
    if name is None or name not in operators:
        what = "has several patterns" if name is None else f"has no pattern {name!r}"
        raise InputError(
            f"{path} {what}; give --pattern NAME; {known_names(name or '', operators)}"
        )
    left_out, future = MalformedRecords(), FutureCounts()
    tables = read_sources(
        application, path.parent, inputs, on_malformed=left_out.add, on_future=future.add
    )
    spec = application.operators[operators[name]]
    announce_compiling([spec.patterns[name]])
    operator, events = prepare_operator(application, tables, spec.name, left_out.add)
    left_out.report(None)
    future.report("allow for more by `max_jump` of the source")
    lateness = tuple(stream.lateness for stream in operator.inputs)
    settings = WhySettings(name, operator.ids, lateness)
    shed: Mapping[int, ShedRows] = {}
    if checkpoint is not None:
        stream = Stream(name, spec.name)
        shed = _shed(path, application, stream, checkpoint, (operator, events))
    return _Asked(name, operator, events, settings, shed)


def _shed(
    path: Path,
    application: Application,
    stream: Stream,
    checkpoint: str,
    matched: tuple[CepOperator, list[pa.Table]],
) -> Mapping[int, ShedRows]:
    """Say what a run shed of the events of an operator."""
    from shedlight.cli.run_state import open_run_state  # noqa: PLC0415  # only of a run
    from shedlight.why.run_record import shed_rows  # noqa: PLC0415

    paths = open_run_state(checkpoint, path.parent, application)
    return shed_rows(application, paths, stream, *matched)


def _operators_of(application: Application) -> Mapping[str, str]:
    """Say of which operator each pattern is."""
    return {
        pattern: spec.name
        for spec in application.operators.values()
        for pattern in spec.patterns
    }
