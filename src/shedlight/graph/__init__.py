"""The graph of an application: application file -> Application, checked and explained."""

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
from shedlight.graph.check import check_application, with_schemas
from shedlight.graph.columns import operator_columns, operator_schema
from shedlight.graph.explain import explain
from shedlight.graph.file.loader import LoadResult, load_application
from shedlight.graph.file.settings import application_json_schema
from shedlight.graph.topology import (
    ancestors,
    descendants,
    operator_order,
    operators_on,
    readers,
    sinks_of,
    successors,
)

__all__ = [
    "Application",
    "LoadResult",
    "Node",
    "OperatorSpec",
    "ShedBy",
    "SideOutput",
    "Sink",
    "Source",
    "Stream",
    "TimeUnit",
    "ancestors",
    "application_json_schema",
    "build_application",
    "check_application",
    "descendants",
    "explain",
    "load_application",
    "operator_columns",
    "operator_order",
    "operator_schema",
    "operators_on",
    "readers",
    "sinks_of",
    "successors",
    "with_schemas",
]
