"""Nothing is invented on Spark: random applications under plans that change, checked."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from shedlight.graph.strata import find_stratified
from tests.drawn_graphs import draw_application
from tests.engines.spark.law_run import LawRun
from tests.engines.spark.processes import family

pytestmark = pytest.mark.spark

RUNS, PART, KILLED, STRATA_RUNS = 40, 10, 5, 20


def _check(
    spark: SparkSession, folder: Path, seed: int, rounds: int, *, strata: bool = False
) -> int:
    run = LawRun(spark, folder, seed, rounds, strata=strata)
    run.go_on()
    return sum(run.result().check().values())


def _stratified_seeds(start: int) -> Iterator[int]:
    """Give the seeds of applications that have keys to be shed in strata."""
    for seed in count(start):
        if find_stratified(draw_application(random.Random(seed), in_order=True)):
            yield seed


@pytest.mark.soak
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
def test_nothing_is_invented_in_strata_on_spark(spark, tmp_path):
    """Whatever is kept of which stratum in which way."""
    for seed in islice(_stratified_seeds(300), STRATA_RUNS):
        _check(spark, tmp_path / str(seed), seed, 6, strata=True)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 200 + KILLED))
def test_nothing_is_invented_when_it_is_killed(spark, tmp_path, seed):
    """Three times in each run, whatever it is doing."""
    _check_killed(spark, tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", list(islice(_stratified_seeds(400), KILLED)))
def test_nothing_is_invented_in_strata_when_it_is_killed(spark, tmp_path, seed):
    """What was learned of keys is lost then, and what is on record is used."""
    _check_killed(spark, tmp_path, seed, strata=True)


def _check_killed(
    spark: SparkSession, folder: Path, seed: int, *, strata: bool = False
) -> None:
    command = [sys.executable, "-m", "tests.engines.spark.law_run", str(folder), str(seed), "6"]
    rng = random.Random(seed)
    for _ in range(3):
        process = subprocess.Popen([*command, *(["strata"] if strata else [])])
        try:
            process.wait(timeout=rng.uniform(8, 40))
        except subprocess.TimeoutExpired:
            for pid in family(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
    _check(spark, folder, seed, 6, strata=strata)
