"""Text -> Pattern.

    text --syntax.py--> syntax tree --expressions.py--> expressions
                                    --here------------> parts, items, window: a Pattern
                                    --rules.py--------> checked

SEQ, AND, OR and repetitions stand in the syntax tree like any operand; here is where they get
their meaning. In a part of a pattern, `NOT(...)` means absence; a condition that starts with
NOT stands in parentheses, as in `SEQ(A.x = 1, (NOT B.x = 1))`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lark import Token

from shedlight.errors import LanguageError, RuleError
from shedlight.language.ast import pattern as ast
from shedlight.language.ast.data_type import Schema
from shedlight.language.ast.expression import TRUE, Attribute, Expression, WholeEvent
from shedlight.language.ast.user_function import UserFunctions
from shedlight.language.ast.window import make_window
from shedlight.language.check.calls import check_function_names
from shedlight.language.check.lint import PatternWarning
from shedlight.language.check.normal_form import flatten_group, normalize, require_levels
from shedlight.language.check.rules import check, check_row, make_element
from shedlight.language.parse import syntax
from shedlight.language.parse.expressions import (
    ExpressionReader,
    SourceMap,
    name_parts,
    unquote,
)
from shedlight.language.parse.syntax import SyntaxTree

_GROUPS: dict[str, Callable[[tuple[ast.Part, ...]], ast.Part]] = {
    "seq": lambda parts: ast.Seq(flatten_group(ast.Seq(parts))),
    "all": ast.And,
    "any": ast.Or,
}
_MAX_DIGITS = 9  # of a repetition; the rules say what is wrong with large ones


@dataclass(frozen=True, slots=True)
class ParseResult:
    """A pattern that keeps to the rules, and what in it cannot mean what it seems to."""

    pattern: ast.Pattern
    warnings: tuple[PatternWarning, ...] = ()


def parse_pattern(
    text: str, schema: Schema | None = None, functions: UserFunctions | None = None
) -> ParseResult:
    """Read the text of a pattern, and check it.

    Args:
        text: What a user wrote.
        schema: The columns of the input; if it is not known, neither names nor data types of
            attributes are checked.
        functions: Functions of the user that it may call, by name.

    Raises:
        LanguageError: The text is not understood or breaks a rule; it says where and why.

    Example:
        >>> parsed = parse_pattern("select * where seq(A.type = 0; B.type = 1) within 90 sec")
        >>> print(parsed.pattern)
        SELECT * WHERE SEQ(A.type = 0, B.type = 1) WITHIN 90 s
    """
    source_map = SourceMap(text)
    with _explain(source_map):
        known = check_function_names(functions or {})
        pattern = _pattern(syntax.pattern_tree(text), source_map, known)
        warnings = check(pattern, schema)
    placed = (replace(w, text=text, span=source_map.of(w.node)) for w in warnings)
    return ParseResult(pattern, tuple(placed))


def parse_expression(
    text: str, schema: Schema | None = None, functions: UserFunctions | None = None
) -> Expression:
    """Read the text of an expression about one row, such as a derived column, and check it.

    Raises:
        LanguageError: The text is not understood or its data types do not fit; it says where.

    Example:
        >>> parse_expression("machine_id % 4").left
        Attribute(variable='', path=('machine_id',))
    """
    source_map = SourceMap(text)
    with _explain(source_map):
        read = ExpressionReader(source_map, _of_row, check_function_names(functions or {}))
        expression = read(syntax.expression_tree(text))
        check_row(expression, schema)
    return expression


@contextmanager
def _explain(source_map: SourceMap) -> Iterator[None]:
    """Say where in the text a rule is broken."""
    try:
        yield
    except RuleError as error:
        span = source_map.of(error.node)
        raise LanguageError(error.problem, source_map.text, span, error.hint) from error


def _pattern(tree: SyntaxTree, source_map: SourceMap, functions: UserFunctions) -> ast.Pattern:
    clauses = {clause.data: clause for clause in syntax.operands(tree)}
    select, where, *_ = syntax.operands(tree)
    of_variable = ExpressionReader(source_map, _of_variable, functions)
    first, others = _tree_and_conditions(where)
    written = _part(of_variable, first)
    root, conditions = normalize(written, list(map(of_variable, others)))
    for old, new in zip(ast.walk_parts(written), ast.walk_parts(root), strict=True):
        span = source_map.of(old)
        if span:
            source_map.put(new, span)
    each = any(token.type == "EACH" for token in syntax.tokens_of(select))
    names = {element.variable for element in ast.elements(root)}
    of_each = ExpressionReader(
        source_map,
        lambda path: (_of_variable if path[0] in names else _of_row)(path),
        functions,
    )
    return ast.Pattern(
        select=tuple(
            _item(of_each if each else of_variable, item) for item in syntax.operands(select)
        ),
        where=root,
        conditions=conditions,
        within=_window(clauses.get("window"), source_map),
        partition_by=_keys(clauses.get("partition"), source_map),
        reuse=any(token.type == "REUSE" for token in syntax.tokens_of(tree)),
        each=each,
    )


def _of_variable(path: tuple[str, ...]) -> Expression:
    variable, *rest = path
    return Attribute(variable, tuple(rest)) if rest else WholeEvent(variable)


def _of_row(path: tuple[str, ...]) -> Attribute:
    return Attribute("", path)


def _item(read: ExpressionReader, tree: SyntaxTree) -> ast.Item:
    (inner,) = syntax.operands(tree)
    expression = read(inner)
    given = [unquote(token) for token in syntax.tokens_of(tree) if token.type == "NAME"]
    name = given[0] if given else ast.default_name(expression)
    if name is None:
        require_levels(expression)
        hint = f"write {expression} AS name"
        raise read.source_map.error("a selected value needs a name", inner, hint)
    return read.source_map.put(ast.Item(expression, name), tree)


def _window(tree: SyntaxTree | None, source_map: SourceMap) -> ast.Window | None:
    if tree is None:
        return None
    _, number, unit = (source_map.put(token, token) for token in syntax.tokens_of(tree))
    return source_map.put(make_window(number, unit), tree)


def _keys(tree: SyntaxTree | None, source_map: SourceMap) -> tuple[Attribute, ...]:
    names = [] if tree is None else syntax.operands(tree)
    return tuple(source_map.put(_of_row(name_parts(name)), name) for name in names)


def _tree_and_conditions(tree: SyntaxTree) -> tuple[SyntaxTree, list[SyntaxTree]]:
    """Split what stands in WHERE; where it starts with a condition, it is one element."""
    if tree.data == "conjunction":
        first, *rest = syntax.operands(tree)
        if _is_pattern(first):
            return first, rest
    return tree, []


def _is_pattern(tree: SyntaxTree) -> bool:
    if tree.data == "group":
        return _is_pattern(syntax.operands(tree)[0])
    return tree.data in {*_GROUPS, "repeat"}


def _part(read: ExpressionReader, tree: SyntaxTree) -> ast.Part:
    """Read a part of a pattern."""
    if tree.data == "group":
        (inner,) = syntax.operands(tree)
        return _element(read, inner) if inner.data == "negation" else _part(read, inner)
    if tree.data in _GROUPS:
        parts = tuple(_part(read, inner) for inner in syntax.operands(tree))
        return read.source_map.put(_GROUPS[tree.data](parts), tree)
    if tree.data == "negation":
        return _absence(read, tree)
    times, once = _without_repetition(tree)
    if times:
        least, most = _counts(times, read.source_map)
        return read.source_map.put(ast.Repeat(_part(read, once), least, most), times)
    return _element(read, tree)


def _absence(read: ExpressionReader, tree: SyntaxTree) -> ast.Not:
    (inner,) = syntax.operands(tree)
    if inner.data != "group":
        hint = (
            "write NOT(...) for an event that must not come, (NOT ...) for a condition on one"
        )
        raise read.source_map.error("this NOT can mean two things", tree, hint)
    element = _part(read, syntax.operands(inner)[0])
    if not isinstance(element, ast.Element):
        hint = "write a condition on one variable, such as NOT(X.cpu > 0.5)"
        raise read.source_map.error("NOT takes one element", inner, hint)
    return read.source_map.put(ast.Not(element), tree)


def _element(read: ExpressionReader, tree: SyntaxTree) -> ast.Element:
    condition = read(tree)
    if isinstance(condition, WholeEvent):
        return read.source_map.put(ast.Element(condition.variable, TRUE), tree)
    return read.source_map.put(make_element(condition), tree)


def _without_repetition(tree: SyntaxTree) -> tuple[Token | None, SyntaxTree]:
    """Take off a repetition at the end; after several conditions it is about all of them."""
    if tree.data == "repeat":
        return syntax.tokens_of(tree)[-1], syntax.operands(tree)[0]
    if tree.data not in {"conjunction", "disjunction"}:
        return None, tree
    *before, last = tree.children
    if isinstance(last, Token):
        return None, tree
    times, once = _without_repetition(last)
    return times, SyntaxTree(tree.data, [*before, once], tree.meta) if times else tree


def _counts(token: Token, source_map: SourceMap) -> tuple[int, int | None]:
    """Read a repetition: `+`, `?`, `{2}`, `{2,}` or `{2,5}`."""
    if token.type != "TIMES":
        return (1, None) if token.type == "MANY" else (0, 1)
    least, comma, most = (part.strip() for part in token[1:-1].partition(","))
    if max(len(least), len(most)) > _MAX_DIGITS:
        raise source_map.error("this repetition has too many digits", token)
    if not comma:
        return int(least), int(least)
    return int(least), int(most) if most else None
