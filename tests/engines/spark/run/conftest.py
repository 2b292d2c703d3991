"""A broker of Kafka for all tests of runs that need one."""

import pytest

from tests.engines.spark.broker import Broker, Topics, connector, fetched_jars


@pytest.fixture(scope="package")
def jars(java):  # noqa: ARG001
    """Skip what needs Kafka where its jars could not be fetched."""
    if not (connector() and fetched_jars("kafka-broker")):
        pytest.skip("Kafka's jars are not in .venv/jars; scripts/jars fetches them with Maven")


@pytest.fixture(scope="package")
def broker(tmp_path_factory, jars):  # noqa: ARG001
    """Run a broker; it is killed in the end, for its records are worth nothing."""
    running = Broker(tmp_path_factory.mktemp("broker"))
    running.start()
    yield running
    running.kill()


@pytest.fixture(scope="package")
def topics(broker, spark):
    """Reach the topics of the broker."""
    reached = Topics(spark, broker.servers)
    yield reached
    reached.close()
