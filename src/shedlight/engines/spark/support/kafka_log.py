"""Topics of a single partition that are read and written by the driver, text by text.

The client is that in Spark's JVM. Whoever writes does not wait for brokers, unless he writes in
transactions; whoever reads gets what is committed, in order.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from shedlight.engines.spark.support.kafka_admin import client_settings, kafka_admin
from shedlight.engines.spark.support.spark_errors import root_cause
from shedlight.errors import StateError

_TEXT = "org.apache.kafka.common.serialization.String"
_MAX_BLOCK_MS = 2_000  # how long a call may take while no broker answers
_COMPACTED = {"cleanup.policy": "compact"}


class FencedError(StateError):
    """Somebody else began to write with the same transactional id."""


@dataclass(frozen=True, slots=True)
class Message:
    """A record of a topic."""

    key: str
    text: str


def ensure_log(
    spark: SparkSession, what: str, options: Mapping[str, str], topic: str, *, compacted: bool
) -> None:
    """Make a topic that is not there; one that is compacted keeps the last text of each key."""
    with kafka_admin(spark, what, options) as admin:
        if topic not in admin.topics():
            admin.create_topic(topic, 1, _COMPACTED if compacted else {})


class TopicWriter:
    """Writes to a topic; with a transactional id nobody else does at the same time."""

    def __init__(
        self,
        spark: SparkSession,
        options: Mapping[str, str],
        topic: str,
        transactional_id: str | None = None,
    ) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001  # as PySpark's own connectors do
        self._jvm = jvm
        self._topic, self._in_transactions = topic, transactional_id is not None
        self._sent: list[Any] = []  # of which it is not known yet whether brokers have them
        settings = client_settings(self._jvm, options)
        settings.put("key.serializer", f"{_TEXT}Serializer")
        settings.put("value.serializer", f"{_TEXT}Serializer")
        settings.put("max.in.flight.requests.per.connection", "1")  # as of channels
        if transactional_id is None:
            settings.put("max.block.ms", str(_MAX_BLOCK_MS))
        else:
            settings.put("transactional.id", transactional_id)
        self._producer = self._jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)
        if self._in_transactions:
            with _as_fenced():
                self._producer.initTransactions()

    def send(self, key: str, text: str) -> None:
        """Write a text.

        Raises:
            FencedError: Somebody else writes with the same transactional id now.
        """
        self.send_all({key: text})

    def send_all(self, texts: Mapping[str, str]) -> None:
        """Write texts by their keys; in a transaction all of them or none.

        Raises:
            FencedError: Somebody else writes with the same transactional id now.
        """
        record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord
        records = [record(self._topic, 0, key, text) for key, text in texts.items()]
        if not self._in_transactions:
            self._sent += [self._producer.send(each) for each in records]
            return
        with _as_fenced():
            self._producer.beginTransaction()
            for each in records:
                self._producer.send(each)
            self._producer.commitTransaction()

    def send_and_wait(self, key: str, text: str) -> None:
        """Write a text, and wait until the brokers have it."""
        self.send(key, text)
        for each in self._sent:
            each.get()

    def has_lost(self) -> bool:
        """Say whether something was lost that was sent since this was last asked."""
        done = [each for each in self._sent if each.isDone()]
        self._sent = [each for each in self._sent if each not in done]
        try:
            for each in done:
                each.get()
        except Py4JError:
            return True
        return False

    def close(self) -> None:
        """Let go of the brokers."""
        self._producer.close(self._jvm.java.time.Duration.ofSeconds(1))


class TopicReader:
    """Reads a topic, from its first record or from what comes from now on."""

    def __init__(
        self, spark: SparkSession, options: Mapping[str, str], topic: str, *, whole: bool
    ) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001
        self._jvm = jvm
        settings = client_settings(self._jvm, options)
        settings.put("key.deserializer", f"{_TEXT}Deserializer")
        settings.put("value.deserializer", f"{_TEXT}Deserializer")
        settings.put("isolation.level", "read_committed")
        settings.put("enable.auto.commit", "false")
        settings.put("auto.offset.reset", "earliest")
        settings.put("default.api.timeout.ms", str(_MAX_BLOCK_MS * 5))
        self._consumer = self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
        self._partition = self._jvm.org.apache.kafka.common.TopicPartition(topic, 0)
        partitions = self._jvm.java.util.ArrayList()
        partitions.add(self._partition)
        self._consumer.assign(partitions)
        ends = self._consumer.endOffsets(partitions)
        self._end = int(ends.get(self._partition))
        if whole:
            self._consumer.seekToBeginning(partitions)
        else:
            self._consumer.seek(self._partition, self._end)

    def poll(self, seconds: float = 0.0) -> list[Message]:
        """Give what has come, and wait so long if there is nothing."""
        wait = self._jvm.java.time.Duration.ofMillis(round(seconds * 1e3))
        records = self._consumer.poll(wait).iterator()
        found = []
        while records.hasNext():
            record = records.next()
            found.append(Message(str(record.key()), str(record.value())))
        return found

    def read_stored(self) -> list[Message]:
        """Give all that was there when it was opened."""
        found: list[Message] = []
        while int(self._consumer.position(self._partition)) < self._end:
            found += self.poll(0.2)
        return found

    def close(self) -> None:
        """Let go of the brokers."""
        self._consumer.close(self._jvm.java.time.Duration.ofSeconds(1))


_FENCED = ("ProducerFencedException", "InvalidProducerEpoch", "fenced")


@contextmanager
def _as_fenced() -> Iterator[None]:
    """Tell an error that somebody else writes now from others."""
    try:
        yield
    except Py4JError as error:
        if any(name in str(error) for name in _FENCED):
            raise FencedError(root_cause(str(error))) from error
        raise
