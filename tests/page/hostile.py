"""Clients that mean no good, on loopback alone: each connection is one request of a kind."""

import json
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx

HOST = b"Host: 127.0.0.1\r\n"
STATUS = b"GET /api/status HTTP/1.1\r\n"
WHAT_IF = b"POST /api/what-if HTTP/1.1\r\nContent-Type: application/json\r\n"
HELD = 300
"""How many connections are held open at most; a client here has a thousand descriptors."""

KINDS = {
    "says nothing": b"",
    "half a line": b"GET /api/sta",
    "half a header": STATUS + HOST + b"Accept: text",
    "half a body": WHAT_IF + HOST + b'Content-Length: 50\r\n\r\n{"load":',
    "a huge header": STATUS + HOST + b"X: " + b"x" * 200_000,
    "a huge body": WHAT_IF + HOST + b"Content-Length: 99999999\r\n\r\n" + b" " * 100_000,
    "another host": STATUS + b"Host: evil.example\r\n\r\n",
    "a wrong token": b"POST /api/apply HTTP/1.1\r\nAuthorization: Bearer wrong\r\n"
    b"Content-Type: application/json\r\nContent-Length: 2\r\n" + HOST + b"\r\n{}",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "a question": WHAT_IF + HOST + b'Content-Length: 11\r\n\r\n{"load": 2}',
    "follows": b"GET /api/stream HTTP/1.1\r\n" + HOST + b"\r\n",
    "two lengths": WHAT_IF + HOST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a web socket": STATUS + HOST + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
}


class Attack:
    """Sends requests of all kinds to a port of this machine, and notes what is answered.

    Attributes:
        statuses: How often each status was answered; 0 is no answer.
    """

    def __init__(self, port):
        self._port, self._held = port, []
        self._lock = threading.Lock()
        self.statuses: Counter[int] = Counter()

    def run(self, number, threads=16):
        """Send so many requests, as fast as the threads can."""
        kinds = list(KINDS.values())
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(self._send, (kinds[i % len(kinds)] for i in range(number))))

    def close(self):
        """Let go of what is held open."""
        while self._held:
            self._held.pop().close()

    def _send(self, request):
        with suppress(OSError):
            connection = socket.create_connection(("127.0.0.1", self._port), timeout=5)
            with self._lock:
                self._held.append(connection)
                oldest = self._held.pop(0) if len(self._held) > HELD else None
            if oldest is not None:
                self._note(oldest)
            connection.sendall(request)

    def _note(self, connection):
        """Read what was answered by now, if anything was."""
        with connection, suppress(OSError):
            connection.settimeout(0.0)
            answer = connection.recv(64)
            has_status = answer.startswith(b"HTTP/1.1 ")
            with self._lock:
                self.statuses[int(answer[9:12]) if has_status else 0] += 1


class Witness:
    """Somebody else, who looks at the page all the while, each time over a new connection.

    Attributes:
        seconds: How long each answer took.
        others: What was answered that is not 200.
    """

    def __init__(self, link):
        self._link = link
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.seconds, self.others = [], []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _look(self):
        paths = ("", "api/status", "static/main.js", "metrics", "api/run")
        once = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(trust_env=False, timeout=10, limits=once) as client:
            while not self._stop.is_set() or len(self.seconds) < len(paths):
                start = time.monotonic()
                try:
                    path = paths[len(self.seconds) % len(paths)]
                    status = client.get(self._link + path).status_code
                    self.others += [status] * (status != 200)
                except httpx.HTTPError as error:
                    self.others.append(repr(error))
                self.seconds.append(time.monotonic() - start)
                self._stop.wait(0.02)


def trusting(cert):
    """Trust one certificate alone."""
    return ssl.create_default_context(cafile=str(cert))


if __name__ == "__main__":  # a process of its own, so that it does not take the server's time
    attack = Attack(int(sys.argv[1]))
    attack.run(int(sys.argv[2]))
    attack.close()
    sys.stdout.write(json.dumps(attack.statuses))
