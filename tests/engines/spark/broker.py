"""A broker of Kafka for tests: a process of its own on the loopback, from Maven's jars."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from shedlight.engines.spark.support.kafka_admin import kafka_admin

JARS = Path(sys.prefix, "jars")
_JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m")
_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"
_PATIENCE_S = 120


def fetched_jars(name: str) -> list[str]:
    """List the jars that `make test` has fetched, if all of them are there."""
    folder = JARS / name
    return sorted(map(str, folder.glob("*.jar"))) if (folder / "pom.xml").exists() else []


def connector() -> str:
    """Give Spark's connector for Kafka, as spark.jars takes it."""
    return ",".join(fetched_jars("kafka-connector"))


class Broker:
    """A broker that keeps its records in a folder, and can be killed and started again.

    It may have doors: ports on the loopback by name, each of which gives clients another
    address to call, that of a link that leads there.
    """

    def __init__(self, folder: Path, doors: Mapping[str, str] | None = None) -> None:
        self._folder, doors = folder, doors or {}
        ports = _free_ports(2 + len(doors))
        self.servers = f"127.0.0.1:{ports[0]}"
        self.doors = dict(zip(doors, ports[2:], strict=True))
        inner = "".join(f",{name}://127.0.0.1:{port}" for name, port in self.doors.items())
        outer = "".join(f",{name}://{address}" for name, address in doors.items())
        names = "".join(f",{name}:PLAINTEXT" for name in doors)
        self._settings = folder / "server.properties"
        self._settings.write_text(
            "process.roles=broker,controller\n"
            "node.id=1\n"
            f"controller.quorum.bootstrap.servers=127.0.0.1:{ports[1]}\n"
            f"listeners=PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{ports[1]}{inner}\n"
            f"advertised.listeners=PLAINTEXT://{self.servers}{outer}\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
            f"{names}\n"
            "inter.broker.listener.name=PLAINTEXT\n"
            "controller.listener.names=CONTROLLER\n"
            f"log.dirs={folder / 'records'}\n"
            "auto.create.topics.enable=false\n"
            "offsets.topic.replication.factor=1\n"
            "transaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\n"
            "group.initial.rebalance.delay.ms=0\n"
            "log.retention.ms=-1\n"  # records of tests are of 1970, and would soon be removed
        )
        format_ = ("format", "--standalone", "--cluster-id", _CLUSTER)
        self.tool("kafka.tools.StorageTool", *format_, "--config", str(self._settings))
        self._process: subprocess.Popen[bytes]

    def start(self) -> None:
        """Start it, and wait until it takes calls."""
        with (self._folder / "said").open("ab") as said:
            command = [*_JAVA, "-cp", _class_path(), "kafka.Kafka", str(self._settings)]
            self._process = subprocess.Popen(command, stdout=said, stderr=said)
        over = time.monotonic() + _PATIENCE_S
        host, port = self.servers.split(":")
        while True:
            with suppress(OSError):
                socket.create_connection((host, int(port)), 1).close()
                return
            assert self._process.poll() is None, (self._folder / "said").read_text()
            assert time.monotonic() < over, "the broker does not start"
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once, as a power cut does."""
        self._process.kill()
        self._process.wait()

    def tool(self, main: str, *words: str, typed: str = "") -> str:
        """Run a program of Kafka; give what it prints."""
        command = [*_JAVA, "-cp", _class_path(), main, *words]
        done = subprocess.run(
            command, input=typed, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def _class_path() -> str:
    return f"{JARS / 'kafka-broker'}/*"


def _free_ports(number: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Topics:
    """The topics of a broker, reached through the client in a session's JVM."""

    def __init__(self, spark: SparkSession, servers: str) -> None:
        self._spark, self.servers = spark, servers
        self._jvm: Any = spark._jvm  # noqa: SLF001
        self._producer: Any = None

    def create(self, *names: str, partitions: int = 1) -> None:
        """Make topics that are not there."""
        made = self._jvm.java.util.ArrayList()
        for name in names:
            new_topic = self._jvm.org.apache.kafka.clients.admin.NewTopic
            made.add(new_topic(name, partitions, 1))
        options = {"kafka.bootstrap.servers": self.servers}
        with kafka_admin(self._spark, "the test", options) as admin:
            admin.client.createTopics(made).all().get()

    def send(
        self,
        topic: str,
        values: Iterable[str | None],
        *,
        key: str | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, str]] = (),
        timestamp_ms: int | None = None,
    ) -> None:
        """Write records, and wait until the broker has them."""
        record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord
        producer, sent = self._connected(), []
        for value in values:
            one = record(topic, partition, timestamp_ms, key, value)
            for name, text in headers:
                one.headers().add(name, text.encode())
            sent.append(producer.send(one))
        for future in sent:
            future.get()  # it raises what went wrong

    def _connected(self) -> Any:  # it is of Java
        if self._producer is None:
            settings = self._jvm.java.util.Properties()
            text = "org.apache.kafka.common.serialization.StringSerializer"
            for name, value in {
                "bootstrap.servers": self.servers,
                "key.serializer": text,
                "value.serializer": text,
                # A new topic may not have its leader yet. Of several requests under way the
                # first would be refused and a later one taken: a broker that has nothing of
                # this producer takes any number, and the first is out of order for ever.
                "max.in.flight.requests.per.connection": "1",
            }.items():
                settings.put(name, value)
            producer = self._jvm.org.apache.kafka.clients.producer.KafkaProducer
            self._producer = producer(settings)
        return self._producer

    def read(self, topic: str) -> list[Mapping[str, Any]]:
        """Give all records of a topic: key, and what is in their JSON values."""
        reader = self._spark.read.format("kafka").option("subscribe", topic)
        records = reader.option("kafka.bootstrap.servers", self.servers).load()
        rows = records.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").collect()
        return [{"key": row.key, **json.loads(row.value)} for row in rows]

    def close(self) -> None:
        """Let go of the broker."""
        if self._producer is not None:
            self._producer.close()
