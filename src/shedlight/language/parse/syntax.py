"""Text -> syntax tree, or an error in the words of the language.

The grammar is in `grammar.lark`. A tree has trees (operands) and tokens (all other words) as
children; `patterns.py` and `expressions.py` say what they mean.
"""

import difflib
import hashlib
import os
import pickle
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.resources import files

import lark
from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedToken

from shedlight.cache_home import cache_home
from shedlight.errors import LanguageError, Span, join_words
from shedlight.language.ast.expression import KEYWORDS
from shedlight.language.ast.pattern import MICROSECONDS
from shedlight.language.check.normal_form import MAX_DEPTH, MAX_LEVELS

MAX_CHARACTERS = 1_000_000  # the longest text that is read
MAX_PARENTHESES = MAX_DEPTH + MAX_LEVELS
"""How many parentheses may stand inside each other: what the deepest pattern needs."""

SyntaxTree = Tree[Token]

_END = "$END"
_SHOWN = 40
_KEYWORDS = frozenset(word.upper() for word in KEYWORDS)
_CLAUSES = frozenset({"SELECT", "WHERE", "WITHIN", "PARTITION", "REUSE"})
_VALUE_STARTS = "NAME NUMBER STRING TIME TRUE FALSE NULL CASE CAST LPAR MINUS SEQ AND OR NOT"
_STARTS_VALUE = frozenset(_VALUE_STARTS.split())
_OPERATOR_TOKENS = "COMPARE IS NOT IN LIKE BETWEEN PLUS MINUS STAR SLASH DIV OR LPAR LBRACKET"
_OPERATORS = frozenset(_OPERATOR_TOKENS.split())
_IN_PARENTHESES = frozenset({"group", "seq", "all", "any", "repeat"})
_CLAUSE_LEVELS = 5  # what may stand around the operators: a clause, an item, a NOT
_REPEATS = frozenset({"TIMES", "MANY", "OPTION"})
_NOTHING = re.compile(r"(?:\s|--[^\n]*)*")
_UNIT = f"a unit: {', '.join(MICROSECONDS)} or EVENTS"
_VALUE_AFTER = {
    "SELECT": "EACH, '*' or what to select",
    "WHERE": "a pattern, such as SEQ(A.x = 1, B.x = 2)",
}
_TOKENS_SHOWN = (
    "SELECT AND NULL NOT IN LIKE BETWEEN NAME NUMBER STRING WHEN THEN ELSE END LPAR COMMA RPAR "
    f"RBRACKET AS WHERE WITHIN PARTITION BY REUSE {_END}"
).split()
_TOKEN_NAMES = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "text in quotes",
    "LPAR": "'('",
    "COMMA": "','",
    "RPAR": "')'",
    "RBRACKET": "']'",
    "PARTITION": "PARTITION BY",
    _END: "the end",
}
_ABOUT_CHARACTERS = {
    '"': "text stands in single quotes, a name with blanks in backquotes",
    "{": "a repetition is written {2}, {2,5} or {2,}",
    "&": "write AND",
    "|": "write OR, or concat(...) to join texts",
    ".": "a dot stands between a variable and an attribute, as in E1.cpu",
    "!": "write NOT, or <> for 'is not equal'",
}


def pattern_tree(text: str) -> SyntaxTree:
    """Read the text of a pattern; a semicolon may end it."""
    return _tree(text, [])


def expression_tree(text: str) -> SyntaxTree:
    """Read the text of an expression that stands alone."""
    tree = _tree(text, [Token("ROW", "")])
    (expression,) = operands(tree)
    return expression


def operands(tree: SyntaxTree) -> list[SyntaxTree]:
    """List the children that are trees."""
    return [child for child in tree.children if isinstance(child, Tree)]


def tokens_of(tree: SyntaxTree) -> list[Token]:
    """List the children that are tokens."""
    return [child for child in tree.children if isinstance(child, Token)]


def span_of(node: SyntaxTree | Token) -> Span:
    """Find where in the text a tree or a token is."""
    where = node.meta if isinstance(node, Tree) else node
    return Span(where.start_pos or 0, where.end_pos or 0)


def _tree(text: str, ahead: list[Token]) -> SyntaxTree:
    if len(text) > MAX_CHARACTERS:
        hint = f"at most {MAX_CHARACTERS:,} are read"
        raise LanguageError(f"the text has {len(text):,} characters", hint=hint)
    parser = _grammar().parse_interactive(text)
    for token in ahead:
        parser.feed_token(token)
    recent = [Token("ROW", "")]
    try:
        for token in _nested_well(text, parser.iter_parse()):
            recent = [*recent[-3:], token]
        tree: SyntaxTree = parser.feed_eof(recent[-1])  # type: ignore[no-untyped-call]  # lark's
    except UnexpectedCharacters as error:
        raise _unreadable(text, error.pos_in_stream or 0) from None
    except UnexpectedToken as error:
        accepted = frozenset(parser.accepts())  # type: ignore[no-untyped-call]  # lark's
        start, end = error.token.start_pos or 0, error.token.end_pos or 0
        last = _END in accepted and _NOTHING.fullmatch(text, end)
        if error.token.type == "SEMICOLON" and last and not ahead:
            return _tree(f"{text[:start]} {text[end:]}", ahead)
        previous = recent if error.token.type == _END else recent[:-1]
        raise _unexpected(text, error.token, accepted, previous) from None
    _require_shallow(text, tree)
    return tree


@cache
def _grammar() -> Lark:
    """Make the parser, from tables that were kept if possible: to make them takes 0.2 s."""
    grammar = files("shedlight.language.parse").joinpath("grammar.lark").read_text("utf-8")
    made_from = f"{grammar} {lark.__version__} {sys.version_info[:2]}"
    digest = hashlib.sha256(made_from.encode()).hexdigest()[:16]
    path = cache_home() / f"grammar-{digest}.pickle"
    options = {"propagate_positions": True, "lexer_callbacks": {"NAME": _keyword_or_name}}
    try:
        with path.open("rb") as file:
            tables = pickle.load(file)  # noqa: S301  # it is in the user's own folder
        kept: Lark = Lark._load_from_dict(**tables, **options)  # type: ignore[no-untyped-call]  # noqa: SLF001
    except Exception:  # noqa: BLE001  # there are none, or whatever is there is no tables
        made = {"parser": "lalr", "lexer": "basic", "maybe_placeholders": False}
        parser = Lark(grammar, **made, **options)
    else:
        return kept
    with suppress(OSError):  # a home that cannot be written to
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        with new.open("wb") as file:
            parser.save(file)
        new.replace(path)  # as a whole: others may be reading
    return parser


def _keyword_or_name(token: Token) -> Token:
    return token.update(type=token.upper()) if token.lower() in KEYWORDS else token


def _nested_well(text: str, tokens: Iterator[Token]) -> Iterator[Token]:
    """Pass tokens on, and see that parentheses are closed and not too deep."""
    opened: list[Token] = []
    for token in tokens:
        if token.type == "LPAR":
            opened.append(token)
        elif token.type == "RPAR":
            if not opened:
                problem = "this parenthesis closes nothing"
                raise LanguageError(problem, text, span_of(token), "take it away")
            opened.pop()
        if len(opened) > MAX_PARENTHESES:
            problem = f"more than {MAX_PARENTHESES} parentheses inside each other"
            raise LanguageError(problem, text, span_of(token), "write it flatter")
        yield token
    if opened:
        problem = "this parenthesis is not closed"
        raise LanguageError(problem, text, span_of(opened[-1]), "close it with ')'")


def _require_shallow(text: str, tree: SyntaxTree) -> None:
    """Require few operators inside each other, such as signs; without recursion."""
    open_trees = [(tree, 0)]
    while open_trees:
        node, level = open_trees.pop()
        if level > MAX_LEVELS + _CLAUSE_LEVELS:
            problem = f"more than {MAX_LEVELS} operators inside each other"
            raise LanguageError(problem, text, span_of(node), "write it flatter")
        inner = level + (node.data not in _IN_PARENTHESES)
        open_trees.extend((child, inner) for child in operands(node))


def _unreadable(text: str, at: int) -> LanguageError:
    """Explain a character with which no word starts."""
    after_dot = text[at + 1 :].lstrip()
    if text[at] == "." and after_dot.startswith("`"):
        at = len(text) - len(after_dot)
    found = text[at]
    if found == "." and after_dot.startswith("*"):
        end = len(text) - len(after_dot) + 1
        hint = "a variable alone is its whole event, with all attributes"
        return LanguageError(f"unexpected {text[at:end]!r}", text, Span(at, end), hint)
    if found == "'":
        hint = "close it with a single quote; a quote inside is written twice"
        return LanguageError("this text is not closed", text, Span(at, len(text)), hint)
    if text.startswith("``", at):
        hint = "write a name between the backquotes"
        return LanguageError("a name cannot be empty", text, Span(at, at + 2), hint)
    if found == "`":
        hint = "close it with a backquote; a backquote inside is written twice"
        return LanguageError("this name is not closed", text, Span(at, len(text)), hint)
    hint = _ABOUT_CHARACTERS.get(found, "")
    if found.isalpha():
        hint = "a name with letters other than a to z stands in backquotes"
    return LanguageError(f"unexpected character {found!r}", text, Span(at, at + 1), hint)


def _unexpected(
    text: str, token: Token, accepted: frozenset[str], before: list[Token]
) -> LanguageError:
    """Explain a word that cannot stand where it does."""
    distinct = before[-2 if before[-1].type == "STAR" else -1]
    if distinct.upper() == "DISTINCT" and (token.type == "NAME" or distinct != before[-1]):
        hint = "leave it out; each match gives a complex event of its own"
        return LanguageError(f"unexpected {str(distinct)!r}", text, span_of(distinct), hint)
    expected = f"expected {_expected(accepted, before[-1].type)}"
    if token.type == _END:
        end = len(text.rstrip())
        return LanguageError("the text ends too early", text, Span(end, end), expected)
    shown = str(token if len(token) <= _SHOWN else f"{token[:_SHOWN]}...")
    hint = "; ".join([expected, *_advice(token, accepted, before)])
    return LanguageError(f"unexpected {shown!r}", text, span_of(token), hint)


def _advice(token: Token, accepted: frozenset[str], before: list[Token]) -> list[str]:
    """Guess what was meant by a word that cannot stand where it does."""
    if token.type == "NAME" and token.upper() != "FROM":
        near = difflib.get_close_matches(token.upper(), sorted(accepted & _KEYWORDS), n=1)
        return [f"did you mean {word!r}?" for word in near]
    counts = [word.upper() for word in before[-2:]] == ["COUNT", "("]
    fitting = {
        "the application says what the inputs are": token.upper() == "FROM",
        "COUNT(E1) counts the events of E1": token.type == "STAR" and counts,
        "a text is one pattern or expression": token.type == "SEMICOLON" and _END in accepted,
        "a repetition stands after one element or group": token.type in _REPEATS,
        "join two comparisons by AND": token.type == "COMPARE" and "AND" in accepted,
        f"in backquotes, `{token}` is a name": token.type in _KEYWORDS - _CLAUSES
        and "NAME" in accepted,
    }
    return [advice for advice, fits in fitting.items() if fits]


def _expected(accepted: frozenset[str], before: str) -> str:
    """Say in words what may come next.

    Example:
        >>> _expected(frozenset({"COMMA", "RPAR", "OPTION"}), before="NAME")
        "',' or ')'"
    """
    if accepted == {"NAME", "EVENTS"}:
        return _UNIT
    names = []
    if "CASE" in accepted:
        names.append(_VALUE_AFTER.get(before, "a value"))
        accepted -= _STARTS_VALUE
    if "SLASH" in accepted:
        names.append("an operator")
        accepted -= _OPERATORS
    names += [_TOKEN_NAMES.get(t, t) for t in _TOKENS_SHOWN if t in accepted]
    return join_words(names)
