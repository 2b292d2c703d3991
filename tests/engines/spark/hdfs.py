"""An HDFS for tests: a NameNode and a DataNode on the loopback, from Maven's jars."""

import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.engines.spark.broker import JARS, fetched_jars

HOST = "127.0.0.1"
_JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
_SERVER = "org.apache.hadoop.hdfs.server"
_NAME, _DATA = f"{_SERVER}.namenode.NameNode", f"{_SERVER}.datanode.DataNode"
_LOGGING = """
log4j.rootLogger=INFO, said
log4j.appender.said=org.apache.log4j.ConsoleAppender
log4j.appender.said.layout=org.apache.log4j.SimpleLayout
"""
_PATIENCE_S = 120


def has_hdfs() -> bool:
    """Say whether `make test` has fetched what this needs."""
    return bool(fetched_jars("hdfs"))


class Hdfs:
    """An HDFS that keeps its files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server((HOST, 0)) as free:
            self.address = f"hdfs://{HOST}:{free.getsockname()[1]}"
        any_port = f"{HOST}:0"
        self._write("core-site.xml", {"fs.defaultFS": self.address})
        self._write(
            "hdfs-site.xml",
            {
                "dfs.namenode.name.dir": f"{folder}/names",
                "dfs.datanode.data.dir": f"{folder}/data",
                "dfs.replication": "1",
                "dfs.namenode.http-address": any_port,
                "dfs.datanode.address": any_port,
                "dfs.datanode.http.address": any_port,
                "dfs.datanode.ipc.address": any_port,
                "dfs.permissions.enabled": "false",
            },
        )
        (folder / "log4j.properties").write_text(_LOGGING)
        for page in ("hdfs", "datanode"):  # their web pages, which nobody looks at
            (folder / "webapps" / page).mkdir(parents=True)
        self._processes: list[subprocess.Popen[bytes]] = []

    def _write(self, name: str, settings: Mapping[str, str]) -> None:
        rows = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in settings.items()
        )
        (self._folder / name).write_text(f"<configuration>{rows}</configuration>")

    def start(self) -> None:
        """Start it empty, and wait until it can be written to."""
        self._begin(_NAME, "-format").wait(_PATIENCE_S)
        self._processes = [self._begin(_NAME), self._begin(_DATA)]
        over = time.monotonic() + _PATIENCE_S
        while not self._has_data_node():
            has_ended = any(one.poll() is not None for one in self._processes)
            if has_ended or time.monotonic() > over:
                self.kill()
                raise AssertionError(self._said())
            time.sleep(0.2)

    def _begin(self, *words: str) -> subprocess.Popen[bytes]:
        with (self._folder / "said").open("ab") as said:
            command = [*_JAVA, "-cp", f"{self._folder}:{JARS / 'hdfs'}/*", *words]
            return subprocess.Popen(command, stdout=said, stderr=said)

    def _said(self) -> str:
        return (self._folder / "said").read_text()

    def _has_data_node(self) -> bool:
        return "Adding new storage ID" in self._said()

    def kill(self) -> None:
        """End it at once."""
        for one in self._processes:
            with suppress(ProcessLookupError):
                one.kill()
            one.wait()
