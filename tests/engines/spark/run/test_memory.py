"""Memory on a long run: the driver, the JVM and all workers together, flat and below 4 GiB."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.engines.spark.processes import memory_of

EXAMPLE = Path(__file__).parents[4] / "examples" / "overload"
GIB = 1 << 30
SECONDS = float(os.environ.get("SHEDLIGHT_SOAK_SECONDS", "1200"))
RATE = 4_000
"""Payments per second: about half of what a core can match."""


@pytest.mark.soak
@pytest.mark.usefixtures("java")
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc of Linux")
def test_memory_is_flat_at_constant_load(tmp_path):
    """Twenty minutes; the last third has no more than a tenth more than the one before."""
    data = tmp_path / "data" / "payments"
    data.mkdir(parents=True)
    (tmp_path / "app.yaml").write_text((EXAMPLE / "app.yaml").read_text())
    command = [sys.executable, "-m", "shedlight.cli", "run", str(tmp_path / "app.yaml")]
    feed = [sys.executable, str(EXAMPLE / "feed.py"), str(data), "--rate", str(RATE)]
    feed += ["--duration", str(SECONDS)]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL) as running,
        subprocess.Popen(feed, stdout=subprocess.DEVNULL) as feeding,
    ):
        samples = []
        try:
            while feeding.poll() is None:
                assert running.poll() is None, "it runs to the end"
                samples.append(memory_of(running.pid))
                time.sleep(5)
        finally:
            feeding.kill()
            running.terminate()
    third = len(samples) // 3
    middle, last = (
        sorted(part)[len(part) // 2] for part in (samples[third:-third], samples[-third:])
    )
    shown = [f"{one / GIB:.2f}" for one in samples[:: max(1, len(samples) // 20)]]
    assert max(samples) < 4 * GIB, shown
    assert last < 1.1 * middle, shown
