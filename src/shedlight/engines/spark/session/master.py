"""The master of a Spark session: its URL, whether it listens, whether our ports are free."""

import errno
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shedlight.engines.spark.session.preflight import CONNECT_TIMEOUT_S, SessionError, bind_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Master:
    """Where Spark runs."""

    url: str  # as Spark takes it
    cores: int | None = None  # how many it may use on this machine; None: it runs elsewhere
    # the hosts and ports of standalone masters, of which one is in charge
    addresses: tuple[tuple[str, int], ...] = ()


_LOCAL = re.compile(r"local(?:\[([1-9][0-9]*|\*)(?:\s*,\s*([1-9][0-9]*))?\])?")
_ELSEWHERE = re.compile(r"yarn|k8s://\S+|local-cluster\[[^\]]+\]")
_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:/\[\]]+)):([0-9]{1,5})")


def read_master(url: str) -> Master:
    """Understand the URL of a master.

    Raises:
        SessionError: It is none.

    Example:
        >>> read_master("spark://one:7077,two:7077").addresses
        (('one', 7077), ('two', 7077))
    """
    local = _LOCAL.fullmatch(url)
    if local:
        return Master(url, _cores() if local[1] == "*" else int(local[1] or 1))
    if _ELSEWHERE.fullmatch(url):
        return Master(url)
    if url.startswith("spark://"):
        parts = [_ADDRESS.fullmatch(part) for part in url.removeprefix("spark://").split(",")]
        addresses = tuple((part[1] or part[2], int(part[3])) for part in parts if part)
        if len(addresses) == len(parts) and all(0 < port < 2**16 for _, port in addresses):
            return Master(url, addresses=addresses)
    if url.startswith("sc://"):
        raise SessionError(
            f"{url!r} is Spark Connect, where a session is not ours to start; "
            "open it in Python and hand it over"
        )
    raise SessionError(
        f"{url!r} is no master; write local[CORES,ATTEMPTS] (local[*,4]: all cores), "
        "spark://HOST:PORT, yarn or k8s://HOST:PORT"
    )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def count_cores(spark: "SparkSession") -> int:
    """Say how many cores a session has by now; over Spark Connect, which does not say, two."""
    context = getattr(spark, "sparkContext", None)
    return 2 if context is None else max(int(context.defaultParallelism), 1)


def check_master(master: Master) -> str:
    """Say where Spark will run, if there is somebody: a standalone master must listen."""
    if master.cores is not None:
        return f"{master.url}: {master.cores} cores of this machine"
    problems = []
    for host, port in master.addresses:
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
        except OSError as error:
            problems.append(f"{host}:{port} ({error.strerror or error})")
        else:
            return f"{host}:{port} listens"
    if problems:
        raise SessionError(
            f"no Spark master listens at {', '.join(problems)}; start it with "
            "sbin/start-master.sh, put the host and port right, or run on local[*,4]"
        )
    return f"{master.url}: not looked at from here"


_PORTS = ("spark.driver.port", "spark.driver.blockManager.port", "spark.blockManager.port")


def check_ports(settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Make sure that the ports that are asked for by number are free."""
    host = settings.get("spark.driver.bindAddress", settings.get("spark.driver.host", ""))
    for name in _PORTS:
        if name in settings:
            _check_port(name, settings[name], host)
    if settings.get("spark.ui.enabled") == "true" and "spark.ui.port" in settings:
        host = environment.get("SPARK_LOCAL_IP") or host
        _check_port("spark.ui.port", settings["spark.ui.port"], host)


def _check_port(name: str, text: str, host: str) -> None:
    if not text.isdecimal() or not (int(text) == 0 or 1024 <= int(text) < 2**16):  # noqa: PLR2004
        raise SessionError(
            f"{name} is {text!r}; write 1024 to 65535, or 0 for any that is free"
        )
    try:
        bind_port(host, int(text)).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SessionError(
                f"{name} is {text}, which another program uses; ask for another port, "
                "or leave it out: Spark then finds a free one"
            ) from error
        raise SessionError(
            f"{name}: port {text} of {host or 'this machine'} cannot be used: "
            f"{error.strerror or error}; put spark.driver.bindAddress or SPARK_LOCAL_IP right"
        ) from error
