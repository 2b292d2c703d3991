"""Whether wishes can be met: types never to be shed, whole keys, what timed out."""

from collections.abc import Iterator

from shedlight.errors import known_names
from shedlight.graph.application import Application, OperatorSpec, ShedBy
from shedlight.graph.file.problem import Path, Problem, dotted, shortened
from shedlight.language.ast.pattern import elements
from shedlight.matching.compile.type_labels import OTHER, build_vocabulary


def constraint_problems(application: Application) -> Iterator[Problem]:
    """Find types that there are not, and keys or windows where a pattern has none."""
    for spec in application.operators.values():
        if spec.never_shed:
            yield from _label_problems(spec)
        if spec.shed_by is ShedBy.KEY:
            yield from _key_problems(spec)
    for sink in application.sinks.values():
        if sink.timed_out and application.pattern(sink.input).within is None:
            here = ("sinks", sink.name, "timed_out")
            problem = f"{dotted(here)} asks for what timed out, but {sink.input} has no WITHIN"
            yield Problem(here, f"{problem}; add one, or leave the sink out")


def _label_problems(spec: OperatorSpec) -> Iterator[Problem]:
    patterns = spec.patterns.values()
    words = build_vocabulary(each for one in patterns for each in elements(one.where))
    path: Path = ("operators", spec.name, "never_shed")
    for number, label in enumerate(spec.never_shed):
        if words.saying(label) is None:
            here = path if len(spec.never_shed) == 1 else (*path, number)
            hint = known_names(shortened(label), [*words.words, OTHER])
            problem = f"{dotted(here)} names the unknown type {shortened(label)!r}"
            yield Problem(here, f"{problem}; {hint}")


def _key_problems(spec: OperatorSpec) -> Iterator[Problem]:
    for name, pattern in spec.patterns.items():
        if not pattern.partition_by:
            path = ("operators", spec.name, "shed_by")
            problem = f"{dotted(path)} is 'key', but {name} has no PARTITION BY"
            yield Problem(path, f"{problem}; add one, or write 'event'")
