"""Kernels stay within their arrays: compiled with checks of every index.

`tests/kernel.py` checks after every batch that no more is in use than there is.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_random_patterns_stay_within_the_arrays(tmp_path):
    """All that the kernels are held against the reference with."""
    settings = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    tests = "tests/matching/kernel/test_kernel_is_reference.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", tests],
        env=os.environ | settings,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
