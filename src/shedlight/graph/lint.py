"""What is allowed in an application but cannot be what was meant."""

from collections.abc import Iterator

from shedlight.errors import known_names
from shedlight.graph.application import Application, OperatorSpec
from shedlight.graph.file.problem import Problem, problem_at
from shedlight.language.ast.expression import conjuncts, without_variable
from shedlight.language.ast.pattern import Pattern, elements
from shedlight.matching.compile.predicates import value_test


def lint_application(application: Application) -> Iterator[Problem]:
    """List the warnings about an application whose references hold."""
    used_nodes = {spec.node for spec in application.operators.values()}
    for name in application.nodes:
        if name not in used_nodes:
            yield problem_at(("nodes", name), "has no operators")
    read = {stream for spec in application.operators.values() for stream in spec.inputs}
    read_sources = {stream.name for stream in read if stream.operator is None}
    for name in application.sources:
        if name not in read_sources:
            yield problem_at(("sources", name), "is read by no operator")
    for spec in application.operators.values():
        for name, pattern in spec.patterns.items():
            yield from _about_origin(spec, name, pattern)


def _about_origin(spec: OperatorSpec, name: str, pattern: Pattern) -> Iterator[Problem]:
    """Find tests of `source` for a pattern that is no input of the operator."""
    if any(stream.operator is None for stream in spec.inputs):
        return
    names = [stream.name for stream in spec.inputs]
    for element in elements(pattern.where):
        for condition in conjuncts(without_variable(element.condition)):
            test = value_test(condition)
            if test is None or test.column.path != ("source",):
                continue
            for value in sorted(set(map(str, test.values)) - set(names)):
                path = ("operators", spec.name, "patterns", name)
                problem = f"asks for source {value!r}, but no input of {spec.name} is called so"
                yield problem_at(path, problem, known_names(value, names))
