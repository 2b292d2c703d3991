"""Nothing is invented on Spark: random applications under plans that change, checked."""

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.engines.spark.law_run import LawRun
from tests.engines.spark.processes import family

pytestmark = pytest.mark.spark

RUNS, PART, KILLED = 40, 10, 5


def _check(spark: SparkSession, folder: Path, seed: int, rounds: int) -> int:
    run = LawRun(spark, folder, seed, rounds)
    run.go_on()
    return sum(run.result().check().values())


def test_nothing_is_invented_on_spark(spark, tmp_path):
    """Two nodes with absences, keys and counts."""
    assert _check(spark, tmp_path, seed=13, rounds=2) > 10


@pytest.mark.soak
@pytest.mark.parametrize("part", range((RUNS - KILLED) // PART + 1))
def test_nothing_is_invented_in_many_runs_on_spark(spark, tmp_path, part):
    """As above, for many applications."""
    for seed in range(100 + part * PART, min(100 + (part + 1) * PART, 100 + RUNS - KILLED)):
        _check(spark, tmp_path / str(seed), seed, 6)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 200 + KILLED))
def test_nothing_is_invented_when_it_is_killed(spark, tmp_path, seed):
    """Three times in each run, whatever it is doing."""
    command = [sys.executable, "-m", "tests.engines.spark.law_run", str(tmp_path), str(seed)]
    rng = random.Random(seed)
    for _ in range(3):
        process = subprocess.Popen([*command, "6"])
        try:
            process.wait(timeout=rng.uniform(8, 40))
        except subprocess.TimeoutExpired:
            for pid in family(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
    _check(spark, tmp_path, seed, 6)
