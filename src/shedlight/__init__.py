"""Complex event processing on Apache Spark with a globally optimal load shedder.

These are the names to build on; `docs/api.md` goes through them. Each is imported when it is
first used: `import shedlight` is quick, and what does not run on Spark does not load it.

Example:
    >>> from shedlight import parse_pattern
    >>> print(parse_pattern("select a where seq(a.x = 1; b.x = 2) within 3 sec").pattern)
    SELECT a WHERE SEQ(a.x = 1, b.x = 2) WITHIN 3 s
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shedlight.control.calibration import CalibrationSettings
    from shedlight.control.controller import ControlSettings, Decision
    from shedlight.control.observation import Observation
    from shedlight.control.replan_trigger import ReplanPolicy
    from shedlight.control.smoothing import SmoothingSettings
    from shedlight.engines.event_files import read_events, write_events
    from shedlight.engines.simulator import (
        Counts,
        Interval,
        Policy,
        ServedEvents,
        Service,
        ServiceDistribution,
        Simulation,
        simulate,
    )
    from shedlight.engines.simulator.policies import ControllerPolicy
    from shedlight.engines.spark.control.micro_batch import MicroBatchReport
    from shedlight.engines.spark.control.override_store import OverrideOutcome
    from shedlight.engines.spark.run.finite import run_on_spark
    from shedlight.engines.spark.run.streaming import Live, Options, RunListener
    from shedlight.engines.spark.session.session import close_session, open_session
    from shedlight.engines.tables import Result, match_tables, run_application
    from shedlight.errors import (
        ApplicationError,
        CapError,
        InputError,
        LanguageError,
        PlanError,
        ShedlightError,
        SnapshotError,
        StateError,
    )
    from shedlight.graph import (
        Application,
        LoadResult,
        Node,
        OperatorSpec,
        ShedBy,
        SideOutput,
        Sink,
        Source,
        Stream,
        TimeUnit,
        application_json_schema,
        build_application,
        check_application,
        explain,
        load_application,
    )
    from shedlight.language import (
        DataType,
        ParseResult,
        Pattern,
        Schema,
        parse_expression,
        parse_pattern,
    )
    from shedlight.matching.operators.reorder import StreamInput
    from shedlight.model.build import build_model
    from shedlight.model.latency import LatencyModel, Target
    from shedlight.model.model import Model
    from shedlight.model.sampled.draw import RateHistory
    from shedlight.model.snapshot import MicroBatchCosts, Snapshot
    from shedlight.model.snapshot_file import read_snapshot
    from shedlight.planning.plan import Plan, PlanSettings, make_plan
    from shedlight.shedding.shares import PatternShares, Shares

__version__ = "0.1.0"

__all__ = [
    "Application",
    "ApplicationError",
    "CalibrationSettings",
    "CapError",
    "ControlSettings",
    "ControllerPolicy",
    "Counts",
    "DataType",
    "Decision",
    "InputError",
    "Interval",
    "LanguageError",
    "LatencyModel",
    "Live",
    "LoadResult",
    "MicroBatchCosts",
    "MicroBatchReport",
    "Model",
    "Node",
    "Observation",
    "OperatorSpec",
    "Options",
    "OverrideOutcome",
    "ParseResult",
    "Pattern",
    "PatternShares",
    "Plan",
    "PlanError",
    "PlanSettings",
    "Policy",
    "RateHistory",
    "ReplanPolicy",
    "Result",
    "RunListener",
    "Schema",
    "ServedEvents",
    "Service",
    "ServiceDistribution",
    "Shares",
    "ShedBy",
    "ShedlightError",
    "SideOutput",
    "Simulation",
    "Sink",
    "SmoothingSettings",
    "Snapshot",
    "SnapshotError",
    "Source",
    "StateError",
    "Stream",
    "StreamInput",
    "Target",
    "TimeUnit",
    "__version__",
    "application_json_schema",
    "build_application",
    "build_model",
    "check_application",
    "close_session",
    "explain",
    "load_application",
    "make_plan",
    "match_tables",
    "open_session",
    "parse_expression",
    "parse_pattern",
    "read_events",
    "read_snapshot",
    "run_application",
    "run_on_spark",
    "simulate",
    "write_events",
]

_NAMES_IN = {
    "control.calibration": "CalibrationSettings",
    "control.controller": "ControlSettings Decision",
    "control.observation": "Observation",
    "control.replan_trigger": "ReplanPolicy",
    "control.smoothing": "SmoothingSettings",
    "engines.event_files": "read_events write_events",
    "engines.simulator": "Counts Interval Policy ServedEvents Service ServiceDistribution "
    "Simulation simulate",
    "engines.simulator.policies": "ControllerPolicy",
    "engines.spark.control.micro_batch": "MicroBatchReport",
    "engines.spark.control.override_store": "OverrideOutcome",
    "engines.spark.run.finite": "run_on_spark",
    "engines.spark.run.streaming": "Live Options RunListener",
    "engines.spark.session.session": "close_session open_session",
    "engines.tables": "Result match_tables run_application",
    "errors": "ApplicationError CapError InputError LanguageError PlanError ShedlightError "
    "SnapshotError StateError",
    "graph": "Application LoadResult Node OperatorSpec ShedBy SideOutput Sink Source Stream "
    "TimeUnit application_json_schema build_application check_application explain "
    "load_application",
    "language": "DataType ParseResult Pattern Schema parse_expression parse_pattern",
    "matching.operators.reorder": "StreamInput",
    "model.build": "build_model",
    "model.latency": "LatencyModel Target",
    "model.model": "Model",
    "model.sampled.draw": "RateHistory",
    "model.snapshot": "MicroBatchCosts Snapshot",
    "model.snapshot_file": "read_snapshot",
    "planning.plan": "Plan PlanSettings make_plan",
    "shedding.shares": "PatternShares Shares",
}
"""The public names of each module."""
MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{MODULE_OF[name]}"), name)
    globals()[name] = value  # so that this is not called again
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *MODULE_OF})
