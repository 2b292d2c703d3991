"""An application as text: what its patterns, its model and its plans depend on.

It can be read by `load_application` and be planned for. Formats, paths and options of sources
and sinks are left out: they say where, not what, and there may be secrets among them.
"""

import json
from collections.abc import Mapping
from typing import Any

from shedlight.graph.application import Application, OperatorSpec, Sink, Source
from shedlight.graph.columns import is_hidden
from shedlight.graph.function_columns import application_functions
from shedlight.language.ast.data_type import SCHEMA_TYPE_NAMES, DataType, Schema

ELSEWHERE = "elsewhere"  # the format of sources and sinks in such a text


def application_text(application: Application) -> str:
    """Write an application as JSON, which is YAML too."""
    functions = {
        name: {"spark": name, "returns": str(call.function.returns)}
        for name, call in application_functions(application).items()
    }
    return json.dumps(
        {
            "name": application.name,
            **({"functions": functions} if functions else {}),
            "sources": {name: _source(s) for name, s in application.sources.items()},
            "nodes": {
                name: {}
                if node.bound is None
                else {"bound": _bound(node.bound, node.percentile)}
                for name, node in application.nodes.items()
            },
            "operators": {
                name: _operator(spec) for name, spec in application.operators.items()
            },
            "sinks": {name: _sink(sink) for name, sink in application.sinks.items()},
        }
    )


def _bound(seconds: float, percentile: int | None) -> str | dict[str, str]:
    time = _time(seconds * 1e6)
    return time if percentile is None else {f"p{percentile}": time}


def _source(source: Source) -> dict[str, Any]:
    declared = {} if source.schema is None else _declared(source.schema)
    return {
        "format": ELSEWHERE,
        "time": source.time,
        "time_unit": str(source.time_unit),
        "id": list(source.id),
        "columns": {n: str(v) for n, v in source.columns.items() if not is_hidden(n)},
        "lateness": _time(source.lateness),
        **({} if source.time_zone is None else {"time_zone": source.time_zone}),
    } | ({"schema": declared} if declared else {})


def _declared(schema: Schema) -> Mapping[str, Any]:
    """Write a schema; nothing if it has a data type that cannot be written, such as a map."""
    declared: dict[str, Any] = {}
    for name, data_type in schema.items():
        *outer, last = name.split(".")
        struct = declared
        for outer_name in outer:
            struct = struct.setdefault(outer_name, {})
        if data_type is DataType.STRUCT:
            struct.setdefault(last, {})
        elif str(data_type) in SCHEMA_TYPE_NAMES:
            struct[last] = str(data_type)
        else:
            return {}
    return declared


def _operator(spec: OperatorSpec) -> dict[str, Any]:
    shed_by = {} if spec.shed_by is None else {"shed_by": str(spec.shed_by)}
    never = {"never_shed": list(spec.never_shed)} if spec.never_shed else {}
    return {
        "node": spec.node,
        "input": list(map(str, spec.inputs)),
        "patterns": {name: str(pattern) for name, pattern in spec.patterns.items()},
        **shed_by,
        **never,
    }


def _sink(sink: Sink) -> dict[str, Any]:
    constraints = ("timed_out", "weight", "min_rate", "min_share")
    values = {name: getattr(sink, name) for name in constraints}
    return {"input": str(sink.input), **values, "format": ELSEWHERE}


def _time(microseconds: float) -> str:
    return f"{round(microseconds)} us"
