"""From plain values to settings, and in our words what is wrong with them."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from shedlight.errors import known_names
from shedlight.graph.file import settings as st
from shedlight.graph.file.problem import Path, Problem, format_path, problem_at, shorten
from shedlight.graph.file.values import describe
from shedlight.graph.file.yaml_lines import Value

_SECTIONS: Mapping[str, type[st.StrictSettings]] = {
    "sources": st.SourceSettings,
    "nodes": st.NodeSettings,
    "operators": st.OperatorSettings,
    "sinks": st.SinkSettings,
    "functions": st.FunctionSettings,
    "run": st.RunFileSettings,
}
_WITHIN_SOURCES: Mapping[str, type[st.StrictSettings]] = {
    "late": st.LocationSettings,
    "malformed": st.LocationSettings,
    "value": st.ValueSettings,
}


def read_settings(value: Value) -> tuple[st.ApplicationSettings | None, tuple[Problem, ...]]:
    """Read what an application file says, or list what is wrong with it."""
    if not isinstance(value, dict):
        problem = f"an application is a mapping, got {describe(value)}"
        return None, (Problem((), f"{problem}; write `name: ...` and so on"),)
    try:
        return st.ApplicationSettings.model_validate(value), ()
    except ValidationError as error:
        return None, tuple(_problems(error))


def _problems(error: ValidationError) -> Iterator[Problem]:
    """Say what pydantic found, but not what is inside a part with a bad name."""
    details = error.errors(include_url=False)
    bad = {detail["loc"][:-1] for detail in details if detail["loc"][-1:] == ("[key]",)}
    misspelt = {d["loc"] for d in details if d["type"] == "extra_forbidden"}
    for detail in details:
        path = detail["loc"]
        if path[-1:] == ("[key]",):
            yield Problem(path[:-1], f"{format_path(path[:-2])} {_reason(detail)}")
        elif not (
            any(path[:length] in bad for length in range(len(path) + 1))
            or (detail["type"] == "missing" and _is_near(path, misspelt))
        ):
            yield _problem(path, detail)


def _is_near(missing: Path, misspelt: set[Path]) -> bool:
    """Whether a missing setting is there under a name that is nearly right."""
    others = [str(path[-1])[:99] for path in misspelt if path[:-1] == missing[:-1]]
    return bool(get_close_matches(str(missing[-1]), others, n=1))


def _problem(path: Path, detail: Mapping[str, Any]) -> Problem:
    here, last = format_path(path[:-1]), shorten(str(path[-1]))
    if detail["type"] == "extra_forbidden":
        hint = known_names(last, _known(path))
        return Problem(path, f"{here} has no setting {last!r}; {hint}")
    if detail["type"] == "missing":
        return Problem(path, f"{here} has no {last!r}, which it needs: {_known(path)[last]}")
    if detail["type"] in {"model_type", "dict_type"}:
        problem = f"must be a mapping, got {describe(detail['input'])}"
        return problem_at(path, problem, "write `name: value` pairs")
    return problem_at(path, _reason(detail))


def _known(path: Path) -> Mapping[str, str]:
    """Find the settings of the part that a path leads into, and what they mean."""
    model: type[st.StrictSettings] = st.ApplicationSettings
    if len(path) > 1:
        within = str(path[2]) if len(path) > _DEEP else ""
        model = _WITHIN_SOURCES.get(within, _SECTIONS[str(path[0])])
    fields = model.model_fields.items()
    return {field.alias or name: field.description or "" for name, field in fields}


_DEEP = 3  # the length of the path to a setting of a source


def _reason(detail: Mapping[str, Any]) -> str:
    """Take the reason that a reader of `settings.py` gave."""
    return str(detail.get("ctx", {}).get("error") or f"is wrong: {detail['msg']}")
