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
from shedlight.graph.explain import explain
from shedlight.graph.file.loader import LoadResult, load_application
from shedlight.graph.file.settings import application_json_schema
from shedlight.graph.kafka import RecordValue
from shedlight.graph.topology import operator_order, operators_on, readers

__all__ = [
    "Application",
    "LoadResult",
    "Node",
    "OperatorSpec",
    "RecordValue",
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
