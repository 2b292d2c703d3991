"""The shape of a pattern's tree: its normal form, its caps, and where its parts may stand."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from shedlight.errors import RuleError
from shedlight.language.ast import expression as ex
from shedlight.language.ast import pattern as ast
from shedlight.language.ast.expression import Expression

MAX_ELEMENTS = 1_000  # how many elements a pattern may have, those under NOT included
MAX_REPEAT = 10_000  # the largest number in a repetition
MAX_DEPTH = 50
"""How many parts of a pattern, or parentheses of a text, may stand inside each other."""
MAX_LEVELS = 100  # how many operators may stand inside each other; those in a row count too
MAX_NODES = 200_000  # how many values and operators an expression may have


def normalize(
    where: ast.Part, conditions: Sequence[Expression]
) -> tuple[ast.Part, tuple[Expression, ...]]:
    """Bring a tree and the conditions across events into their normal form.

    In it no SEQ is directly in a SEQ, no condition is a conjunction, and a condition on one
    variable is part of the condition of its element.
    """
    require_size(where, conditions)
    names = {element.variable for element in ast.elements(where)}
    own: dict[str, tuple[Expression, ...]] = {}
    across: list[Expression] = []
    for condition in conditions:
        for conjunct in ex.conjuncts(condition) or (condition,):
            mentioned = ex.variables(conjunct)
            if len(mentioned) == 1 and mentioned <= names:
                (name,) = mentioned
                own[name] = (*own.get(name, ()), conjunct)
            else:
                across.append(conjunct)
    return _with_conditions(where, own), tuple(across)


def flatten_group(group: ast.Group) -> tuple[ast.Part, ...]:
    """List the parts of a group, and in place of one of its own sort among them its parts."""
    return tuple(
        inner
        for part in group.parts
        for inner in (flatten_group(part) if isinstance(part, type(group)) else (part,))
    )


def _with_conditions(part: ast.Part, own: Mapping[str, tuple[Expression, ...]]) -> ast.Part:
    """Give elements more conditions, by variable, and flatten SEQ in SEQ."""
    if isinstance(part, ast.Element):
        return _narrowed(part, own.get(part.variable, ()))
    if isinstance(part, ast.Not):
        return ast.Not(_narrowed(part.element, own.get(part.element.variable, ())))
    if isinstance(part, ast.Repeat):
        return replace(part, part=_with_conditions(part.part, own))
    inner = tuple(_with_conditions(each, own) for each in ast.child_parts(part))
    if isinstance(part, ast.And | ast.Or):
        return replace(part, parts=inner)
    return ast.Seq(flatten_group(ast.Seq(inner)))


def _narrowed(element: ast.Element, more: tuple[Expression, ...]) -> ast.Element:
    before = () if element.condition == ex.TRUE else (element.condition,)
    return ast.Element(element.variable, ex.conjunction((*before, *more)))


def min_events(part: ast.Part) -> int:
    """Count the events of the shortest word of a part."""
    if isinstance(part, ast.Element | ast.Not):
        return int(isinstance(part, ast.Element))
    if isinstance(part, ast.Repeat):
        return part.least * min_events(part.part)
    lengths = map(min_events, ast.child_parts(part))
    return min(lengths) if isinstance(part, ast.Or) else sum(lengths)


def max_events(part: ast.Part) -> float:
    """Count the events of the longest word of a part; infinite if there is none."""
    if isinstance(part, ast.Element | ast.Not):
        return int(isinstance(part, ast.Element))
    if isinstance(part, ast.Repeat):
        return (math.inf if part.most is None else part.most) * max_events(part.part)
    lengths = map(max_events, ast.child_parts(part))
    return max(lengths) if isinstance(part, ast.Or) else sum(lengths)


def trailing_nots(where: ast.Part) -> tuple[ast.Not, ...]:
    """List the NOTs at the end of the outermost SEQ: what must not come in the whole window."""
    found: list[ast.Not] = []
    for part in reversed(flatten_group(where) if isinstance(where, ast.Seq) else ()):
        if not isinstance(part, ast.Not):
            break
        found.append(part)
    return tuple(reversed(found))


def require_size(where: ast.Part, conditions: Sequence[Expression]) -> None:
    """Require that nothing is nested too deeply for recursion; without recursion itself."""
    parts_inside = [where]
    for _ in range(MAX_DEPTH):
        parts_inside = [inner for part in parts_inside for inner in ast.child_parts(part)]
    if parts_inside:
        problem = f"more than {MAX_DEPTH} parts inside each other"
        raise RuleError(where, problem, "write it flatter")
    for element in ast.elements(where):
        require_levels(element.condition)
    for condition in conditions:
        require_levels(condition)


def require_levels(expression: Expression) -> None:
    """Require that an expression is neither nested too deeply nor too large."""
    nodes, count = [expression], 1
    for _ in range(MAX_LEVELS):
        nodes = [part for node in nodes for part in ex.children(node)]
        if not nodes:
            return
        count += len(nodes)
        if count > MAX_NODES:
            problem = f"an expression has at most {MAX_NODES:,} values and operators"
            raise RuleError(expression, problem, "what BETWEEN compares counts twice")
    hint = "write it flatter: IN (...) for many values, parentheses to halve a long row"
    problem = f"more than {MAX_LEVELS} operators inside each other"
    raise RuleError(expression, problem, hint)


def check_tree(where: ast.Part) -> None:
    """Check what stands where in a tree; RuleError if something has no meaning there."""
    leaves = ast.elements(where)
    if len(leaves) > MAX_ELEMENTS:
        problem = f"a pattern has at most {MAX_ELEMENTS:,} elements, got {len(leaves):,}"
        raise RuleError(where, problem)
    counts = Counter(element.variable for element in leaves)
    for element in reversed(leaves):
        if counts[element.variable] > 1:
            problem = f"two elements are named {element.variable!r}"
            raise RuleError(element, problem, "give each element a variable of its own")
    for part in ast.walk_parts(where):
        if isinstance(part, ast.Repeat):
            _check_repeat(part)
        elif not isinstance(part, ast.Element) and not ast.child_parts(part):
            raise RuleError(part, "this group has no parts", "name at least one")
    _check_nots(where)
    if min_events(where) == 0:
        hint = "make a part of it required"
        raise RuleError(where, "this pattern matches without any event", hint)


def _check_repeat(part: ast.Repeat) -> None:
    least, most = part.least, part.most
    if most == 0 or least < 0:
        raise RuleError(part, "a part repeated 0 times is never there", "leave it out")
    if most is not None and most < least:
        hint = f"write {{{most},{least}}}"
        raise RuleError(part, f"at least {least} and at most {most} times is never", hint)
    if max(least, most or 0) > MAX_REPEAT:
        problem = f"a part is repeated at most {MAX_REPEAT:,} times"
        raise RuleError(part, problem, "write a smaller number, or none, as in {2,}")


def _check_nots(where: ast.Part) -> None:
    """See that each NOT is between parts of a SEQ, in an AND, or at the very end."""
    if isinstance(where, ast.Not):
        raise RuleError(where, "a pattern cannot be a NOT alone", _NOT_PLACES)
    for part in ast.walk_parts(where):
        for inner in ast.child_parts(part):
            if isinstance(inner, ast.Not) and isinstance(part, ast.Or | ast.Repeat):
                what = "an alternative of OR" if isinstance(part, ast.Or) else "repeated"
                raise RuleError(inner, f"NOT cannot be {what}", _NOT_PLACES)
        if isinstance(part, ast.And) and all(
            isinstance(inner, ast.Not) for inner in part.parts
        ):
            raise RuleError(part.parts[0], "this AND has nothing but NOT", _NOT_PLACES)
    _check_sequences(where)


def _check_sequences(where: ast.Part) -> None:
    absent = trailing_nots(where)
    for sequence in _sequences(where):
        if isinstance(sequence[0], ast.Not):
            raise RuleError(sequence[0], "NOT has nothing before it", _NOT_PLACES)
        if isinstance(sequence[-1], ast.Not) and sequence[-1] not in absent:
            problem = "NOT has nothing after it in a SEQ that is not the outermost"
            raise RuleError(sequence[-1], problem, _NOT_PLACES)


_NOT_PLACES = (
    "NOT(...) stands between two parts of a SEQ, in an AND, or at the end of the outermost SEQ"
)


def _sequences(part: ast.Part) -> list[tuple[ast.Part, ...]]:
    """List the parts of each SEQ of a tree, flattened."""
    inner = flatten_group(part) if isinstance(part, ast.Seq) else ast.child_parts(part)
    own = [inner] if isinstance(part, ast.Seq) else []
    return own + [sequence for each in inner for sequence in _sequences(each)]
