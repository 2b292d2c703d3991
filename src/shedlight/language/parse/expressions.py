"""Syntax trees -> expressions, with the place of each node in the text.

A node is known by its identity: equal nodes stand in several places of a text, and an error
points at the very one that is wrong.
"""

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from lark import Token

from shedlight.errors import LanguageError, RuleError, Span, known_names
from shedlight.language.ast import expression as ex
from shedlight.language.ast.data_type import TYPE_NAMES, DataType
from shedlight.language.ast.expression import Expression, Operator
from shedlight.language.ast.user_function import UserFunctions
from shedlight.language.check.calls import make_call
from shedlight.language.functions import FUNCTIONS
from shedlight.language.parse.syntax import SyntaxTree, operands, span_of, tokens_of
from shedlight.language.time_format import parse_time

_SPELLINGS = {"==": Operator.EQUAL, "!=": Operator.NOT_EQUAL}
_PATTERN_WORDS = ("SEQ", "AND", "OR", "NOT")
_MAX_DIGITS = 20  # a bigint has 19; the next step says what is wrong with more

_Node = TypeVar("_Node")


@dataclass(frozen=True, slots=True)
class SourceMap:
    """Where in a text the nodes stand that were read from it."""

    text: str
    _spans: dict[int, Span] = field(default_factory=dict)
    _nodes: list[object] = field(default_factory=list)  # kept, so that an id stays theirs

    def put(self, node: _Node, at: SyntaxTree | Token | Span) -> _Node:
        """Remember where a node stands, and give it back."""
        self._nodes.append(node)
        self._spans[id(node)] = at if isinstance(at, Span) else span_of(at)
        return node

    def of(self, node: object) -> Span | None:
        """Find where a node stands."""
        return self._spans.get(id(node))

    def error(self, problem: str, at: SyntaxTree | Token, hint: str = "") -> LanguageError:
        """Make an error that points at a part of the text."""
        return LanguageError(problem, self.text, span_of(at), hint)


@dataclass(frozen=True, slots=True)
class ExpressionReader:
    """Reads the expressions of one text."""

    source_map: SourceMap  # filled while reading
    # gives what a name means, of its parts between the dots
    resolve: Callable[[tuple[str, ...]], Expression]
    functions: UserFunctions = field(default_factory=dict)  # what may be called besides

    def __call__(self, tree: SyntaxTree) -> Expression:
        """Read an expression; a LanguageError says where it is none."""
        inner = tree
        while inner.data == "group":  # without recursion, as there may be many
            (inner,) = operands(inner)
        read: Callable[[SyntaxTree], Expression] = getattr(self, f"_read_{inner.data}")
        return self.source_map.put(read(inner), tree)

    def read_operands(self, tree: SyntaxTree) -> list[Expression]:
        """Read all operands of a tree."""
        return [self(child) for child in operands(tree)]

    def _read_disjunction(self, tree: SyntaxTree) -> Expression:
        """Join operands by the operators between them, from left to right."""
        left, *rest = operands(tree)
        joined = self(left)
        for token, right in zip(tokens_of(tree), rest, strict=True):
            operator = _SPELLINGS.get(token) or Operator(token.upper())
            so_far = Span(span_of(left).start, span_of(right).end)
            joined = self.source_map.put(ex.Binary(operator, joined, self(right)), so_far)
        return joined

    _read_conjunction = _read_disjunction
    _read_compare = _read_disjunction
    _read_sum = _read_disjunction
    _read_product = _read_disjunction

    def _read_negation(self, tree: SyntaxTree) -> Expression:
        (operand,) = self.read_operands(tree)
        return ex.Unary(ex.Sign.NOT, operand)

    def _read_minus(self, tree: SyntaxTree) -> Expression:
        (operand,) = self.read_operands(tree)
        return ex.negate(operand)

    def _read_is_null(self, tree: SyntaxTree) -> Expression:
        (operand,) = self.read_operands(tree)
        return ex.IsNull(operand, _has_not(tree))

    def _read_in(self, tree: SyntaxTree) -> Expression:
        operand, *options = self.read_operands(tree)
        return ex.In(operand, tuple(options), _has_not(tree))

    def _read_like(self, tree: SyntaxTree) -> Expression:
        (operand,) = self.read_operands(tree)
        return ex.Like(operand, unquote(tokens_of(tree)[-1]), _has_not(tree))

    def _read_between(self, tree: SyntaxTree) -> Expression:
        operand, low, high = self.read_operands(tree)
        above = self.source_map.put(ex.Binary(Operator.GREATER_EQUAL, operand, low), tree)
        below = self.source_map.put(ex.Binary(Operator.LESS_EQUAL, operand, high), tree)
        both = self.source_map.put(ex.Binary(Operator.AND, above, below), tree)
        return ex.Unary(ex.Sign.NOT, both) if _has_not(tree) else both

    def _read_number(self, tree: SyntaxTree) -> Expression:
        (token,) = tokens_of(tree)
        if token.isdigit():
            digits = token.lstrip("0") or "0"
            if len(digits) > _MAX_DIGITS:
                raise self.source_map.error("this number has too many digits", tree)
            return ex.Literal(int(digits))
        value = float(token)
        if math.isinf(value):
            raise self.source_map.error("this number is too large for a double", tree)
        return ex.Literal(value)

    def _read_string(self, tree: SyntaxTree) -> Expression:
        return ex.Literal(unquote(tokens_of(tree)[0]))

    def _read_time(self, tree: SyntaxTree) -> Expression:
        (token,) = tokens_of(tree)
        name, _, rest = token.partition("'")
        is_date = name.strip().lower() == "date"
        try:
            moment = parse_time(unquote(f"'{rest}"))
        except ValueError:
            example = "DATE '2026-01-31'" if is_date else "TIMESTAMP '2026-01-31T23:59:59.5Z'"
            problem = f"{rest[:-1]!r} is no {'date' if is_date else 'timestamp'}"
            raise self.source_map.error(problem, tree, f"write it as {example}") from None
        if is_date and moment.time() != datetime.min.time():
            hint = "write TIMESTAMP before it"
            raise self.source_map.error(f"{rest[:-1]!r} is no date alone", tree, hint)
        return ex.Literal(moment.date() if is_date else moment)

    def _read_index(self, tree: SyntaxTree) -> Expression:
        array, position = self.read_operands(tree)
        return ex.Call("get", (array, position))

    def _read_constant(self, tree: SyntaxTree) -> Expression:
        return ex.Literal({"TRUE": True, "FALSE": False, "NULL": None}[tokens_of(tree)[0].type])

    def _read_name(self, tree: SyntaxTree) -> Expression:
        return self.resolve(name_parts(tree))

    def _read_case(self, tree: SyntaxTree) -> Expression:
        parts = self.read_operands(tree)
        otherwise = parts.pop() if len(parts) % 2 else ex.Literal(None)
        return ex.Case(tuple(zip(parts[::2], parts[1::2], strict=True)), otherwise)

    def _read_cast(self, tree: SyntaxTree) -> Expression:
        (operand,) = self.read_operands(tree)
        name = tokens_of(tree)[-2]
        data_type = TYPE_NAMES.get(name.lower())
        if data_type is None:
            hint = known_names(name, TYPE_NAMES)
            raise self.source_map.error(f"unknown type {str(name)!r}", name, hint)
        if data_type is DataType.BOOLEAN and isinstance(operand, ex.Literal):
            word = str(operand.value).strip().upper()
            if isinstance(operand.value, str) and word in {"TRUE", "FALSE"}:
                hint = f"write {word}"
                raise self.source_map.error("cannot cast string to boolean", tree, hint)
        return ex.Cast(operand, data_type)

    def _read_call(self, tree: SyntaxTree) -> Expression:
        name = tokens_of(tree)[0]
        if name.upper() in ex.AggregateFunction.__members__:
            return self._aggregate(tree, ex.AggregateFunction[name.upper()])
        if name.lower() in self.functions:
            return self._user_call(tree, name)
        if name.lower() not in FUNCTIONS:
            near = difflib.get_close_matches(name.upper(), _PATTERN_WORDS, n=1)
            hint = (
                f"did you mean {near[0]!r}?"
                if near
                else known_names(name, [*FUNCTIONS, *self.functions], most=99)
            )
            raise self.source_map.error(f"unknown function {str(name)!r}", name, hint)
        return ex.Call(name.lower(), tuple(self.read_operands(tree)))

    def _user_call(self, tree: SyntaxTree, name: str) -> Expression:
        function, arguments = self.functions[name.lower()], tuple(self.read_operands(tree))
        try:
            return make_call(name.lower(), function, arguments)
        except RuleError as error:
            raise self.source_map.error(error.problem, tree, error.hint) from error

    def _aggregate(self, tree: SyntaxTree, function: ex.AggregateFunction) -> Expression:
        inner, name = operands(tree), function.value
        if len(inner) != 1 or inner[0].data != "name":
            hint = f"write {name}(E1.attribute)"
            raise self.source_map.error(f"{name} takes one attribute of a variable", tree, hint)
        what = self.resolve(name_parts(inner[0]))
        path = what.path if isinstance(what, ex.Attribute) else ()
        variable = getattr(what, "variable", "")
        if not variable:
            hint = f"it stands in SELECT, as in {name}(E1.attribute)"
            raise self.source_map.error(f"{name} is over the events of a variable", tree, hint)
        if not path and function is not ex.AggregateFunction.COUNT:
            hint = f"write {name}({inner[0].children[0]}.attribute)"
            raise self.source_map.error(f"{name} needs an attribute", tree, hint)
        return ex.Aggregate(function, variable, path)

    def _read_seq(self, tree: SyntaxTree) -> Expression:
        raise self.source_map.error(
            "a pattern cannot stand inside a condition",
            tree,
            "write the pattern first, then AND and each condition; an OR of conditions needs"
            " parentheses",
        )

    _read_all = _read_seq
    _read_any = _read_seq

    def _read_repeat(self, tree: SyntaxTree) -> Expression:
        times = tokens_of(tree)[-1]
        if times.type == "MANY":
            hint = "as a repetition, it stands after an element or a group of the pattern"
            raise self.source_map.error("'+' has no value after it", times, hint)
        hint = "write it after an element or a group of the pattern"
        raise self.source_map.error("a repetition cannot stand inside a condition", times, hint)


def name_parts(tree: SyntaxTree) -> tuple[str, ...]:
    """Split a name at its dots, and take off the backquotes."""
    return tuple(unquote(token.removeprefix(".").lstrip()) for token in tokens_of(tree))


def unquote(text: str) -> str:
    """Take off the quotes or backquotes around a text, if there are any."""
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote) if quote in "'`" else str(text)


def _has_not(tree: SyntaxTree) -> bool:
    return any(token.type == "NOT" for token in tokens_of(tree))
