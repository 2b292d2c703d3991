"""What a cluster of Kafka has, asked through the client in Spark's JVM: topics and offsets.

It is asked before queries start: a topic that is not there takes Spark minutes to complain of.
Over Spark Connect there is no JVM at hand, and nothing is asked.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from shedlight.engines.spark.session.brokers import check_brokers, kafka_options
from shedlight.engines.spark.support.spark_errors import root_cause
from shedlight.errors import InputError, known_names
from shedlight.graph import Application
from shedlight.graph.kafka import SERVERS, TOPIC

CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_PREFIX = "kafka."  # of options that are for the client
_ANSWER_WITHIN_S = 15

Offsets = Mapping[str, Mapping[int, int]]  # of each partition of each topic


def check_kafka(spark: SparkSession, application: Application) -> None:
    """See that the connector, the brokers and the topics of an application are there.

    Raises:
        InputError: One of them is not; the message names who needs it, and says what to do.
    """
    places = list(kafka_options(application))
    if not places or not has_jvm(spark):
        return
    if not _has_class(spark, CONNECTOR):
        raise InputError(
            f"{places[0][0]}: Spark has no connector for Kafka; add it with "
            f"--conf spark.jars.packages={_PACKAGE}:{spark.version}, or its jars with "
            "--conf spark.jars=..."
        )
    check_brokers(application)
    topics: dict[str, list[str]] = {}
    for what, options in places:
        servers = options[SERVERS]
        if servers not in topics:
            with kafka_admin(spark, what, options) as admin:
                topics[servers] = admin.topics()
        for option, name in _named_topics(options):
            if name not in topics[servers]:
                raise InputError(
                    f"{what}: Kafka at {servers} has no topic {name!r}; create it, or put the "
                    f"option {option} right; {known_names(name, topics[servers])}"
                )


def has_jvm(spark: SparkSession) -> bool:
    """Say whether Spark's JVM can be called."""
    return hasattr(spark, "_jvm")


def _has_class(spark: SparkSession, name: str) -> bool:
    loader: Any = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]  # noqa: SLF001
    try:
        loader.loadClass(name)
    except Py4JError:
        return False
    return True


def _named_topics(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """List the topics that options name, each with its option."""
    for name in options.get("subscribe", "").split(","):
        if name.strip():
            yield "subscribe", name.strip()
    if TOPIC in options:
        yield TOPIC, options[TOPIC]


@dataclass(frozen=True, slots=True)
class KafkaAdmin:
    """A cluster of Kafka that can be asked."""

    jvm: Any
    client: Any

    def topics(self) -> list[str]:
        """List its topics."""
        options = self.jvm.org.apache.kafka.clients.admin.ListTopicsOptions().listInternal(True)  # noqa: FBT003
        names = self._answer(self.client.listTopics(options).names())
        return str(self.jvm.java.lang.String.join("\n", names)).splitlines()

    def partitions(self, topics: Sequence[str]) -> Mapping[str, list[int]]:
        """List the partitions of topics."""
        wanted = self.jvm.java.util.ArrayList()
        for topic in topics:
            wanted.add(topic)
        found = self._answer(self.client.describeTopics(wanted).allTopicNames())
        return {
            topic: sorted(int(one.partition()) for one in found.get(topic).partitions())
            for topic in topics
        }

    def create_topic(
        self, topic: str, partitions: int, settings: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic with settings; the brokers say how often it is replicated."""
        optional = self.jvm.java.util.Optional
        new_topic = self.jvm.org.apache.kafka.clients.admin.NewTopic
        wanted = self.jvm.java.util.HashMap()
        for name, text in (settings or {}).items():
            wanted.put(name, text)
        made = self.jvm.java.util.ArrayList()
        made.add(new_topic(topic, optional.of(partitions), optional.empty()).configs(wanted))
        self._answer(self.client.createTopics(made).all())

    def offsets(self, partitions: Mapping[str, Sequence[int]], *, first: bool) -> Offsets:
        """Find the first offsets that there are, or the next that there will be."""
        specs = self.jvm.org.apache.kafka.clients.admin.OffsetSpec
        topic_partition = self.jvm.org.apache.kafka.common.TopicPartition
        wanted = self.jvm.java.util.HashMap()
        for topic, numbers in partitions.items():
            for number in numbers:
                spec = specs.earliest() if first else specs.latest()
                wanted.put(topic_partition(topic, number), spec)
        found = self._answer(self.client.listOffsets(wanted).all())
        return {
            topic: {n: int(found.get(topic_partition(topic, n)).offset()) for n in numbers}
            for topic, numbers in partitions.items()
        }

    def _answer(self, future: Any) -> Any:  # noqa: ANN401  # it is of Java
        return future.get(_ANSWER_WITHIN_S, self.jvm.java.util.concurrent.TimeUnit.SECONDS)


def client_settings(jvm: Any, options: Mapping[str, str]) -> Any:  # noqa: ANN401  # of Java
    """Give the options that are for Kafka's client as it takes them."""
    settings = jvm.java.util.Properties()
    for name, text in options.items():
        if name.startswith(_PREFIX):
            settings.put(name.removeprefix(_PREFIX), text)
    return settings


@contextmanager
def kafka_admin(
    spark: SparkSession, what: str, options: Mapping[str, str]
) -> Iterator[KafkaAdmin]:
    """Connect to the cluster that options name; an error says what needs it."""
    jvm: Any = spark._jvm  # noqa: SLF001  # as PySpark's own connectors do
    settings = client_settings(jvm, options)
    settings.put("default.api.timeout.ms", str(_ANSWER_WITHIN_S * 1000))
    settings.put("request.timeout.ms", str(_ANSWER_WITHIN_S * 500))
    client = None
    try:
        client = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        yield KafkaAdmin(jvm, client)
    except Py4JError as error:
        raise InputError(
            f"{what}: Kafka at {options[SERVERS]} does not answer as it should: "
            f"{root_cause(str(error))}; see that these are brokers of Kafka, and that the "
            f"options that begin with {_PREFIX} let us in"
        ) from error
    finally:
        if client is not None:
            client.close(jvm.java.time.Duration.ofSeconds(1))
