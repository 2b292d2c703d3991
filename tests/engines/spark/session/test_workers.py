"""Which Python the workers of a session run, where it is not ours to say."""

import sys
import venv
from pathlib import Path

import pytest

import shedlight as sl
from shedlight.engines.spark.session.preflight import SessionError
from shedlight.engines.spark.session.workers import check_worker_python


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Make an environment that has nothing in it."""
    place = tmp_path_factory.mktemp("bare")
    venv.create(place)
    return place / "bin" / "python3"


def test_a_python_without_shedlight_is_said_with_what_to_do(bare):
    """As `python3` is where an environment is not activated."""
    with pytest.raises(
        SessionError,
        match=f"workers run {bare}, which has no shedlight and pyarrow and pandas; activate "
        f".* export PYSPARK_PYTHON={sys.executable}",
    ):
        check_worker_python(str(bare))


def test_a_python_that_is_not_there_is_said():
    """Spark would try, and try again."""
    with pytest.raises(SessionError, match="'/no/python', which is not there; activate"):
        check_worker_python("/no/python")


def test_a_python_of_another_version_is_said(tmp_path):
    """Functions are sent as bytecode."""
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho 3.99\n")
    other.chmod(0o755)

    with pytest.raises(SessionError, match=r"which is Python 3\.99, and this is 3\.\d+;"):
        check_worker_python(str(other))


def test_a_python_of_our_own_is_fine(monkeypatch):
    """By its path, or by its name where the environment is activated."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    check_worker_python(sys.executable)
    check_worker_python(Path(sys.executable).name)


@pytest.mark.spark
def test_find_says_so_before_any_row_is_read(spark, bare, monkeypatch):
    """What Spark would say is a stack of calls in three languages."""
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))

    finding = sl.find("SELECT a.n WHERE a.n = 1", time="n", time_unit="s")
    with pytest.raises(SessionError, match="which has no shedlight"):
        spark.range(3).toDF("n").transform(finding)
