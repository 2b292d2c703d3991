"""Packing runs in Spark's Python workers, which start often: it imports next to nothing."""

import subprocess
import sys

HEAVY = {
    *(
        "fastapi",
        "highspy",
        "lark",
        "llvmlite",
        "matplotlib",
        "numba",
        "pandas",
        "prometheus_client",
    ),
    *("pydantic", "pyspark", "rich", "typer", "uvicorn", "yaml"),
}
LISTING = "import sys, shedlight.engines.spark.codec.pack; print(*sys.modules)"


def _modules():
    done = subprocess.run(
        [sys.executable, "-c", LISTING], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_a_worker_that_packs_imports_next_to_nothing():
    """NumPy and Arrow, and of ours what packing is made of."""
    modules = _modules()
    assert {"numpy", "pyarrow"} <= modules
    assert not HEAVY & modules
    spark = "shedlight.engines.spark"
    ours = {name for name in modules if name.startswith("shedlight")}
    assert ours == {
        *("shedlight", "shedlight.engines", spark, "shedlight.errors"),
        *(f"{spark}.codec", f"{spark}.codec.blobs", f"{spark}.codec.decode"),
        *(f"{spark}.codec.pack", f"{spark}.support", f"{spark}.support.arrival_sketch"),
        *(f"{spark}.support.malloc", f"{spark}.support.worker"),
    }
