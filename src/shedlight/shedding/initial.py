"""What may be shed before there is a plan: by pressure alone, which knows no types."""

from shedlight.graph.application import Application, OperatorSpec, ShedBy
from shedlight.language.ast.pattern import Pattern, WindowUnit, negated_elements
from shedlight.shedding.shares import PatternShares, Shares


def sheddable(application: Application) -> Shares:
    """Say which patterns may shed, and how: all on nodes with a bound, at first nothing."""
    return {
        stream: PatternShares({}, _by_key(spec, spec.patterns[stream.name]))
        for spec in application.operators.values()
        if application.nodes[spec.node].bound is not None
        for stream in spec.outputs
    }


def sheddable_by_pressure(application: Application) -> Shares:
    """Say which of them may be shed blindly; the others wait until a plan says how."""
    specs = application.operators
    return {
        stream: shares
        for stream, shares in sheddable(application).items()
        for spec in [specs[str(stream.operator)]]
        if not (spec.never_shed or _invents(spec.patterns[stream.name]))
        and stream not in application.timed_out  # a match with an event shed would time out
    }


def _by_key(spec: OperatorSpec, pattern: Pattern) -> bool:
    return bool(pattern.partition_by) and spec.shed_by is not ShedBy.EVENT


def _invents(pattern: Pattern) -> bool:
    """Whether a pattern finds matches that are none if any of its events may be shed."""
    counts = pattern.within is not None and pattern.within.span is WindowUnit.EVENTS
    return counts or bool(negated_elements(pattern.where))
