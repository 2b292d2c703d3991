"""The language of patterns: text -> Pattern, and the expressions in it."""

from shedlight.language.ast.data_type import Kind, Schema
from shedlight.language.ast.expression import Expression
from shedlight.language.ast.pattern import Pattern, Window
from shedlight.language.check.lint import Caution
from shedlight.language.check.rules import check
from shedlight.language.parse.patterns import Parsed, parse_expression, parse_pattern

__all__ = [
    "Caution",
    "Expression",
    "Kind",
    "Parsed",
    "Pattern",
    "Schema",
    "Window",
    "check",
    "parse_expression",
    "parse_pattern",
]
