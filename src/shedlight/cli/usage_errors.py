"""What is wrong with the value of an option, in our words: with what can be given instead."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from shedlight.errors import known_names

if TYPE_CHECKING:  # it is not loaded for a command that is called well
    from pydantic import ValidationError

_CHOICE = re.compile(r"is not one of (.*)\.$", re.DOTALL)
_RULES: Mapping[str, str] = {
    "int_parsing": "is no whole number",
    "int_parsing_size": "has too many digits",
    "int_from_float": "is no whole number",
    "float_parsing": "is no number; write it as in 0.5",
    "finite_number": "is no number that can be reckoned with",
    "greater_than": "is too little; it must be more than {gt}",
    "greater_than_equal": "is too little; it must be {ge} or more",
    "less_than": "is too much; it must be less than {lt}",
    "less_than_equal": "is too much; it must be {le} or less",
}


class Command(TyperCommand):
    """A command whose options say in our words what is wrong with a value."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:  # noqa: ANN401  # click's
        """Read the options."""
        try:
            return super().make_context(*arguments, **more)
        except typer.BadParameter as error:
            from pydantic import ValidationError  # noqa: PLC0415

            if isinstance(error.__cause__, ValidationError):
                error.message = explain_value(error.__cause__)
            raise


def explain_value(error: "ValidationError") -> str:
    """Say what is wrong with a value."""
    first = error.errors(include_url=False)[0]
    choice = _CHOICE.search(first["msg"])
    if choice is not None:
        known = [name.strip(" '") for name in choice[1].split(", ")]
        return f"{first['input']!r} cannot be chosen; {known_names(str(first['input']), known)}"
    rule = _RULES.get(first["type"])
    if rule is None:
        return first["msg"]
    return f"{first['input']!r} {rule.format_map(first.get('ctx', {}))}"
