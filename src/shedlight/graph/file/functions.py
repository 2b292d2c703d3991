"""The functions that an application file names."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from shedlight.graph.file.problem import Path, Problem, problem_at
from shedlight.graph.file.settings import FunctionSettings
from shedlight.language import UserFunction, UserFunctions
from shedlight.language.check.calls import check_function_names


def read_functions(
    settings: Mapping[str, FunctionSettings],
) -> tuple[UserFunctions, list[Problem]]:
    """Find the functions, and say which cannot be found or cannot be called so."""
    functions: dict[str, UserFunction] = {}
    problems: list[Problem] = []
    for name, setting in settings.items():
        path: Path = ("functions", name)
        try:
            functions[name] = _read(setting)
            check_function_names(functions)
        except ValueError as error:
            functions.pop(name, None)
            problems.append(problem_at(path, f"is not right: {error}"))
    return functions, problems


def _read(settings: FunctionSettings) -> UserFunction:
    if (settings.python is None) == (settings.spark is None):
        raise ValueError("write either `python: module:function` or `spark: name`")
    call = settings.spark if settings.python is None else _import(settings.python)
    return UserFunction(call or "", settings.returns)


def _import(text: str) -> Callable[..., Any]:
    module, _, name = text.partition(":")
    if not module or not name:
        raise ValueError(f"`python` is {text!r}; write module:function")
    try:
        found: object = getattr(import_module(module), name)
    except Exception as error:  # importing a module runs it
        known = isinstance(error, ImportError | AttributeError)
        problem = str(error) if known else f"{type(error).__name__}: {error}"
        raise ValueError(
            f"{text!r} cannot be imported: {problem}; put it right, or install the module "
            "where Python finds it, on PYTHONPATH for example"
        ) from error
    if not callable(found):
        raise ValueError(f"{text!r} is {found!r}, which cannot be called")  # noqa: TRY004
    return found
