"""Memory that was freed stays with the process: the next micro-batch does not fault it in."""

import subprocess
import sys

import pytest

_FAULTS = """
import resource, sys
import numpy as np, pyarrow as pa
from shedlight.engines.spark.support.malloc import keep_memory
if sys.argv[1] == "kept":
    keep_memory()

def batch():
    arrays = [np.ones(1_000_000) for _ in range(8)]
    return pa.array(arrays[0], mask=arrays[1] < 0), arrays

batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(how):
    run = [sys.executable, "-c", _FAULTS, how]
    return int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the C library of GNU")
def test_what_is_freed_is_used_again():
    """Kept memory is faulted in once; given back, with every batch."""
    assert _faults("kept") * 10 < _faults("given back")
