"""A standalone cluster of Spark for tests: processes that see no folders of each other."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

import pyspark

from tests.engines.spark.processes import family

HOST = "127.0.0.1"
PATIENCE_S = 120.0
_DEPLOY = "org.apache.spark.deploy"
_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@cache
def has_mount_namespaces() -> bool:
    """Say whether a process can be given a view of the disk of its own, as root can."""
    hidden = hiding([Path("/mnt")], ["true"])
    with suppress(OSError):
        return subprocess.run(hidden, capture_output=True, check=False).returncode == 0
    return False


def hiding(folders: Sequence[Path], command: Sequence[str | Path]) -> list[str]:
    """Give the command that runs another without the sight of some folders."""
    mounts = (f"mount -t tmpfs hidden {shlex.quote(str(folder))}" for folder in folders)
    script = " && ".join([*mounts, f"exec {shlex.join(map(str, command))}"])
    return ["unshare", "-m", "sh", "-c", script]


class Cluster:
    """A master and workers of one core each, with folders that others do not see.

    A worker is killed with all that it runs, and started again with an empty folder.
    """

    def __init__(self, folder: Path, workers: Sequence[str]) -> None:
        self.driver = folder / "driver"
        self._folders = {name: folder / name for name in ("master", *workers)}
        for one in (self.driver, *self._folders.values()):
            one.mkdir()
        with closing(socket.create_server((HOST, 0))) as free:
            port = free.getsockname()[1]
        self.url = f"spark://{HOST}:{port}"
        self._workers, self._port = workers, port
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def hidden_from(self, name: str) -> list[Path]:
        """List the folders that a process does not see."""
        everybody = {"driver": self.driver, **self._folders}
        return [folder for other, folder in everybody.items() if other != name]

    def start(self) -> None:
        """Start all of it."""
        master = (f"{_DEPLOY}.master.Master", "--port", str(self._port))
        self._start("master", master, "I have been elected leader")
        for name in self._workers:
            self.start_worker(name)

    def start_worker(self, name: str) -> None:
        """Start a worker, or start one again that was killed."""
        work = ("--cores", "1", "--memory", "1g", "--work-dir", self._folders[name] / "work")
        worker = (f"{_DEPLOY}.worker.Worker", *map(str, work), self.url)
        self._start(name, worker, "Successfully registered with master")

    def _start(self, name: str, command: Sequence[str], ready: str) -> None:
        folder = self._folders[name]
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_JAVA_OPTS": os.environ.get("SPARK_SUBMIT_OPTS", ""),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_HOME": str(_SPARK_CLASS.parents[1]),
            "SPARK_LOCAL_DIRS": str(folder),
            "SPARK_LOCAL_IP": HOST,
        }
        where = ("--host", HOST, "--webui-port", "0")
        words: list[str | Path] = [_SPARK_CLASS, command[0], *where, *command[1:]]
        whole = hiding(self.hidden_from(name), words)
        said = folder / "said"
        with said.open("wb") as file:
            self._processes[name] = subprocess.Popen(
                whole, stdout=file, stderr=file, env=environment, cwd=folder
            )
        over = time.monotonic() + PATIENCE_S
        while ready not in said.read_text():
            assert self._processes[name].poll() is None, said.read_text()
            assert time.monotonic() < over, said.read_text()
            time.sleep(0.1)

    def kill(self, name: str) -> None:
        """Kill a process and all that it started, at once."""
        process = self._processes.pop(name)
        for one in family(process.pid):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        process.wait()

    def end(self) -> None:
        """Leave nothing behind."""
        for name in list(self._processes):
            self.kill(name)
