"""Checks between the parts of an application: references, names, keys, columns, constraints."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from shedlight.errors import known_names
from shedlight.graph import application as app
from shedlight.graph.application import Application, OperatorSpec, Sink, Source, Stream
from shedlight.graph.channels import Edge, channel_problems, link_name
from shedlight.graph.closures import find_closures
from shedlight.graph.column_types import data_type_problems, pattern_path
from shedlight.graph.file.problem import (
    Path,
    Problem,
    format_path,
    problem_at,
    raise_problems,
    shorten,
)
from shedlight.graph.function_columns import with_function_columns
from shedlight.graph.kafka import KAFKA, location_problems
from shedlight.graph.lint import lint_application
from shedlight.graph.shedding_notes import name_streams
from shedlight.graph.topology import find_cycle, list_elements
from shedlight.language import Pattern, Schema, UserFunctions
from shedlight.language.ast.expression import Aggregate, AggregateFunction, Attribute
from shedlight.language.ast.pattern import Item
from shedlight.matching.compile.type_labels import OTHER, build_vocabulary

FILE_FORMATS = frozenset({"avro", "csv", "delta", "json", "orc", "parquet", "text"})
"""The formats that need a path."""

_MAX_CYCLE_SHOWN = 12


def check_application(application: Application) -> tuple[str, ...]:
    """Check an application that was made in Python, and list its warnings.

    Raises:
        ApplicationError: The message has all that is wrong.
    """
    raise_problems(reference_problems(application))
    raise_problems(content_problems(application))
    return tuple(warning.message for warning in lint_application(application))


def with_schemas(application: Application, schemas: Mapping[str, Schema]) -> Application:
    """Give sources the schemas that their data turned out to have, and check once more.

    Schemas are by the name of the source, without its derived columns; a declared one stays.
    What patterns call of the user's functions becomes hidden columns of the sources.

    Raises:
        ApplicationError: A column is missing or has the wrong data type.
    """
    sources = {
        name: replace(source, schema=schemas.get(name)) if source.schema is None else source
        for name, source in application.sources.items()
    }
    application = with_function_columns(replace(application, sources=sources))
    raise_problems(data_type_problems(application))
    return application


def reference_problems(application: Application) -> Iterator[Problem]:
    """Find references that lead nowhere, and outputs that do."""
    yield from _path_problems(application)
    yield from _kafka_problems(application)
    wrong = False
    for problem in _wrong_references(application):
        wrong = True
        yield problem
    if not wrong:  # else a name that is wrong makes others look unused
        yield from _dangling_problems(application)


def content_problems(
    application: Application,
    texts: Mapping[Path, str] | None = None,
    functions: UserFunctions | None = None,
) -> Iterator[Problem]:
    """Find wrong keys, columns and constraints, where the references hold."""
    for spec in application.operators.values():
        yield from _inherited_key_problems(application, spec)
    wrong = False
    for problem in data_type_problems(application, texts, functions):
        wrong = True
        yield problem
    yield from _constraint_problems(application)
    if not wrong:  # else what a pattern watches is not known
        yield from _closure_problems(application)


def _wrong_references(application: Application) -> Iterator[Problem]:
    yield from _name_problems(application)
    known = frozenset(application.streams)
    for spec in application.operators.values():
        where: Path = ("operators", spec.name)
        if spec.node not in application.nodes:
            name = shorten(spec.node)
            hint = known_names(name, application.nodes)
            yield problem_at((*where, "node"), f"names the unknown node {name!r}", hint)
        for number, stream in enumerate(spec.inputs):
            if stream in spec.inputs[:number]:
                yield problem_at((*where, "input"), f"has {stream} twice", "leave one out")
            elif stream not in known:
                yield _unknown_stream(application, _input_path(spec, number), stream)
    for sink in application.sinks.values():
        if sink.input not in known or sink.input.operator is None:
            yield _not_for_sink(application, sink)
    yield from _cycle_problems(application)


def _input_path(spec: OperatorSpec, number: int) -> Path:
    only = len(spec.inputs) == 1
    return ("operators", spec.name, "input", *(() if only else (number,)))


def _unknown_stream(application: Application, path: Path, stream: Stream) -> Problem:
    """Say what else could have been meant: an operator's pattern, most often."""
    same = [s for s in application.streams if s.operator and s.name == stream.name]
    if stream.operator is None and stream.name in application.operators:
        outputs = ", ".join(map(str, application.operators[stream.name].outputs[:12]))
        hint = f"{stream.name} is an operator; name a pattern of it: {outputs}"
    elif same:
        hint = f"did you mean '{same[0]}'?"
    else:
        hint = known_names(shorten(str(stream)), map(str, application.streams))
    return problem_at(path, f"names the unknown input {shorten(str(stream))!r}", hint)


def _not_for_sink(application: Application, sink: Sink) -> Problem:
    path = ("sinks", sink.name, "input")
    if sink.input.operator is None and sink.input.name in application.sources:
        hint = "a sink takes the complex events of a pattern, written operator.pattern"
        return problem_at(path, f"is the source {sink.input.name!r}", hint)
    return _unknown_stream(application, path, sink.input)


def _name_problems(application: Application) -> Iterator[Problem]:
    """Find pattern names that differ in case alone, which not every system tells apart."""
    by_name: dict[str, Stream] = {}
    for spec in application.operators.values():
        for stream in spec.outputs:
            first = by_name.setdefault(stream.name.casefold(), stream)
            if first != stream:
                apart = "" if first.name == stream.name else " but for case"
                hint = "a pattern's name is unique in the application"
                problem = f"has the same name as {first}{apart}"
                yield problem_at(pattern_path(stream), problem, hint)


def _cycle_problems(application: Application) -> Iterator[Problem]:
    cycle = find_cycle(application)
    if cycle:
        path = ("operators", cycle[0], "input")
        names = cycle if len(cycle) <= _MAX_CYCLE_SHOWN else (*cycle[:5], "...", *cycle[-5:])
        problem = f"operators feed each other in a cycle: {' -> '.join(names)}"
        yield Problem(path, f"{problem}; take one of these inputs away")


def _dangling_problems(application: Application) -> Iterator[Problem]:
    inputs = (spec.inputs for spec in application.operators.values())
    used = {*chain.from_iterable(inputs), *(sink.input for sink in application.sinks.values())}
    for stream in application.streams:
        if stream.operator is not None and stream not in used:
            hint = f"name {stream} as an input of one, or leave the pattern out"
            yield problem_at(pattern_path(stream), "goes to no operator and no sink", hint)


_Location = Source | Sink | app.SideOutput


def _locations(application: Application) -> Iterator[tuple[Path, _Location]]:
    """List what reads or writes, with its path."""
    sources = application.sources
    yield from ((("sources", name), source) for name, source in sources.items())
    yield from ((("sinks", name), sink) for name, sink in application.sinks.items())
    for name, source in sources.items():
        for setting, side in source.side_outputs.items():
            yield ("sources", name, setting), side


def _kafka_problems(application: Application) -> Iterator[Problem]:
    for here, part in _locations(application):
        if part.format.lower() == KAFKA:
            reads = isinstance(part, Source)
            for problem in location_problems(part.path, part.options, reads=reads):
                yield problem_at(here, problem)
    if application.channels is not None:
        for problem in channel_problems(application.channels.options):
            yield problem_at(("channels",), problem)
        for edge in application.channels.links:
            yield from _link_problems(application, edge)


def _link_problems(application: Application, edge: Edge) -> Iterator[Problem]:
    """See that a link is there, and that its bytes can be shed where they come from."""
    path: Path = ("channels", "links", link_name(edge))
    nodes, specs = application.nodes, application.operators
    unknown = [name for name in edge if name not in nodes]
    for name in unknown:
        yield problem_at(path, f"names the unknown node {name!r}", known_names(name, nodes))
    if unknown:
        return
    start, end = edge
    edges = sorted(
        {
            (specs[stream.operator].node, spec.node)
            for spec in specs.values()
            for stream in spec.inputs
            if stream.operator is not None
            and stream.operator in specs
            and specs[stream.operator].node != spec.node
        }
    )
    if edge not in edges:
        problem = f"is no link, for {end} reads nothing that {start} finds"
        yield problem_at(path, problem, known_names(link_name(edge), map(link_name, edges)))
    elif nodes[start].bound is None:
        hint = "give it one, or leave the capacity out"
        yield problem_at(
            path, f"needs a bound at {start}, for without one nothing is shed", hint
        )


def _path_problems(application: Application) -> Iterator[Problem]:
    """Find formats of files without a path, and paths that are written to twice."""
    taken: dict[str, str] = {}
    for here, part in _locations(application):
        if part.path is None and part.format.lower() in FILE_FORMATS:
            problem = f"has no 'path', which the format {part.format} needs"
            yield problem_at(here, f"{problem}: where the files are")
        if part.path is None:
            continue
        if not isinstance(part, Source) and part.path in taken:
            problem = f"writes to {shorten(part.path)!r}, which is the path of"
            hint = "give it a path of its own"
            path = (*here, "path")
            yield Problem(path, f"{format_path(here)} {problem} {taken[part.path]}; {hint}")
        taken.setdefault(part.path, format_path(here))


def _inherited_key_problems(application: Application, spec: OperatorSpec) -> Iterator[Problem]:
    """See that complex events that stay on a node have the key of their events."""
    for number, stream in enumerate(spec.inputs):
        if stream.operator is None or application.operators[stream.operator].node != spec.node:
            continue
        pattern = application.pattern(stream)
        for key in pattern.partition_by:
            if not _selects(pattern, key):
                problem = f"is {stream}, which does not select its key {key}"
                hint = f"select it, as in SELECT E1.{key}, or put {spec.name} on another node"
                yield problem_at(_input_path(spec, number), problem, hint)


def _selects(pattern: Pattern, key: Attribute) -> bool:
    """Whether a complex event has the key of its events, under the same name."""
    if pattern.each and not pattern.select:
        return True
    return len(key.path) == 1 and any(_is_key(item, key) for item in pattern.select)


def _is_key(item: Item, key: Attribute) -> bool:
    value = item.expression
    if not isinstance(value, Attribute | Aggregate):
        return False
    changed = isinstance(value, Aggregate) and value.function in _NOT_OF_KEY
    return value.path == key.path and item.name == key.column and not changed


_NOT_OF_KEY = {AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG}


def _constraint_problems(application: Application) -> Iterator[Problem]:
    """Find constraints on unknown types, and keys or windows that a pattern lacks."""
    for spec in application.operators.values():
        if spec.never_shed:
            yield from _label_problems(spec)
        if spec.shed_by is app.ShedBy.KEY:
            yield from _shed_by_problems(spec)
    for sink in application.sinks.values():
        if sink.timed_out and application.pattern(sink.input).within is None:
            problem = f"asks for what timed out, but {sink.input} has no WITHIN"
            hint = "add one, or leave the sink out"
            yield problem_at(("sinks", sink.name, "timed_out"), problem, hint)


def _label_problems(spec: OperatorSpec) -> Iterator[Problem]:
    words = build_vocabulary(list_elements(spec))
    path: Path = ("operators", spec.name, "never_shed")
    for number, label in enumerate(spec.never_shed):
        if words.parse(label) is None:
            here = path if len(spec.never_shed) == 1 else (*path, number)
            hint = known_names(shorten(label), [*words.words, OTHER])
            yield problem_at(here, f"names the unknown type {shorten(label)!r}", hint)


def _shed_by_problems(spec: OperatorSpec) -> Iterator[Problem]:
    for name, pattern in spec.patterns.items():
        if not pattern.partition_by:
            problem = f"is 'key', but {name} has no PARTITION BY"
            path = ("operators", spec.name, "shed_by")
            yield problem_at(path, problem, "add one, or write 'event'")


def _closure_problems(application: Application) -> Iterator[Problem]:
    """Find patterns that are to be shed by a key which what they watch does not have."""
    asked = [s for s in application.operators.values() if s.shed_by is app.ShedBy.KEY]
    closures = find_closures(application).by_watcher if asked else {}
    for stream, closure in closures.items():
        spec = application.operators[str(stream.operator)]
        if spec not in asked or closure.by_key or not spec.patterns[stream.name].partition_by:
            continue
        problem = f"is 'key', but {stream.name} watches {name_streams(closure.watched)}, and"
        hint = "partition and shed all that it watches by the same key"
        if closure.horizon is None:
            hint = "give the patterns that it watches windows of time"
        yield problem_at(
            ("operators", spec.name, "shed_by"),
            f"{problem} {closure.no_key}",
            f"{hint}, or leave shed_by out: then {stream.name} is kept whole or switched off",
        )
