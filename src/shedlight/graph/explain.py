"""What was understood of an application, for people: the output of `shedlight check`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from shedlight.errors import ApplicationError, CapError
from shedlight.graph import application as app
from shedlight.graph.application import Application, OperatorSpec, Sink, Source, Stream
from shedlight.graph.channels import format_data_rate, link_name
from shedlight.graph.index_notes import note_indexes
from shedlight.graph.shedding_notes import note_shedding
from shedlight.graph.topology import list_elements, operators_on
from shedlight.language import DataType, Pattern, Window
from shedlight.language.ast.expression import TRUE
from shedlight.language.ast.pattern import WindowUnit
from shedlight.matching.compile.nfa import build_automaton
from shedlight.matching.compile.predicates import Alphabet, build_alphabet

WIDTH = 96  # how wide a line may be; a single word may be wider
MAX_LISTED = 20  # how many types, columns, states or lines of a pattern are shown

Functions = Mapping[Stream, object]
"""The selectivity function of each pattern; `str()` writes it."""


def explain(
    application: Application,
    warnings: Sequence[str] = (),
    functions: Functions | None = None,
) -> str:
    """Describe a checked application: its sources, its graph, its patterns as automata.

    Args:
        application: The application.
        warnings: What in it cannot be what was meant.
        functions: How many matches patterns have per second, to be shown with each.

    Raises:
        ApplicationError: A pattern needs more states than there may be.
    """
    sections = (
        [_headline(application)],
        _sources(application),
        _graph(application),
        _sinks(application),
        _patterns(application, functions or {}),
        _warnings(warnings),
    )
    return "\n\n".join("\n".join(lines) for lines in sections)


def _headline(application: Application) -> str:
    patterns = sum(len(spec.patterns) for spec in application.operators.values())
    counts = {
        "source": len(application.sources),
        "node": len(application.nodes),
        "operator": len(application.operators),
        "pattern": patterns,
        "sink": len(application.sinks),
    }
    texts = (f"{count:,} {name}{'s' * (count != 1)}" for name, count in counts.items())
    return f"{application.name}: {', '.join(texts)}"


def _sources(application: Application) -> Iterator[str]:
    yield "sources"
    for source in application.sources.values():
        yield f"  {source.name}: {_location(source)}"
        yield from _table(_about_source(source), 4)


_Rows = Iterator[tuple[str, Iterable[str]]]


def _about_source(source: Source) -> _Rows:
    if source.options:  # only their names: a value may be a password
        yield "options", _list(source.options)
    if source.value is not None:
        yield "value", [f"{source.value.format};", "its fields are columns"]
    order = f"at most {Window(source.lateness)} late" if source.lateness else "in order"
    yield "time", [f"{source.time}, {_time_form(source)};", f"events come {order}"]
    if source.idle:
        yield "idle", [f"after {Window(source.idle)} without events it holds back no operator"]
    if source.arrival:
        yield "arrival", [f"{source.arrival} says when an event arrived"]
    yield "id", _list(source.id)
    if source.columns:
        derived = (f"{name} = {expression}" for name, expression in source.columns.items())
        yield "derived", _list(derived)
    if source.schema is None:
        yield "schema", ["not declared; read from the data"]
    else:
        yield "schema", _list(f"{name} {of}" for name, of in source.schema.items())
    for name, side in source.side_outputs.items():
        yield name, [f"goes to {_location(side)}"]


def _time_form(source: Source) -> str:
    data_type = source.schema.get(source.time) if source.schema else None
    zone = "" if source.time_zone is None else f" of {source.time_zone}"
    if data_type in {DataType.TIMESTAMP, DataType.DATE}:
        return f"a {data_type}{zone}"
    if data_type is DataType.STRING:
        return f"text in ISO-8601{zone}"
    unit = source.time_unit.name.lower()
    return f"in {unit}" if data_type else f"in {unit}, a timestamp or text{zone}"


def _location(part: Source | Sink | app.SideOutput) -> str:
    return f"{part.format} in {part.path}" if part.path else part.format


def _graph(application: Application) -> Iterator[str]:
    yield "graph"
    readers = _readers_by_stream(application)
    width = max(len(name) for spec in application.operators.values() for name in spec.patterns)
    for node in application.nodes.values():
        bound = "no bound, sheds nothing"
        if node.bound:
            time = Window(max(1, round(node.bound * 1e6)))
            bound = f"bound {time} {app.bound_kind(node.percentile)}"
        yield f"  node {node.name}: {bound}"
        specs = operators_on(application, node.name)
        if not specs:
            yield "    no operators"
        for spec in specs:
            yield from _row(f"    {spec.name} reads ", _list(map(str, spec.inputs)))
            for stream in spec.outputs:
                start = f"      {stream.name:{width}}  -> "
                yield from _row(start, _list(readers.get(stream, ())))

    channels = application.channels
    if channels is not None:
        yield f"  channels between nodes: {channels.format}, topics {channels.prefix}.*"
        for edge, capacity in channels.links.items():
            yield f"  link {link_name(edge)}: at most {format_data_rate(capacity)}"


def _readers_by_stream(application: Application) -> Mapping[Stream, Sequence[str]]:
    """Find where the events of each stream go: to operators, then to sinks."""
    readers: dict[Stream, list[str]] = {}
    for spec in application.operators.values():
        for stream in spec.inputs:
            readers.setdefault(stream, []).append(spec.name)
    for sink in application.sinks.values():
        what = "a sink of what timed out" if sink.timed_out else "a sink"
        readers.setdefault(sink.input, []).append(f"{sink.name} ({what})")
    return readers


def _sinks(application: Application) -> Iterator[str]:
    yield "sinks"
    rows = ((sink.name, _about_sink(sink)) for sink in application.sinks.values())
    yield from _table(rows, 2)


def _about_sink(sink: Sink) -> Iterator[str]:
    if sink.timed_out:
        yield f"takes what timed out of {sink.input},"
    else:
        yield from (f"takes {sink.input},", f"weight {sink.weight:g},")
    if sink.min_rate:
        yield f"at least {sink.min_rate:g}/s,"
    if sink.min_share:
        yield f"at least {100 * sink.min_share:g} % of all,"
    yield _location(sink)


def _patterns(application: Application, functions: Functions) -> Iterator[str]:
    yield "patterns"
    shedding, indexes = note_shedding(application), note_indexes(application)
    for number, spec in enumerate(application.operators.values()):
        if number:
            yield ""
        yield f"  operator {spec.name}"
        alphabet = build_alphabet(list_elements(spec))
        others = ("others", [_others(spec, alphabet)])
        yield from _table([*_about_types(alphabet), others, *_about_shedding(spec)], 4)
        for name, pattern in spec.patterns.items():
            yield from _row(f"    {name}: ", str(pattern).split(" "))
            function = functions.get(Stream(name, spec.name))
            if function is not None:
                yield from _row("      matches/s: ", str(function).split(" "))
            stream = Stream(name, spec.name)
            notes = {**shedding.get(stream, {}), **indexes.get(stream, {})}
            for label, note in notes.items():
                yield from _row(f"      {label}: ", note.split(" "))
            yield from (f"      {line}" for line in _automaton(spec, name, pattern))


def _about_types(alphabet: Alphabet) -> _Rows:
    if alphabet.closed:
        values = (f"{t.column}={value}" for t in alphabet.closed for value in t.values)
        yield "types", _list(values)
    if alphabet.open:
        yield "conditions", _list(map(str, alphabet.open))


def _about_shedding(spec: OperatorSpec) -> _Rows:
    if spec.never_shed:
        yield "never shed", _list(spec.never_shed)
    if spec.shed_by:
        what = {app.ShedBy.EVENT: "event", app.ShedBy.KEY: "key, with all of its events"}
        yield "shed by", [what[spec.shed_by]]


def _others(spec: OperatorSpec, alphabet: Alphabet) -> str:
    """Say what becomes of events that meet none of the conditions."""
    if any(element.condition == TRUE for element in list_elements(spec)):
        return "relevant too: a pattern has an element without a condition"
    if any(test.negated for test in alphabet.tests):
        return "relevant too: a pattern asks for any value but some"
    if any(p.within and p.within.unit is WindowUnit.EVENTS for p in spec.patterns.values()):
        return "counted by a window of events, else not relevant"
    return "relevant to no pattern; dropped at once"


def _automaton(spec: OperatorSpec, name: str, pattern: Pattern) -> Iterator[str]:
    try:
        automaton = build_automaton(pattern)
    except CapError as error:
        raise ApplicationError(f"operators.{spec.name}.patterns.{name}: {error}") from error
    lines = str(automaton).split("\n")
    yield from lines[:MAX_LISTED]
    if len(lines) > MAX_LISTED:
        yield f"... and {len(lines) - MAX_LISTED:,} more lines"
    if len(automaton.regions) > 1:
        yield "a match needs every region"


def _warnings(warnings: Sequence[str]) -> Iterator[str]:
    yield "warnings" if warnings else "no warnings"
    for warning in warnings:
        yield from (f"  {line}" for line in warning.split("\n"))


def _list(texts: Iterable[str]) -> list[str]:
    """Put commas between texts; of a long list give only the start."""
    remaining = iter(texts)
    shown = list(islice(remaining, MAX_LISTED))
    more = sum(1 for _ in remaining)
    return [f"{text}," for text in shown[:-1]] + (
        [f"{shown[-1]},", f"... and {more:,} more"] if more else shown[-1:]
    )


def _table(rows: Iterable[tuple[str, Iterable[str]]], margin: int) -> Iterator[str]:
    """Write labels and texts in two columns."""
    cells = list(rows)
    width = max((len(label) for label, _ in cells), default=0)
    for label, words in cells:
        yield from _row(f"{' ' * margin}{label:{width}}  ", words)


def _row(start: str, words: Iterable[str]) -> Iterator[str]:
    """Write words after a label, in lines that are not too wide; a word is never cut."""
    lines, line, margin = 0, start, " " * min(len(start), WIDTH // 2)
    for word in words:
        if len(line) + len(word) > WIDTH and line not in (start, margin):
            yield line.rstrip()
            lines, line = lines + 1, margin
            if lines > MAX_LISTED:
                yield f"{margin}... and more"
                return
        line += f"{word} "
    yield line.rstrip()
