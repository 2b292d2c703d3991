"""Sessions: what is said before Spark starts, what it starts with, and that it ends."""

import importlib.metadata
import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyspark
import pytest
from packaging.specifiers import SpecifierSet

from shedlight.engines.kernel_cache import PYTHON
from shedlight.engines.spark.session import preflight
from shedlight.engines.spark.session.master import (
    Master,
    check_master,
    check_ports,
    read_master,
)
from shedlight.engines.spark.session.preflight import (
    SessionError,
    available_memory,
    check_disk,
    check_java,
    check_kernels,
    check_loopback,
    check_memory,
    check_package,
    check_python,
    check_spark_home,
    java_major,
)
from shedlight.engines.spark.session.session import open_session, session_settings

GIB = 2**30


def _java(folder, *lines, status=0):
    """Put a `java` into a folder that says these lines and ends with a status."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "java"
    words = [f"echo '{line}' >&2" for line in lines]
    path.write_text("\n".join(["#!/bin/sh", *words, f"exit {status}", ""]))
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def listening():
    """Listen on some local port, and give its number."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield one.getsockname()[1]


@pytest.fixture
def free_port():
    """Give the number of a port on which nobody listens, and nobody else will."""
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        yield one.getsockname()[1]


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('java version "1.8.0_391"\nJava(TM) SE Runtime Environment', 8),
        ('openjdk version "1.8.0_392"\nOpenJDK Runtime Environment (Temurin)', 8),
        ('openjdk version "11.0.21" 2023-10-17\nOpenJDK Runtime (build 11.0.21+9)', 11),
        ('openjdk version "17.0.15" 2025-04-15\n(build 17.0.15+6-Debian-1deb12u1)', 17),
        ('openjdk version "17.0.9" 2023-10-17\nIBM Semeru Runtime Open Edition', 17),
        ('java version "17.0.9" 2023-10-17 LTS\nJava HotSpot(TM) 64-Bit', 17),
        ('openjdk version "21" 2023-09-19\nOpenJDK Runtime Environment Zulu21', 21),
        ('openjdk version "21.0.2" 2024-01-16\nGraalVM CE 21.0.2+13.1', 21),
        ('openjdk version "21.0.4" 2024-07-16 LTS\nCorretto-21.0.4.7.1', 21),
        ('openjdk version "25-ea" 2025-09-16\n(build 25-ea+36-3489)', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Dversion=1.7\nopenjdk version "17.0.1"', 17),
        ('openjdk version "9-internal"', 9),
        ("bash: java: command not found", None),
        ("", None),
    ],
)
def test_the_version_of_java_is_read(text, major):
    """As vendors write it; up to Java 8 the first number is 1."""
    assert java_major(text) == major


def test_java_is_found_on_the_path(tmp_path):
    """Where the shell finds it."""
    path = _java(tmp_path, 'openjdk version "21.0.2" 2024-01-16')

    assert check_java({"PATH": str(tmp_path)}) == f"21 ({path})"


def test_java_home_goes_before_the_path(tmp_path):
    """As it does when Spark looks for Java."""
    _java(tmp_path / "path", 'openjdk version "21.0.2" 2024-01-16')
    path = _java(tmp_path / "home" / "bin", 'openjdk version "17.0.1" 2021-10-19')
    environment = {"PATH": f"{tmp_path}/path", "JAVA_HOME": f"{tmp_path}/home"}

    assert check_java(environment) == f"17 ({path})"


def test_an_empty_java_home_is_none(tmp_path):
    """So Spark's own script takes it."""
    path = _java(tmp_path, 'openjdk version "17.0.1" 2021-10-19')

    environment = {"PATH": str(tmp_path), "JAVA_HOME": ""}
    assert check_java(environment) == f"17 ({path})"


def _error(environment):
    with pytest.raises(SessionError) as raised:
        check_java(environment)
    return str(raised.value)


INSTALL = "install a Java runtime, 17 or newer, or point JAVA_HOME at one"


def test_no_java_is_said(tmp_path):
    """Neither the one nor the other."""
    for environment in ({}, {"PATH": ""}, {"PATH": str(tmp_path)}):
        assert _error(environment) == (
            f"no Java: JAVA_HOME is not set and no java is on the PATH; {INSTALL}"
        )


def test_a_java_home_that_points_nowhere_is_said(tmp_path):
    """Even if there is a Java on the PATH, for Spark does not look there."""
    _java(tmp_path, 'openjdk version "17.0.1" 2021-10-19')

    assert _error({"JAVA_HOME": "/no/where", "PATH": str(tmp_path)}) == (
        "JAVA_HOME is '/no/where', where there is no bin/java; point it at a Java runtime, "
        "17 or newer, or unset it to use the java on the PATH"
    )


@pytest.mark.parametrize(("said", "major"), [("1.8.0_391", 8), ("11.0.21", 11), ("16.0.2", 16)])
def test_a_java_that_is_too_old_is_said(tmp_path, said, major):
    """With its version and the one that is needed."""
    path = _java(tmp_path, f'openjdk version "{said}"')

    assert _error({"PATH": str(tmp_path)}) == (
        f"{path} is Java {major}, but Spark needs 17 or newer; {INSTALL}"
    )


def test_a_java_that_does_not_run_is_said(tmp_path):
    """The first is what a Mac has in the place of Java; the last is no program at all."""
    stub = _java(tmp_path / "a", "Unable to locate a Java Runtime.", status=1)
    mute = _java(tmp_path / "b", status=3)
    strange = _java(tmp_path / "c", "hello")
    text = tmp_path / "d" / "java"
    text.parent.mkdir()
    text.write_bytes(b"\x00\x01")
    text.chmod(0o755)

    says = [_error({"PATH": f"{tmp_path}/{one}"}) for one in "abcd"]

    assert says[:3] == [
        f"{stub} does not run: Unable to locate a Java Runtime.; {INSTALL}",
        f"{mute} does not run: it ends with status 3; {INSTALL}",
        f"{strange} -version says 'hello', which is no version; {INSTALL}",
    ]
    assert says[3].startswith(f"{text} does not run: ")


@pytest.mark.parametrize(
    ("url", "cores"),
    [("local", 1), ("local[3]", 3), ("local[3,4]", 3), ("local[2 , 1]", 2)],
)
def test_masters_on_this_machine_are_understood(url, cores):
    """With as many cores as they say, or all."""
    assert read_master(url) == Master(url, cores)
    assert (read_master("local[*,4]").cores or 0) >= 1


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("spark://one:7077", (("one", 7077),)),
        ("spark://one:7077,two:7078", (("one", 7077), ("two", 7078))),
        ("spark://[::1]:7077", (("::1", 7077),)),
        ("yarn", ()),
        ("k8s://https://host:443", ()),
    ],
)
def test_masters_elsewhere_are_understood(url, addresses):
    """Of standalone ones we know where they listen."""
    assert read_master(url) == Master(url, None, addresses)


@pytest.mark.parametrize(
    "url",
    [
        *("", "Local", "local[]", "local[0]", "local[2,0]", "local[2", "local[two]"),
        *("spark://", "spark://host", "spark://host:", "spark://host:0", "spark://host:99999"),
        *("spark://a:1,b", "spark://a:b:1", "host:7077", "http://host:7077", "mesos://host:1"),
    ],
)
def test_a_master_that_is_none_is_said(url):
    """With the ways to write one."""
    with pytest.raises(SessionError) as raised:
        read_master(url)

    assert str(raised.value) == (
        f"{url!r} is no master; write local[CORES,ATTEMPTS] (local[*,4]: all cores), "
        "spark://HOST:PORT, yarn or k8s://HOST:PORT"
    )


def test_spark_connect_is_not_ours_to_start():
    """There is no JVM of ours."""
    with pytest.raises(SessionError, match="'sc://host' is Spark Connect"):
        read_master("sc://host")


def test_a_master_that_does_not_listen_is_said(free_port):
    """At once; Spark tries for a minute."""
    with pytest.raises(SessionError) as raised:
        check_master(read_master(f"spark://127.0.0.1:{free_port}"))

    assert str(raised.value) == (
        f"no Spark master listens at 127.0.0.1:{free_port} (Connection refused); start it with "
        "sbin/start-master.sh, put the host and port right, or run on local[*,4]"
    )


def test_one_master_of_several_is_enough(listening, free_port):
    """The others stand by."""
    url = f"spark://127.0.0.1:{free_port},127.0.0.1:{listening}"

    assert check_master(read_master(url)) == f"127.0.0.1:{listening} listens"


@pytest.mark.parametrize("name", ["spark.driver.port", "spark.driver.blockManager.port"])
def test_a_port_in_use_is_said(listening, name):
    """Spark would try the next ones, which nobody asked for."""
    settings = {"spark.driver.bindAddress": "127.0.0.1", name: str(listening)}

    with pytest.raises(SessionError) as raised:
        check_ports(settings, {})

    assert str(raised.value) == (
        f"{name} is {listening}, which another program uses; ask for another port, "
        "or leave it out: Spark then finds a free one"
    )


def test_the_port_of_the_page_matters_if_there_is_one(listening):
    """Without it nothing is bound."""
    settings = {"spark.driver.bindAddress": "127.0.0.1", "spark.ui.port": str(listening)}

    check_ports(settings | {"spark.ui.enabled": "false"}, {})
    with pytest.raises(SessionError, match=f"spark.ui.port is {listening}, which another"):
        check_ports(settings | {"spark.ui.enabled": "true"}, {})


def test_a_port_that_was_closed_a_moment_ago_is_free():
    """A connection that lingers is no program that listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()  # this side lingers

    check_ports({"spark.driver.bindAddress": "127.0.0.1", "spark.driver.port": str(port)}, {})


@pytest.mark.parametrize("text", ["80", "65536", "-1", "many", ""])
def test_a_port_that_is_none_is_said(text):
    """Those below 1024 belong to the system."""
    with pytest.raises(SessionError, match="write 1024 to 65535, or 0 for any that is free"):
        check_ports({"spark.driver.port": text}, {})


def test_an_address_of_another_machine_is_said():
    """The address is one that documents may use and machines may not."""
    settings = {"spark.driver.bindAddress": "203.0.113.1", "spark.driver.port": "7078"}

    with pytest.raises(SessionError, match=r"port 7078 of 203\.0\.113\.1 cannot be used"):
        check_ports(settings, {})


def test_settings_that_are_given_win():
    """Over ours; the others stay."""
    given = {"spark.driver.memory": "3g", "spark.ui.enabled": "true", "spark.mine": "x"}

    chosen = session_settings(read_master("local[3,4]"), given)

    assert given.items() <= chosen.items()
    assert chosen["spark.sql.shuffle.partitions"] == "3"
    assert chosen["spark.sql.session.timeZone"] == "UTC"


def test_options_of_java_are_added_to_ours():
    """Of two equal ones the last holds, so that they win too."""
    name = "spark.driver.extraJavaOptions"
    master = read_master("local")

    ours = session_settings(master, {})[name]
    both = session_settings(master, {name: "-Xss2m"})[name]

    assert both == f"{ours} -Xss2m"
    assert Path(ours.partition("=file://")[2]).name == "log4j2.properties"
    assert Path(ours.partition("=file://")[2]).exists()


def test_only_on_this_machine_the_driver_hides():
    """The workers of a cluster have to call it."""
    here = session_settings(read_master("local[2]"), {})
    elsewhere = session_settings(read_master("spark://host:7077"), {})

    assert here["spark.driver.host"] == here["spark.driver.bindAddress"] == "127.0.0.1"
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & elsewhere.keys()


def test_what_is_wrong_is_said_before_spark_starts(monkeypatch, tmp_path, free_port, listening):
    """And nothing is left behind in the environment."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SessionError, match="no Java"):
        open_session("test")

    _java(tmp_path, 'openjdk version "17.0.1" 2021-10-19')
    with pytest.raises(SessionError, match="'nonsense' is no master"):
        open_session("test", master="nonsense")
    with pytest.raises(SessionError, match="no Spark master listens"):
        open_session("test", settings={"spark.master": f"spark://127.0.0.1:{free_port}"})
    with pytest.raises(SessionError, match="which another program uses"):
        open_session("test", settings={"spark.driver.port": str(listening)})
    assert "PYSPARK_DRIVER_PYTHON" not in os.environ


def test_a_spark_home_must_be_of_our_version(tmp_path):
    """One from another project fails in strange ways."""
    jars = tmp_path / "jars"
    jars.mkdir()
    environment = {"SPARK_HOME": str(tmp_path)}

    with pytest.raises(SessionError, match="where there is no Spark; unset it"):
        check_spark_home(environment)
    (jars / "spark-core_2.13-3.5.1.jar").touch()
    with pytest.raises(SessionError, match=r"a Spark 3\.5\.1, but PySpark is 4\."):
        check_spark_home(environment)
    (jars / "spark-core_2.13-3.5.1.jar").unlink()
    ours = ".".join(pyspark.__version__.split(".")[:2]) + ".99"
    (jars / f"spark-core_2.13-{ours}.jar").touch()
    assert check_spark_home(environment) == f"{ours} ({tmp_path})"
    assert check_spark_home({}) == "the one that PySpark brings along"


@pytest.mark.parametrize(
    ("version", "fine"),
    [
        *(("4.0.0", True), ("4.3", True), ("4.3.10", True), ("4.4.0", False)),
        *(("3.5.10", False), ("10.0", False), ("4.4.0.dev2", False)),
    ],
)
def test_a_package_of_another_version_is_said(monkeypatch, version, fine):
    """By the numbers of the version, not by its letters: 10 is more than 9."""
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)

    if fine:
        assert check_package("pyspark") == version
    else:
        with pytest.raises(SessionError, match=f"pyspark is {version}, but shedlight needs"):
            check_package("pyspark")


def test_a_package_that_is_not_installed_is_said(monkeypatch):
    """With the command that installs it."""
    monkeypatch.setattr(
        preflight, "required_versions", lambda: {"no-such": SpecifierSet(">=4.3,<4.4")}
    )

    with pytest.raises(SessionError, match=r"no-such is not installed; run .* -m pip install"):
        check_package("no-such")


def test_what_is_installed_here_fits():
    """Else no test would run."""
    assert check_python().endswith(f"({sys.executable})")
    assert check_package("pyspark").startswith("4.")


def test_kernels_that_cannot_be_kept_are_said(tmp_path):
    """A file in the place of the folder keeps even root out."""
    (tmp_path / "file").touch()

    later = f"{tmp_path}/new, to be compiled when first needed: "
    assert check_kernels(tmp_path / "new") == later + "queues, conditions across events"
    (tmp_path / "new" / f"fifo.run_fifo-1.{PYTHON}.1.nbc").touch()
    assert check_kernels(tmp_path / "new") == later + "conditions across events"
    (tmp_path / "new" / f"scan.run_scan-1.{PYTHON}.1.nbc").touch()
    assert check_kernels(tmp_path / "new") == f"{tmp_path}/new, compiled"
    with pytest.raises(SessionError, match="set NUMBA_CACHE_DIR to a folder that can"):
        check_kernels(tmp_path / "file" / "kernels")


def test_memory_and_disk_say_what_is_missing(tmp_path):
    """And what to do about it."""
    assert check_memory(None) == "not known on this system"
    assert check_memory(3 * GIB) == "3.0 GiB free"
    with pytest.raises(SessionError, match=r"1\.0 GiB of memory are free, but .* needs 2;"):
        check_memory(GIB)
    assert check_disk(tmp_path).endswith(f"GiB free in {tmp_path}")
    with pytest.raises(SessionError, match="cannot be written to: No such file"):
        check_disk(tmp_path / "none")
    with pytest.raises(SessionError, match="make room, or choose another folder"):
        check_disk(tmp_path, needed=2**62)


def test_memory_is_what_the_container_has_left(tmp_path):
    """Limit 4, used 3, of which 1 is files that may go: 2 GiB."""
    assert available_memory(tmp_path) is None
    proc, cgroup = tmp_path / "proc", tmp_path / "sys" / "fs" / "cgroup"
    proc.mkdir()
    cgroup.mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable:   {8 * GIB // 1024} kB\n")
    assert available_memory(tmp_path) == 8 * GIB
    (cgroup / "memory.current").write_text(f"{3 * GIB}\n")
    (cgroup / "memory.stat").write_text(f"anon 7\ninactive_file {GIB}\n")
    (cgroup / "memory.max").write_text("max\n")
    assert available_memory(tmp_path) == 8 * GIB
    (cgroup / "memory.max").write_text(f"{4 * GIB}\n")
    assert available_memory(tmp_path) == 2 * GIB


def test_this_machine_can_call_itself():
    """Else no test with Spark would run."""
    assert check_loopback() == "127.0.0.1 can be bound and called"


LIFE = """
import logging, os, signal
from pathlib import Path
from pyspark import SparkContext
from shedlight.engines.spark.session.preflight import SessionError
from shedlight.engines.spark.session.session import close_session, open_session, try_query

def show_error(**settings):
    try:
        open_session("test", master="local[2]", settings=settings)
    except SessionError as error:
        print(error)

show_error(**{"spark.driver.memory": "much"})
show_error(**{"spark.jars.packages": "kafka"})
show_error(**{"spark.jars": "/no/such.jar"})
QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
one = open_session("test", master="local[2,4]", settings=QUICK)
logging.disable()  # py4j has a thread that may call the dead one, and log that it is dead
os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
SparkContext._gateway.proc.wait()
close_session(one)
logging.disable(logging.NOTSET)

os.environ["PYSPARK_PYTHON"] = "/no/python"
one = open_session("test", master="local[2,4]", settings=QUICK)
java = SparkContext._gateway.proc.pid
show_error()
try_query(one)
print(one.conf.get("spark.sql.session.timeZone"), one.conf.get("spark.sql.shuffle.partitions"))
one.readStream.format("rate").load().writeStream.format("noop").start()
close_session(one)
print(Path("/proc", str(java)).exists())

one = open_session("test", master="local[2]", settings=QUICK | {"spark.pyspark.python": "/no"})
try:
    try_query(one)
except SessionError as error:
    print(error)
close_session(one)
"""


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.usefixtures("java")
def test_a_session_opens_works_and_ends_for_good(tmp_path):
    """Also after one whose JVM was killed; what a query failed of is raised, and not said."""
    done = subprocess.run(
        [sys.executable, "-c", LIFE], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    lines = done.stdout.splitlines()
    assert lines[0].startswith("Spark did not start on local[2] with Java ")
    assert lines[0].endswith(": Invalid maximum heap size: -Xmxmuch; check the settings")
    assert lines[1].startswith("Spark did not start on local[2] with Java ")
    assert lines[1].endswith("The coordinate provided is: kafka; check the settings")
    assert "requirement failed: Provided Maven Coordinates must be in the form" in lines[1]
    assert lines[2] == "spark.jars names '/no/such.jar', where there is no file; put it right"
    assert lines[3:6] == [
        "a Spark session is active in this process already; work in that one, or stop it",
        "UTC 2",
        "False",
    ]
    cause = 'does not come back: IOException: Cannot run program "/no": '
    assert lines[6].startswith(f"a row sent through Python {cause}")
    assert lines[6].endswith("a Python that has shedlight (PYSPARK_PYTHON)")
    assert done.stderr == ""
    assert not list(tmp_path.iterdir())
