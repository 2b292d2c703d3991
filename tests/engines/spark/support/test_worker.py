"""Python does not read the archives of PySpark again before each task."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

_ARCHIVES = """
import importlib, sys, zipimport
import pyspark.serializers
from shedlight.engines.spark.support.worker import prepare_worker

def finders():
    return sum(isinstance(f, zipimport.zipimporter) for f in sys.path_importer_cache.values())

before = finders()
prepare_worker()
after = finders()
importlib.invalidate_caches()
import pyspark.sql.types
print(before, after, pyspark.sql.types.__file__)
"""


def test_archives_are_forgotten_until_they_are_asked():
    """What was not imported before is still found in them."""
    (archive,) = Path(pyspark.__file__).parent.glob("python/lib/pyspark.zip")
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    run = [sys.executable, "-c", _ARCHIVES]

    said = subprocess.run(run, env=environment, check=True, capture_output=True, text=True)
    before, after, found = said.stdout.split()

    assert int(before) > 1
    assert int(after) == 0
    assert found.startswith(str(archive))
