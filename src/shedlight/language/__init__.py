"""The language of patterns: text -> Pattern, and the expressions in it."""

from shedlight.language.ast.data_type import DataType, Schema
from shedlight.language.ast.expression import Expression
from shedlight.language.ast.pattern import Pattern, Window
from shedlight.language.ast.user_function import UserFunction, UserFunctions
from shedlight.language.check.lint import PatternWarning
from shedlight.language.check.rules import check
from shedlight.language.parse.patterns import ParseResult, parse_expression, parse_pattern

__all__ = [
    "DataType",
    "Expression",
    "ParseResult",
    "Pattern",
    "PatternWarning",
    "Schema",
    "UserFunction",
    "UserFunctions",
    "Window",
    "check",
    "parse_expression",
    "parse_pattern",
]
