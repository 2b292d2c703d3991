"""What touches Spark on each PySpark that we support: the soak has those that CI has not."""

import subprocess

import pytest

from tests.console import ROOT

SUITE = (
    *("tests/cli/test_run.py", "tests/contracts", "tests/engines/spark", "tests/language/eval"),
    *("tests/matching/test_hashing.py", "tests/test_pins.py"),
)
# before 4.3 PySpark itself leaves sockets to the garbage collector
LENIENT = (
    *("-p", "no:cacheprovider"),
    *("-W", "ignore::ResourceWarning"),
    *("-W", "ignore::pytest.PytestUnraisableExceptionWarning"),
)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "version", ["4.0", "4.1", "4.2"], ids=lambda version: f"pyspark_{version.replace('.', '_')}"
)
def test_what_touches_spark_passes(version):
    """In an environment that differs in nothing else; it is kept, for it takes a while."""
    subprocess.run([ROOT / "scripts" / "pyspark", version], check=True)
    python = ROOT / ".venv" / f"pyspark-{version}" / "bin" / "python"

    done = subprocess.run(
        [python, "-m", "pytest", *SUITE, "-m", "not soak", "--timeout", "0", *LENIENT],
        cwd=ROOT,
        check=False,
    )

    assert done.returncode == 0
