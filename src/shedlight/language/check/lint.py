"""What is allowed in a pattern but cannot mean what it seems to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from shedlight.errors import LanguageError, Span
from shedlight.language.ast import expression as ex
from shedlight.language.ast import pattern as ast
from shedlight.language.ast.expression import Expression
from shedlight.language.check import normal_form as tree

_NULL = ex.Literal(None)


@dataclass(frozen=True, slots=True)
class PatternWarning:
    """Something that is allowed but cannot mean what it seems to."""

    problem: str  # what it is, lower case, without a full stop
    hint: str = ""  # what to do
    # the part or expression in question
    node: object = field(default=None, repr=False, compare=False)
    text: str = field(default="", repr=False)  # the whole text of the pattern, if it is known
    span: Span | None = None  # where in the text

    def __str__(self) -> str:
        return str(LanguageError(self.problem, self.text, self.span, self.hint))


def lint_pattern(pattern: ast.Pattern) -> tuple[PatternWarning, ...]:
    """List what cannot mean what it seems to, in a pattern that keeps to the rules."""
    return (
        *_lint_window(pattern),
        # absence at the end keeps a match open
        *(() if tree.trailing_nots(pattern.where) else _lint_last_part(pattern.where)),
        *_lint_single_event_and(pattern.where),
        *_lint_alternatives(pattern),
        *_lint_null_comparisons(pattern),
        *_lint_unreachable_conditions(pattern),
    )


def _lint_window(pattern: ast.Pattern) -> Iterator[PatternWarning]:
    least, window = tree.min_events(pattern.where), pattern.within
    if window and window.unit is ast.WindowUnit.EVENTS and window.length < least:
        problem = f"a match has at least {least} events, so there is none in this window"
        yield PatternWarning(problem, f"make it {least} EVENTS or longer", window)


def _lint_single_event_and(where: ast.Part) -> Iterator[PatternWarning]:
    """Find a NOT in an AND of one event: there is no time between its first and last."""
    for part in ast.walk_parts(where):
        if isinstance(part, ast.And) and tree.max_events(part) <= 1:
            for absent in (inner for inner in part.parts if isinstance(inner, ast.Not)):
                yield PatternWarning(
                    "this AND takes one event, so this NOT is never watched",
                    "NOT in an AND is about the time from its first event to its last;"
                    " write SEQ for what comes before or after",
                    absent,
                )


def _lint_last_part(part: ast.Part) -> Iterator[PatternWarning]:
    """Find what comes after the shortest match is complete."""
    if isinstance(part, ast.Seq):
        yield from _lint_end_of_seq(tree.flatten_group(part))
    elif isinstance(part, ast.Or | ast.And):
        taken = [inner for inner in part.parts if not isinstance(inner, ast.Not)]
        for inner in taken if isinstance(part, ast.Or) or len(taken) == 1 else ():
            yield from _lint_last_part(inner)
    elif isinstance(part, ast.Repeat) and part.least == part.most == 1:
        yield from _lint_last_part(part.part)
    elif isinstance(part, ast.Repeat) and part.least != part.most:
        counts = {0: "at all", 1: "more than once", 2: "more than twice"}
        times = counts.get(part.least, f"more than {part.least} times")
        problem = f"this repetition ends the pattern, so it is never taken {times}"
        hint = "a match is complete as soon as it can be; put a part after it"
        yield PatternWarning(problem, hint, part)


def _lint_end_of_seq(sequence: tuple[ast.Part, ...]) -> Iterator[PatternWarning]:
    """Walk back from the end of a SEQ, as long as what is there may be left out."""
    for part in reversed(sequence):
        if isinstance(part, ast.Not):
            problem = "what follows this NOT may be left out, so it is never watched"
            hint = "a match is complete as soon as it can be; put a required part after it"
            yield PatternWarning(problem, hint, part)
            continue
        yield from _lint_last_part(part)
        if tree.min_events(part) > 0:
            return


def _lint_alternatives(pattern: ast.Pattern) -> Iterator[PatternWarning]:
    """Find alternatives that an earlier one always precedes."""
    mentioned = {name for condition in pattern.conditions for name in ex.variables(condition)}
    for part in ast.walk_parts(pattern.where):
        earlier = set()
        for alternative in part.parts if isinstance(part, ast.Or) else ():
            names = [element.variable for element in ast.elements(alternative)]
            if mentioned.intersection(names):
                continue
            form = _with_variables(alternative, {name: str(n) for n, name in enumerate(names)})
            if form in earlier:
                problem = "this alternative is the same as one before it, so it is never taken"
                yield PatternWarning(problem, "leave it out", alternative)
            earlier.add(form)


def _with_variables(part: ast.Part, names: Mapping[str, str]) -> str:
    """Write a part with other variables."""

    def rename(node: Expression) -> Expression | None:
        if not isinstance(node, ex.Attribute):
            return None
        return ex.Attribute(names[node.variable], node.path)

    if isinstance(part, ast.Element):
        return f"{names[part.variable]}: {ex.transform(part.condition, rename)}"
    inner = ", ".join(_with_variables(each, names) for each in ast.child_parts(part))
    counts = f"{part.least},{part.most}" if isinstance(part, ast.Repeat) else ""
    return f"{type(part).__name__}{counts}({inner})"


def _lint_null_comparisons(pattern: ast.Pattern) -> Iterator[PatternWarning]:
    own = (element.condition for element in ast.elements(pattern.where))
    for condition in (*own, *pattern.conditions):
        for node in ex.walk(condition):
            if (
                isinstance(node, ex.Binary)
                and node.operator in ex.COMPARISONS
                and _NULL in (node.left, node.right)
            ):
                hint = "write IS NULL or IS NOT NULL"
                yield PatternWarning("a comparison with NULL is never true", hint, node)


def _lint_unreachable_conditions(pattern: ast.Pattern) -> Iterator[PatternWarning]:
    """Find conditions between variables that never have events at the same time."""
    paths = dict(_tree_paths(pattern.where, ()))
    forbidden = {element.variable for element in ast.negated_elements(pattern.where)}
    for condition in pattern.conditions:
        for one, other in combinations(sorted(ex.variables(condition)), 2):
            reason = _why_never_together(one, other, paths, forbidden)
            if reason:
                problem = f"this condition is never checked: {reason}"
                yield PatternWarning(problem, node=condition)
                break


_TreePath = tuple[tuple[ast.Part, int], ...]
"""The path from the root to an element: at each part, which of its parts to take."""


def _tree_paths(part: ast.Part, path: _TreePath) -> Iterator[tuple[str, _TreePath]]:
    if isinstance(part, ast.Element):
        yield part.variable, path
    for index, inner in enumerate(ast.child_parts(part)):
        yield from _tree_paths(inner, (*path, (part, index)))


def _why_never_together(
    one: str, other: str, paths: Mapping[str, _TreePath], forbidden: set[str]
) -> str | None:
    """Say why two variables never have events at the same time, if so."""
    if one in forbidden and other in forbidden:
        return f"both {one!r} and {other!r} are under NOT"
    if other in forbidden:
        one, other = other, one
    shared = 0
    while paths[one][shared][1] == paths[other][shared][1]:
        shared += 1
    (fork, mine), (_, its) = paths[one][shared], paths[other][shared]
    if any(isinstance(part, ast.Repeat) and part.most != 1 for part, _ in paths[one][:shared]):
        return None
    if isinstance(fork, ast.Or):
        return f"{one!r} and {other!r} are in different alternatives of an OR"
    if one in forbidden and isinstance(fork, ast.Seq) and its > mine:
        return f"{other!r} has no event yet where {one!r} is watched"
    return None
