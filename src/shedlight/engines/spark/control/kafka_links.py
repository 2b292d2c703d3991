"""The ways between nodes and a controller apart from them, by topics of Kafka."""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from threading import Event

from pyspark.sql import SparkSession

from shedlight.engines.spark.control.messages import (
    NodeReport,
    PlanMessage,
    control_topics,
    join_parts,
    plan_from_text,
    plan_to_text,
    report_from_text,
    report_to_text,
)
from shedlight.engines.spark.support.kafka_log import TopicReader, TopicWriter, ensure_log
from shedlight.errors import StateError
from shedlight.graph import Application

_LOG = logging.getLogger(__name__)

_ALIVE = "alive"
WHAT = "channels"  # who needs the topics, in messages


def channel_options(application: Application) -> Mapping[str, str]:
    """Give the options of the channels of an application, with names in lower case."""
    if application.channels is None:
        raise ValueError("the application has no channels")
    return {name.lower(): text for name, text in application.channels.options.items()}


class NodeLink:
    """The way from a node to its controller and back."""

    def __init__(
        self, spark: SparkSession, application: Application, digest: str, node: str
    ) -> None:
        topics, options = control_topics(application), channel_options(application)
        self._digest, self._topics = digest, topics
        self._keys = {_part_key(node), _ALIVE}
        ensure_log(spark, WHAT, options, topics.plans, compacted=True)
        ensure_log(spark, WHAT, options, topics.reports, compacted=False)
        self._writer = TopicWriter(spark, options, topics.reports)
        self._reader = TopicReader(spark, options, topics.plans, whole=True)

    def report(self, report: NodeReport) -> bool:
        """Send a report; False if one before it was lost."""
        self._writer.send(report.node, report_to_text(report, self._digest))
        return not self._writer.has_lost()

    def poll(self) -> list[PlanMessage]:
        """Give what has come for the node of plans: the last of each key."""
        last = {message.key: message.text for message in self._reader.poll()}
        return [
            plan_from_text(text, self._digest, self._topics.plans)
            for key, text in last.items()
            if key in self._keys
        ]

    def close(self) -> None:
        """Let go of the brokers."""
        self._writer.close()
        self._reader.close()


class NodesLink:
    """The way from the controller to its nodes and back.

    Whoever opens it is the only one who can publish from then on.
    """

    def __init__(self, spark: SparkSession, application: Application, digest: str) -> None:
        topics, options = control_topics(application), channel_options(application)
        self._digest, self._topics, self._application = digest, topics, application
        ensure_log(spark, WHAT, options, topics.reports, compacted=False)
        self._writer = TopicWriter(spark, options, topics.plans, topics.plans)
        self._reader = TopicReader(spark, options, topics.reports, whole=False)
        self._strangers: set[str] = set()

    def publish(self, plan: PlanMessage) -> None:
        """Send each node its part of a plan, all at once, or that the controller lives."""
        parts = {_ALIVE: plan}
        if plan.number:
            parts = {
                _part_key(node): plan.of_node(self._application, node)
                for node in self._application.nodes
            }
        self._writer.send_all(
            {key: plan_to_text(part, self._digest) for key, part in parts.items()}
        )

    def poll(self) -> list[NodeReport]:
        """Give the reports that have come; those of another application are left out."""
        reports = []
        for message in self._reader.poll():
            try:
                report = report_from_text(message.text, self._digest, self._topics.reports)
            except StateError as error:
                if message.key not in self._strangers:
                    self._strangers.add(message.key)
                    _LOG.warning("a report of node %s is left out: %s", message.key, error)
            else:
                reports.append(report)
        return reports

    def close(self) -> None:
        """Let go of the brokers."""
        self._writer.close()
        self._reader.close()


def _part_key(node: str) -> str:
    return f"plan of {node}"


TAKE_OVER_S = 6.0  # for how long a controller must say nothing before another takes its place


def wait_for_control(
    spark: SparkSession, application: Application, digest: str, stopping: Event
) -> PlanMessage:
    """Wait until no other controller lives, or it is stopped; give the last plan, if any.

    Raises:
        StateError: The plans are of another application.
    """
    topics, options = control_topics(application), channel_options(application)
    ensure_log(spark, WHAT, options, topics.plans, compacted=True)
    reader = TopicReader(spark, options, topics.plans, whole=True)
    try:
        last = {message.key: message.text for message in reader.read_stored()}
        was_said, last_word = False, time.monotonic()
        while last and time.monotonic() - last_word < TAKE_OVER_S and not stopping.is_set():
            new = {message.key: message.text for message in reader.poll(0.5)}
            if new:
                last, last_word = {**last, **new}, time.monotonic()
            if new and not was_said:
                was_said = True
                _LOG.warning(
                    "another controller of %s is there; this one waits, and takes its place "
                    "when it has said nothing for %g s",
                    application.name,
                    TAKE_OVER_S,
                )
    finally:
        reader.close()
    plans = {key: plan_from_text(text, digest, topics.plans) for key, text in last.items()}
    plan = join_parts(part for key, part in plans.items() if key != _ALIVE)
    return replace(plan, epoch=max((each.epoch for each in plans.values()), default=0))
