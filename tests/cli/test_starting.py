"""What a command loads: no more than it needs."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import shedlight
from shedlight.cli import console
from shedlight.engines import kernel_cache
from shedlight.language import parse_pattern
from shedlight.matching import jit
from shedlight.matching.kernel import fifo, scan

HEAVY = ["numba", "pyspark", "pandas", "pyarrow", "highspy", "matplotlib", "rich"]
HEAVY += ["pyarrow.parquet", "shedlight.graph.check"]
COMPILING = "numba.np.arrayobj"
"""A part of numba that it needs to compile and not to load what is compiled."""


def _loaded(*arguments):
    """Run a command in a process of its own, and list the heavy modules that it loaded."""
    code = f"""
import json, sys
sys.argv = {["shedlight", *arguments]!r}
from shedlight.cli.__main__ import start
try:
    start()
finally:
    print(json.dumps([name for name in {[*HEAVY, COMPILING]!r} if name in sys.modules]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_help_of_all_commands_loads_nothing_heavy():
    """So it comes at once."""
    assert _loaded("--help") == []


def test_help_of_match_loads_no_solver_and_no_spark():
    """Nor what draws figures."""
    assert not {"pyspark", "highspy", "matplotlib"} & set(_loaded("match", "--help"))


def test_match_loads_neither_pandas_nor_the_compiler(tmp_path):
    """Once it is compiled; Arrow would load pandas, and numba all that it can compile."""
    path = tmp_path / "events.csv"
    path.write_text("time,type\n0,A\n1000000,B\n")
    text = "SELECT * WHERE SEQ(a.type = 'A', b.type = 'B') WITHIN 5 s"
    command = ("match", "--pattern", text, "--input", str(path))
    _loaded(*command)  # the first time it may be compiled
    assert _loaded(*command) == ["numba", "pyarrow"]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Keep compiled kernels in a folder of the test."""
    monkeypatch.setattr(kernel_cache, "cache_folder", lambda: tmp_path)
    return tmp_path


QUEUED = parse_pattern("SELECT a WHERE SEQ(a.x = 1, b.x = 2) WITHIN 1 s").pattern
SCANNED = parse_pattern("SELECT a WHERE SEQ(a.x = 1, b.x = 2) AND b.y > a.y WITHIN 1 s").pattern


def test_what_is_compiled_is_said_until_it_is(cache, capsys):
    """By what the patterns need, and once for all of it."""
    console.announce_compiling([QUEUED, QUEUED])
    console.announce_compiling([QUEUED, SCANNED])
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("compiling the matcher (queues), once on this computer")
    assert said[1].startswith("compiling the matcher (queues and conditions across events)")

    (cache / "kernel").mkdir()
    (cache / "kernel" / f"fifo.run_fifo-9.{kernel_cache.PYTHON}.1.nbc").touch()
    console.announce_compiling([QUEUED])
    assert not capsys.readouterr().err
    assert kernel_cache.kernels_to_compile([QUEUED, SCANNED]) == ["conditions across events"]


@pytest.mark.parametrize("kernel", [fifo.run_fifo, scan.run_scan])
def test_kernels_are_looked_for_by_their_names(kernel, cache):
    """By those of their files in the cache, which numba makes of module and function."""
    function = SimpleNamespace(module=kernel.__module__.split(".")[-1], name=kernel.__name__)
    (cache / f"{function.module}.{function.name}-1.{kernel_cache.PYTHON}.1.nbc").touch()
    assert any(kernel_cache.compiled_kernels().values())


_WHERE = "from shedlight.matching.kernel import fifo; print(fifo.run_fifo._cache.cache_path)"


def test_another_environment_has_nothing_to_compile(tmp_path):
    """Wherever its sources are, if they are the same; else a file of ours says what differs."""
    package = tmp_path / "shedlight"
    shutil.copytree(Path(shedlight.__file__).parent, package)
    before = _where(tmp_path.parent)
    assert _where(tmp_path) == before
    assert Path(before).parent == jit.cache_folder()
    with (package / "matching" / "jit.py").open("a") as file:
        file.write("# another version\n")
    assert _where(tmp_path) != before


def _where(folder):
    """Ask a Python that finds the package in a folder where compiled kernels are kept."""
    command = [sys.executable, "-c", _WHERE]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()
