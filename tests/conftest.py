"""What all tests share: Hypothesis, which process runs what, a Spark session per process."""

import os
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

_CI = bool(os.environ.get("CI"))
_FOUND_AS_IS = (Phase.explicit, Phase.generate)
"""In CI a case that fails is told at once: making it smaller can outlast the test."""

settings.register_profile(
    "default",
    deadline=None,
    derandomize=_CI,  # CI repeats; at home and in soak we search
    phases=_FOUND_AS_IS if _CI else tuple(Phase),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")

_SOAK_SECONDS = 3 * 3600
"""How long a test of the soak may take, if it does not say so itself."""


@pytest.hookimpl(trylast=True)  # after they were shuffled
def pytest_collection_modifyitems(config, items):
    """Give the tests of the soak the time that they need; begin with those that take long."""
    for item in items:
        if item.get_closest_marker("soak") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_SOAK_SECONDS))

    def order(item):
        first = [not item.get_closest_marker(marker) for marker in ("spark", "timeout")]
        return [*first, not _makes_something_once(config.rootpath, item.nodeid)]

    items.sort(key=order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Have a process run all tests of a file that makes something for them, else test by test.

    Groups of xdist's own (3.8) have no effect with pytest 9.2, and nothing says so.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415  # where it is used

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
        def _split_scope(self, nodeid):
            together = _makes_something_once(config.rootpath, nodeid)
            return nodeid.partition("::")[0] if together else nodeid

    config.option.loadscopereorder = False
    return Scheduling(config, log)


def _makes_something_once(root, nodeid):
    return _has_module_fixture(root / nodeid.partition("::")[0])


@cache
def _has_module_fixture(file):
    return file.suffix == ".py" and 'scope="module"' in file.read_text("utf-8")


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
