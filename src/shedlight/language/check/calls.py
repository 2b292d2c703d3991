"""Calls of functions of the user: about exactly one event, with values that are there."""

import hashlib

from shedlight.errors import RuleError, join_words
from shedlight.language.ast import expression as ex
from shedlight.language.ast.data_type import Schema
from shedlight.language.ast.user_function import UserFunction, UserFunctions
from shedlight.language.check.expr_types import Scope, data_type_of
from shedlight.language.functions import FUNCTIONS


def check_calls(expression: ex.Expression, scope: Scope, schema: Schema | None) -> None:
    """See that what is given to functions of the user is there, and is a value.

    Where what a function gives is a column already, nobody asks for what it was given.
    """
    for node in ex.walk(expression):
        if not isinstance(node, ex.FunctionValue) or (schema and node.column in schema):
            continue
        for argument in node.call.arguments:
            check_calls(argument, scope, schema)
        try:
            data_type_of(node.call, scope)
        except RuleError as error:
            raise RuleError(node, error.problem, error.hint) from error


def make_call(
    name: str, function: UserFunction, arguments: tuple[ex.Expression, ...]
) -> ex.FunctionValue:
    """Call a function of the user; RuleError if it is not about exactly one event."""
    call = ex.UserCall(name, function, arguments)
    nodes = [node for argument in arguments for node in ex.walk(argument)]
    for node in nodes:
        if isinstance(node, ex.WholeEvent | ex.Aggregate):
            hint = "name attributes, such as E1.cpu"
            raise RuleError(call, f"`{name}` takes attributes of one event, got {node}", hint)
    names = sorted({node.variable for node in nodes if isinstance(node, ex.Attribute)})
    if not names:
        hint = f"give it an attribute, as in {name}(E1.cpu), or write the value itself"
        raise RuleError(call, f"`{name}` is about no event", hint)
    if len(names) > 1:
        listed = join_words((repr(one) for one in names if one), "and")
        problem = f"`{name}` is computed for one event by itself, this mentions {listed}"
        hint = f"call it for each and compare what it gives, as in {name}(A.x) > {name}(B.x)"
        raise RuleError(call, problem, hint)
    row = ex.UserCall(name, function, tuple(map(ex.without_variable, arguments)))
    digest = hashlib.sha256(str(row).encode()).hexdigest()[:12]
    return ex.FunctionValue(names[0], (f"#{name}_{digest}",), row)


def check_function_names(functions: UserFunctions) -> UserFunctions:
    """Give functions of the user by name in lower case; ValueError if one cannot be called."""
    checked: dict[str, UserFunction] = {}
    for name, function in functions.items():
        if not isinstance(function, UserFunction):
            raise ValueError(  # noqa: TRY004  # it is said with the name, as what else is wrong
                f"the function {name!r} is {function!r}; give a UserFunction"
            )
        lower = name.lower()
        if not name.isidentifier() or not name.isascii() or lower in ex.KEYWORDS:
            raise ValueError(f"{name!r} is not the name of a function; write it like a column")
        if lower in FUNCTIONS or name.upper() in ex.AggregateFunction.__members__:
            raise ValueError(f"the language has a function {name!r} already; call it otherwise")
        if lower in checked:
            raise ValueError(f"two functions are named {name!r}, and case makes no difference")
        checked[lower] = function
    return checked
