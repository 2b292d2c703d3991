"""The language of patterns: text -> Pattern, and the expressions in it."""

from shedlight.language.cautions import Caution
from shedlight.language.expression import Expression
from shedlight.language.kind import Kind, Schema
from shedlight.language.parser import Parsed, parse_expression, parse_pattern
from shedlight.language.pattern import Pattern, Window
from shedlight.language.rules import check

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
