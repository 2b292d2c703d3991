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
    from shedlight.control.calibration import CalibrationSettings as CalibrationSettings
    from shedlight.control.controller import ControlSettings as ControlSettings
    from shedlight.control.controller import Decision as Decision
    from shedlight.control.feedback import FeedbackSettings as FeedbackSettings
    from shedlight.control.observation import Observation as Observation
    from shedlight.control.replan_trigger import ReplanPolicy as ReplanPolicy
    from shedlight.control.smoothing import SmoothingSettings as SmoothingSettings
    from shedlight.control.strata import StrataSettings as StrataSettings
    from shedlight.engines.event_files import read_events as read_events
    from shedlight.engines.event_files import write_events as write_events
    from shedlight.engines.simulator import AppliedThreshold as AppliedThreshold
    from shedlight.engines.simulator import Counts as Counts
    from shedlight.engines.simulator import Interval as Interval
    from shedlight.engines.simulator import Policy as Policy
    from shedlight.engines.simulator import ServedEvents as ServedEvents
    from shedlight.engines.simulator import Service as Service
    from shedlight.engines.simulator import ServiceDistribution as ServiceDistribution
    from shedlight.engines.simulator import Simulation as Simulation
    from shedlight.engines.simulator import simulate as simulate
    from shedlight.engines.simulator.policies import ControllerPolicy as ControllerPolicy
    from shedlight.engines.spark.control.micro_batch import MicroBatchReport as MicroBatchReport
    from shedlight.engines.spark.control.override_store import (
        OverrideOutcome as OverrideOutcome,
    )
    from shedlight.engines.spark.find.find_patterns import find as find
    from shedlight.engines.spark.run.finite import run_on_spark as run_on_spark
    from shedlight.engines.spark.run.streaming import Live as Live
    from shedlight.engines.spark.run.streaming import Options as Options
    from shedlight.engines.spark.run.streaming import RunListener as RunListener
    from shedlight.engines.spark.session.session import close_session as close_session
    from shedlight.engines.spark.session.session import open_session as open_session
    from shedlight.engines.tables import Result as Result
    from shedlight.engines.tables import match_tables as match_tables
    from shedlight.engines.tables import run_application as run_application
    from shedlight.errors import ApplicationError as ApplicationError
    from shedlight.errors import CapError as CapError
    from shedlight.errors import InputError as InputError
    from shedlight.errors import LanguageError as LanguageError
    from shedlight.errors import PlanError as PlanError
    from shedlight.errors import ShedlightError as ShedlightError
    from shedlight.errors import SnapshotError as SnapshotError
    from shedlight.errors import StateError as StateError
    from shedlight.graph import Application as Application
    from shedlight.graph import Channels as Channels
    from shedlight.graph import LoadResult as LoadResult
    from shedlight.graph import Node as Node
    from shedlight.graph import OnStart as OnStart
    from shedlight.graph import OperatorSpec as OperatorSpec
    from shedlight.graph import RecordValue as RecordValue
    from shedlight.graph import RunSettings as RunSettings
    from shedlight.graph import ShedBy as ShedBy
    from shedlight.graph import SideOutput as SideOutput
    from shedlight.graph import Sink as Sink
    from shedlight.graph import Source as Source
    from shedlight.graph import Stream as Stream
    from shedlight.graph import TimeUnit as TimeUnit
    from shedlight.graph import application_json_schema as application_json_schema
    from shedlight.graph import build_application as build_application
    from shedlight.graph import check_application as check_application
    from shedlight.graph import explain as explain
    from shedlight.graph import load_application as load_application
    from shedlight.language import DataType as DataType
    from shedlight.language import ParseResult as ParseResult
    from shedlight.language import Pattern as Pattern
    from shedlight.language import Schema as Schema
    from shedlight.language import UserFunction as UserFunction
    from shedlight.language import parse_expression as parse_expression
    from shedlight.language import parse_pattern as parse_pattern
    from shedlight.matching.operators.reorder import StreamInput as StreamInput
    from shedlight.model.build import build_model as build_model
    from shedlight.model.latency import LatencyModel as LatencyModel
    from shedlight.model.latency import Target as Target
    from shedlight.model.model import Model as Model
    from shedlight.model.model import SheddingWay as SheddingWay
    from shedlight.model.sampled.draw import RateHistory as RateHistory
    from shedlight.model.snapshot import MicroBatchCosts as MicroBatchCosts
    from shedlight.model.snapshot import Snapshot as Snapshot
    from shedlight.model.snapshot import StratumRates as StratumRates
    from shedlight.model.snapshot_file import read_snapshot as read_snapshot
    from shedlight.model.spark_costs import Costs as Costs
    from shedlight.planning.plan import Plan as Plan
    from shedlight.planning.plan import PlanSettings as PlanSettings
    from shedlight.planning.plan import make_plan as make_plan
    from shedlight.planning.watchers import WatcherPlan as WatcherPlan
    from shedlight.shedding.estimate import Estimate as Estimate
    from shedlight.shedding.estimate import SinkEstimate as SinkEstimate
    from shedlight.shedding.shares import PatternShares as PatternShares
    from shedlight.shedding.shares import Shares as Shares
    from shedlight.shedding.stratum_shares import StratumShares as StratumShares

__version__ = "0.1.0"

_NAMES_IN = {
    "control.calibration": "CalibrationSettings",
    "control.controller": "ControlSettings Decision",
    "control.feedback": "FeedbackSettings",
    "control.observation": "Observation",
    "control.replan_trigger": "ReplanPolicy",
    "control.smoothing": "SmoothingSettings",
    "control.strata": "StrataSettings",
    "engines.event_files": "read_events write_events",
    "engines.simulator": "AppliedThreshold Counts Interval Policy ServedEvents Service "
    "ServiceDistribution Simulation simulate",
    "engines.simulator.policies": "ControllerPolicy",
    "engines.spark.control.micro_batch": "MicroBatchReport",
    "engines.spark.control.override_store": "OverrideOutcome",
    "engines.spark.find.find_patterns": "find",
    "engines.spark.run.finite": "run_on_spark",
    "engines.spark.run.streaming": "Live Options RunListener",
    "engines.spark.session.session": "close_session open_session",
    "engines.tables": "Result match_tables run_application",
    "errors": "ApplicationError CapError InputError LanguageError PlanError ShedlightError "
    "SnapshotError StateError",
    "graph": "Application Channels LoadResult Node OnStart OperatorSpec RecordValue "
    "RunSettings ShedBy SideOutput Sink Source Stream TimeUnit application_json_schema "
    "build_application check_application explain load_application",
    "language": "DataType ParseResult Pattern Schema UserFunction parse_expression "
    "parse_pattern",
    "matching.operators.reorder": "StreamInput",
    "model.build": "build_model",
    "model.latency": "LatencyModel Target",
    "model.model": "Model SheddingWay",
    "model.sampled.draw": "RateHistory",
    "model.snapshot": "MicroBatchCosts Snapshot StratumRates",
    "model.snapshot_file": "read_snapshot",
    "model.spark_costs": "Costs",
    "planning.plan": "Plan PlanSettings make_plan",
    "planning.watchers": "WatcherPlan",
    "shedding.estimate": "Estimate SinkEstimate",
    "shedding.shares": "PatternShares Shares",
    "shedding.stratum_shares": "StratumShares",
}
"""The public names of each module."""
MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names.split()}
if not TYPE_CHECKING:  # type checkers know what is public by the imports above
    __all__ = ["__version__", *MODULE_OF]  # noqa: PLE0604  # they are strings


def __getattr__(name: str) -> object:
    if name not in MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{MODULE_OF[name]}")
    except ModuleNotFoundError as error:
        missing = import_module(f"{__name__}.errors").missing_extra(error)
        if missing is None:
            raise
        raise missing from error
    value: object = getattr(module, name)
    globals()[name] = value  # so that this is not called again
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *MODULE_OF})
