"""A network for tests: a namespace for each process, and links that delay, stall and break."""

import asyncio
import os
import random
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Self

DELAY_S = 0.02
_CHUNK = 1 << 16
_NETWORK = f"10.{20 + os.getpid() % 200}"  # of this process alone


def _ip(*words: object) -> None:
    command = ["ip", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


@cache
def has_network_namespaces() -> bool:
    """Say whether a process can be given a network of its own, as root can."""
    try:
        with Namespace(255):
            return True
    except (AssertionError, OSError):
        return False


class Namespace:
    """A network with one cable, to a host that is `self.outside` there."""

    def __init__(self, number: int) -> None:
        self._cable = f"sh{os.getpid()}n{number}"
        self._name = f"shedlight-{self._cable}"
        self.outside = f"{_NETWORK}.{number}.1"
        self._inside = f"{_NETWORK}.{number}.2"

    def __enter__(self) -> Self:
        _ip("netns", "add", self._name)
        try:
            inner = f"{self._cable}i"
            _ip("link", "add", self._cable, "type", "veth", "peer", "name", inner)
            _ip("link", "set", inner, "netns", self._name)
            _ip("addr", "add", f"{self.outside}/24", "dev", self._cable)
            _ip("link", "set", self._cable, "up")
            _ip("-n", self._name, "addr", "add", f"{self._inside}/24", "dev", inner)
            _ip("-n", self._name, "link", "set", inner, "up")
            _ip("-n", self._name, "link", "set", "lo", "up")
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for words in (("link", "del", self._cable), ("netns", "del", self._name)):
            with suppress(AssertionError):
                _ip(*words)

    def command(self, words: Sequence[str]) -> list[str]:
        """Give the command that runs another in there."""
        return ["ip", "netns", "exec", self._name, *words]


class Link:
    """A way to a port of the loopback: each byte takes 20 ms more.

    One with a seed stalls now and then for a second or two, or breaks all its connections.
    """

    def __init__(self, host: str, seed: int | None = None) -> None:
        self._host, self._rng = host, None if seed is None else random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server
        self._target = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._stalled_until = 0.0
        self.carried = self.stalls = self.cuts = 0
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port: int = self._call(self._listen())

    def _call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._connect, self._host, 0)
        if self._rng is not None:
            self._troubling = self._loop.create_task(self._trouble(self._rng))
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def address(self) -> str:
        """Say where it begins."""
        return f"{self._host}:{self.port}"

    def lead_to(self, port: int) -> None:
        """Say where it leads."""
        self._target = port

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        ends = [writer]
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            ends.append(back)
            self._open.update(ends)
            await asyncio.gather(self._carry(reader, back), self._carry(there, writer))
        except OSError:
            pass  # one of both is gone
        finally:
            self._open.difference_update(ends)
            for end in ends:
                end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)

        async def deliver() -> None:
            while True:
                due, data = await on_the_way.get()
                await self._wait_until(due)
                await self._wait_until(self._stalled_until)
                if not data:
                    return writer.transport.abort()
                writer.write(data)
                await writer.drain()
                self.carried += len(data)

        delivering = self._loop.create_task(deliver())
        try:
            data = b"?"
            while data and not delivering.done():
                data = await reader.read(_CHUNK)
                await on_the_way.put((self._loop.time() + DELAY_S, data))
            await delivering
        finally:
            delivering.cancel()

    async def _wait_until(self, time: float) -> None:
        await asyncio.sleep(max(0.0, time - self._loop.time()))

    async def _trouble(self, rng: random.Random) -> None:
        while True:
            await asyncio.sleep(rng.uniform(4, 12))
            if rng.random() < 0.5:
                self._stalled_until = self._loop.time() + rng.uniform(1, 2)
                self.stalls += 1
            else:
                for end in list(self._open):
                    end.transport.abort()
                self.cuts += 1

    def close(self) -> None:
        """End it with all its connections."""

        async def end() -> None:
            self._server.close()
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task():
                    task.cancel()
            for one in list(self._open):
                one.transport.abort()
            await asyncio.sleep(0)

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
