"""What works without the extras, and what is said where one is missing."""

import os
import re
import subprocess
import sys
import time
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

from shedlight.cli.new import new
from shedlight.errors import EXTRAS, missing_extra
from tests.console import ROOT
from tests.runlog.logs import batch, decision, header, text

README = (ROOT / "README.md").read_text("utf-8")
WITHIN_S = 60
"""How long the first block of the README may take, when kernels are compiled in it."""
SNAPSHOT = """{"rates": {"events": {}}, "processing_time": {}}"""
WITHOUT = f"""
import sys

class Missing:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {list(EXTRAS)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def _python(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def shedlight(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command where no extra is installed."""
    return _python("from shedlight.cli.main import main; main()", folder, *arguments)


def test_the_core_needs_no_extra(tmp_path):
    """An application from its start to a plan, and the report of a run."""
    (tmp_path / "snapshot.json").write_text(SNAPSHOT)
    (tmp_path / "log.jsonl").write_text(text(header(9.0), batch(10.0), decision(10.0)))
    for arguments in (
        ("new", "shop"),
        ("check", "shop/app.yaml"),
        ("match", "shop/app.yaml", "--limit", "1"),
        ("simulate", "shop/app.yaml", "--load", "2"),
        ("plan", "shop/app.yaml", "--snapshot", "snapshot.json"),
        ("report", "log.jsonl"),
    ):
        done = shedlight(tmp_path, *arguments)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "package", "extra"),
    [
        (("run", "app.yaml", "--once"), "pyspark", "spark"),
        (("serve", "log.jsonl"), "uvicorn", "page"),
        (("simulate", "app.yaml", "--output", "rows"), "matplotlib", "plots"),
    ],
)
def test_a_command_says_which_extra_it_needs(tmp_path, arguments, package, extra):
    """In one sentence."""
    new(tmp_path)
    (tmp_path / "log.jsonl").write_text("")

    done = shedlight(tmp_path, *arguments)

    assert done.stderr.endswith(
        f"shedlight: {package} is not installed; install it with shedlight: "
        f"pip install 'shedlight[{extra}]'\n"
    )
    assert done.returncode == 1


def test_a_name_says_which_extra_it_needs(tmp_path):
    """As a ShedlightError that is an ImportError, too."""
    done = _python("from shedlight import find", tmp_path)
    assert "pip install 'shedlight[spark]'" in done.stderr.splitlines()[-1]


def test_what_no_extra_brings_is_an_error_as_it_is():
    """It is nothing that an extra could put right."""
    assert missing_extra(ModuleNotFoundError(name="nowhere")) is None


@pytest.fixture
def wheel(tmp_path):
    """Build the wheel."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = tmp_path.glob("*.whl")
    return found


def test_the_wheel_has_what_belongs_to_it(wheel):
    """The page, the examples and the extras; no tests, no experiments; its name is known."""
    assert f'pip install "dist/{wheel.name}[spark,page]"' in README
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        described = file.read(metadata).decode()
    for extra in set(EXTRAS.values()):
        assert f"Provides-Extra: {extra}\n" in described
    assert any(name.startswith("shedlight/page/static/") for name in names)
    assert any(name.startswith("shedlight/templates/fraud/") for name in names)
    assert {name.split("/")[0] for name in names} == {"shedlight", metadata.split("/")[0]}


class _Environment:
    """An environment that has nothing but the wheel and what its extras bring."""

    def __init__(self, folder: Path, wheel: Path, extras: str) -> None:
        self._folder, self._bin = folder, folder / "environment" / "bin"
        venv.create(self._bin.parent, with_pip=True)
        self.kernels = folder / "kernels"
        ours = {"VIRTUAL_ENV", "PYTHONPATH", "PYSPARK_PYTHON"}
        self._variables = {name: os.environ[name] for name in os.environ.keys() - ours} | {
            "PATH": f"{self._bin}:{os.environ['PATH']}",
            "NUMBA_CACHE_DIR": str(self.kernels),
        }
        self.run("pip", "install", "--quiet", f"{wheel}{extras}")

    def start(self, *command: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [str(self._bin / command[0]), *command[1:]],
            cwd=self._folder,
            env=self._variables,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str) -> str:
        with self.start(*command) as process:
            printed, _ = process.communicate()
        assert process.returncode == 0, f"{command}: {printed}"
        return printed


@pytest.mark.soak
def test_the_wheel_works_in_an_empty_environment(wheel, tmp_path):
    """What needs no extra."""
    environment = _Environment(tmp_path, wheel, "")
    (tmp_path / "snapshot.json").write_text(SNAPSHOT)

    environment.run("python", "-c", "import shedlight")
    environment.run("shedlight", "new", "shop")
    assert "no warnings" in environment.run("shedlight", "check", "shop/app.yaml")
    assert "SuddenOrder" in environment.run("shedlight", "match", "shop/app.yaml", "--limit=2")
    assert "recall" in environment.run("shedlight", "simulate", "shop/app.yaml", "--load=2")
    plan = environment.run("shedlight", "plan", "shop/app.yaml", "--snapshot=snapshot.json")
    assert "optimal plan" in plan


@pytest.mark.soak
def test_the_wheel_works_with_spark(wheel, tmp_path):
    """A run; and the first block of the README as it stands, within a minute of installing."""
    environment = _Environment(tmp_path, wheel, "[spark]")
    (tmp_path / "front_page.py").write_text(_first_python_block())

    began = time.monotonic()
    assert "|alice| 900.0|" in environment.run("python", "front_page.py")
    assert time.monotonic() - began < WITHIN_S
    assert environment.kernels.exists()  # they were compiled within that time
    environment.run("shedlight", "new", "shop")
    assert "found 396" in environment.run("shedlight", "run", "shop/app.yaml", "--once")


@pytest.mark.soak
def test_the_wheel_works_with_the_page(wheel, tmp_path):
    """It is served."""
    environment = _Environment(tmp_path, wheel, "[page]")
    (tmp_path / "log.jsonl").write_text(text(header(0.0), batch(1.0), decision(2.0)), "utf-8")

    with environment.start("shedlight", "serve", "log.jsonl", "--port", "8322") as serving:
        try:
            said = serving.stdout.readline() if serving.stdout else ""
            address = re.search(r"http://[\d.:]+", said)
            assert address, said
            with urllib.request.urlopen(address[0], timeout=30) as answer:  # noqa: S310  # http
                assert b"shedlight" in answer.read().lower()
        finally:
            serving.terminate()


def _first_python_block() -> str:
    return README.split("```python\n", 1)[1].split("```", 1)[0]
