"""Functions of the user: sources compute them, as hidden columns, before matching."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from shedlight.errors import ApplicationError
from shedlight.graph.application import Application, OperatorSpec, Source, Stream
from shedlight.graph.file.problem import Problem, problem_at
from shedlight.language import Expression, Pattern, UserFunction
from shedlight.language.ast.expression import (
    FunctionValue,
    UserCall,
    function_values,
    transform,
)
from shedlight.language.ast.pattern import Element, Group, Not, Part, Repeat, expressions


def called_functions(patterns: Iterable[Pattern]) -> Mapping[str, UserCall]:
    """List what patterns need of functions of the user, by column, in the order to compute."""
    parts = (part for pattern in patterns for part in expressions(pattern))
    return _by_column(parts)


def _by_column(parts: Iterable[Expression]) -> dict[str, UserCall]:
    calls: dict[str, UserCall] = {}
    for value in (value for part in parts for value in function_values(part)):
        if calls.setdefault(value.column, value.call) != value.call:
            raise ApplicationError(
                f"two different functions are called as {value.call}; give one another name"
            )
    return calls


def with_function_columns(application: Application) -> Application:
    """Have sources compute what derived columns and the patterns that read them call.

    Patterns then have the names of functions alone: they travel to where these are not.
    """
    sources = {
        name: _with_calls(source, _reading_patterns(application, name))
        for name, source in application.sources.items()
    }
    operators = {
        name: replace(
            spec, patterns={n: without_functions(p) for n, p in spec.patterns.items()}
        )
        for name, spec in application.operators.items()
    }
    return replace(application, sources=sources, operators=operators)


def without_functions(pattern: Pattern) -> Pattern:
    """Keep of the functions that a pattern calls nothing but their names."""
    if not called_functions([pattern]):
        return pattern
    return replace(
        pattern,
        select=tuple(replace(i, expression=_named(i.expression)) for i in pattern.select),
        where=_named_part(pattern.where),
        conditions=tuple(map(_named, pattern.conditions)),
    )


def _named(expression: Expression) -> Expression:
    def change(node: Expression) -> Expression | None:
        if not isinstance(node, FunctionValue):
            return None
        call = node.call
        function = UserFunction(call.name, call.function.returns)
        arguments = tuple(map(_named, call.arguments))
        return replace(node, call=UserCall(call.name, function, arguments))

    return transform(expression, change)


def _named_part(part: Part) -> Part:
    match part:
        case Element():
            return _named_element(part)
        case Group():
            return replace(part, parts=tuple(map(_named_part, part.parts)))
        case Repeat():
            return replace(part, part=_named_part(part.part))
        case Not():
            return replace(part, element=_named_element(part.element))
    raise TypeError(f"not a part of a pattern: {part!r}")


def _named_element(element: Element) -> Element:
    return replace(element, condition=_named(element.condition))


def _reading_patterns(application: Application, source: str) -> Iterator[Pattern]:
    for spec in application.operators.values():
        if Stream(source) in spec.inputs:
            yield from spec.patterns.values()


def _with_calls(source: Source, patterns: Iterable[Pattern]) -> Source:
    columns: dict[str, Expression] = {}
    for name, expression in source.columns.items():
        columns |= {n: call for n, call in _by_column([expression]).items() if n not in columns}
        columns[name] = expression
    wanted = called_functions(patterns)
    columns |= {name: call for name, call in wanted.items() if name not in columns}
    return (
        source if columns.keys() == source.columns.keys() else replace(source, columns=columns)
    )


def function_problems(spec: OperatorSpec, stream: Stream) -> Iterator[Problem]:
    """Find functions that are called for complex events, which no source computes."""
    made = [read for read in spec.inputs if read.operator is not None]
    parts = expressions(spec.patterns[stream.name])
    called: list[FunctionValue] = [value for part in parts for value in function_values(part)]
    if made and called:
        text = called[0].call.name
        yield problem_at(
            ("operators", spec.name, "patterns", stream.name),
            f"calls {text}, which is computed for events of sources, and {spec.name} reads "
            f"{made[0]}",
            f"select it there, as in SELECT {text}(E1.x) AS {text}, and name it here",
        )


def application_functions(application: Application) -> Mapping[str, UserCall]:
    """Find a call of each function that an application names, by the function's name."""
    derived = (
        part for source in application.sources.values() for part in source.columns.values()
    )
    patterns = (p for spec in application.operators.values() for p in spec.patterns.values())
    calls = _by_column(derived) | dict(called_functions(patterns))
    return {call.name: call for call in calls.values()}
