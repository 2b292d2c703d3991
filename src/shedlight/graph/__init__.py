"""The graph of an application: application file -> Application, checked and explained.

What reads no application file loads no YAML, and what matches patterns alone loads nothing that
checks or explains an application: these names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from shedlight.graph.application import (
    Application,
    Node,
    OperatorSpec,
    ShedBy,
    SideOutput,
    Sink,
    Source,
    Stream,
    TimeUnit,
    build_application,
)
from shedlight.graph.channels import Channels
from shedlight.graph.kafka import RecordValue
from shedlight.graph.run_settings import OnStart, RunSettings
from shedlight.graph.topology import operator_order, operators_on, readers

if TYPE_CHECKING:
    from shedlight.graph.check import check_application, with_schemas
    from shedlight.graph.explain import explain
    from shedlight.graph.file.loader import LoadResult, load_application
    from shedlight.graph.file.settings import application_json_schema

_MODULE_OF = {
    "check_application": "check",
    "explain": "explain",
    "with_schemas": "check",
    "LoadResult": "file.loader",
    "load_application": "file.loader",
    "application_json_schema": "file.settings",
}

__all__ = [
    "Application",
    "Channels",
    "LoadResult",
    "Node",
    "OnStart",
    "OperatorSpec",
    "RecordValue",
    "RunSettings",
    "ShedBy",
    "SideOutput",
    "Sink",
    "Source",
    "Stream",
    "TimeUnit",
    "application_json_schema",
    "build_application",
    "check_application",
    "explain",
    "load_application",
    "operator_order",
    "operators_on",
    "readers",
    "with_schemas",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # so that this is not called again
    return value
