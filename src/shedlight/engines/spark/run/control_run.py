"""A controller as a process of its own, for as long as it is asked to."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from shedlight.control.controller import ControlSettings
from shedlight.engines.spark.control.central import CentralController, ControllerListener
from shedlight.engines.spark.control.kafka_links import NodesLink, wait_for_control
from shedlight.engines.spark.control.override_store import OverrideWatcher
from shedlight.engines.spark.run.fingerprint import application_digest
from shedlight.engines.spark.support.kafka_admin import check_kafka
from shedlight.engines.spark.support.kafka_log import FencedError
from shedlight.engines.spark.support.spark_errors import SPARK_ERRORS, root_cause
from shedlight.errors import ApplicationError
from shedlight.graph import Application, with_schemas
from shedlight.graph.part import apart, without_ends
from shedlight.shedding.shares import sheddable

_LOG = logging.getLogger(__name__)
_POLL_S = 0.2
_RETRY_S = 5.0  # after how long brokers are called again that do not take plans


@dataclass(frozen=True, slots=True)
class ControlRun:
    """What is controlled, and where overrides are."""

    application: Application  # as its file has it
    checkpoint: Path
    settings: ControlSettings
    listener: ControllerListener
    on_begin: Callable[[CentralController], None]  # called when it is in control


def check_apart(application: Application) -> None:
    """See that an application can be controlled from elsewhere.

    Raises:
        ApplicationError: Its nodes have no channels.
    """
    if application.channels is None:
        raise ApplicationError(
            "the application has no channels, by which nodes that run by themselves could be "
            "reached; give it `channels: {format: kafka, options: ...}`, or run all nodes at "
            "once with `shedlight run`, which has a controller of its own"
        )


def control(spark: SparkSession, run: ControlRun, stopping: threading.Event) -> None:
    """Control an application until it is stopped, whenever no other controller does.

    Raises:
        StateError: The plans that are there are of another application.
        InputError: No broker can be called.
    """
    application = apart(run.application)
    digest = application_digest(application, sheddable(application))
    check_kafka(spark, without_ends(application))
    while not stopping.is_set():
        try:
            _control_until_fenced(spark, run, application, digest, stopping)
        except FencedError:
            _LOG.warning("another controller of %s took over; this one waits", application.name)
        except SPARK_ERRORS as error:
            _LOG.warning(
                "the brokers do not take plans: %s; nodes keep theirs, and it is tried again",
                root_cause(str(error)),
            )
            stopping.wait(_RETRY_S)


def _control_until_fenced(
    spark: SparkSession,
    run: ControlRun,
    application: Application,
    digest: str,
    stopping: threading.Event,
) -> None:
    """Wait until no other controller lives, and be the one, until it is stopped."""
    last = wait_for_control(spark, application, digest, stopping)
    if stopping.is_set():
        return
    link = NodesLink(spark, application, digest)
    try:
        controller = CentralController(
            with_schemas(application, {}),
            link,
            last,
            run.listener,
            OverrideWatcher(run.checkpoint),
            run.settings,
        )
        run.on_begin(controller)
        while not stopping.wait(_POLL_S):
            controller.tick(time.time(), time.monotonic())
    finally:
        link.close()
