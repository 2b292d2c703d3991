"""What all tests share: the settings of Hypothesis, and one Spark session per run."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),  # CI repeats; at home and in soak we search
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")

_SOAK_SECONDS = 3 * 3600
"""How long a test of the soak may take, if it does not say so itself."""


@pytest.hookimpl(trylast=True)  # after they were shuffled
def pytest_collection_modifyitems(items):
    """Give the tests of the soak the time that they need; begin with those that take long."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):  # what a file has made is made once
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
        if item.get_closest_marker("soak") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_SOAK_SECONDS))
    items.sort(key=lambda item: [not item.get_closest_marker(m) for m in ("spark", "timeout")])


# a test is over before it would pay to optimise more; `make test` writes the archive
_ARCHIVE = Path(sys.prefix, "spark.jsa")
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
os.environ["SPARK_SUBMIT_OPTS"] = _QUICK + (
    f' "-XX:SharedArchiveFile={_ARCHIVE}"' if _ARCHIVE.exists() else ""
)


def _has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return bool(shutil.which("java") or (home and shutil.which("java", path=f"{home}/bin")))


@pytest.fixture(scope="session")
def java():
    """Skip what needs Java where there is none."""
    if not _has_java():
        pytest.skip("Spark needs Java, which is neither on the PATH nor in JAVA_HOME")


@pytest.fixture(scope="session")
def spark(tmp_path_factory, java):  # noqa: ARG001
    """Start one local Spark session for the whole run; its files go to a temporary folder."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  # only here is Spark needed

    from shedlight.engines.spark.session.master import Master  # noqa: PLC0415
    from shedlight.engines.spark.session.session import session_settings  # noqa: PLC0415

    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    options = session_settings(Master("local[2]", 2), {}) | {
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    connectors = [*Path(sys.prefix, "jars", "kafka-connector").glob("*.jar")]
    if connectors:  # a session takes jars when it starts, or not at all
        options["spark.jars"] = ",".join(map(str, connectors))
    builder = SparkSession.builder.master("local[2]").appName("shedlight tests")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
