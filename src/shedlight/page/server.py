"""Serving the page: at which address, with which token, in a thread or until told to stop."""

import errno
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import uvicorn

from shedlight.errors import InputError
from shedlight.page.app import build_app
from shedlight.page.auth import Access
from shedlight.page.run_view import RunPaths, RunView

_STARTING = 10.0
_LEAST_TOKEN = 16


@dataclass(frozen=True, slots=True)
class Address:
    """Where a page is served.

    Attributes:
        host: The address of the machine to bind to.
        port: 0: any that is free.
        token: What to show for changes; empty: one is made.
    """

    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""

    def __post_init__(self) -> None:
        if self.token and len(self.token) < _LEAST_TOKEN:
            raise InputError(
                f"the token has {len(self.token)} characters, and anybody could guess it; give "
                f"one of {_LEAST_TOKEN} or more, or none to have one made"
            )
        if not self.token.isascii() or any(one.isspace() for one in self.token):
            raise InputError(
                "the token has characters that a header cannot have; use letters and digits"
            )


class PageServer:
    """A page that is served.

    Attributes:
        access: Who may look and who may change.
        port: The port that it has.
    """

    def __init__(self, place: RunPaths, address: Address) -> None:
        self.access = Access(address.token or secrets.token_urlsafe(24), address.host)
        self._socket = bound_socket(address.host, address.port)
        self.port = int(self._socket.getsockname()[1])
        self._watch = RunView(place)
        app = build_app(self._watch, self.access, lambda: self._server.should_exit)
        config = uvicorn.Config(
            app,
            access_log=False,
            log_level="critical",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            limit_concurrency=200,
            lifespan="off",
        )
        self._server = uvicorn.Server(config)

    @property
    def link(self) -> str:
        """What to open."""
        host = self.access.host
        shown = f"[{host}]" if ":" in host else host
        query = "" if self.access.is_open else f"?token={self.access.token}"
        return f"http://{shown}:{self.port}/{query}"

    def check(self) -> None:
        """Read what is there of the log.

        Raises:
            InputError: It is no log of a run.
        """
        self._watch.refresh()
        if self._watch.seen.is_foreign:
            raise InputError(
                f"{self._watch.place.log}: it is no log of a run; give the file that "
                "`shedlight run` wrote, or its checkpoint"
            )

    def close(self) -> None:
        """Give the port back, and close the log."""
        self._socket.close()
        self._watch.close()

    def run(self) -> None:
        """Serve until told to stop by a signal."""
        with closing(self):
            self._watch.refresh()
            self._server.run(sockets=[self._socket])

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Serve from a thread for as long as something else is done."""
        thread = threading.Thread(target=self.run, name="shedlight page", daemon=True)
        thread.start()
        over = time.monotonic() + _STARTING
        while thread.is_alive() and not self._server.started and time.monotonic() < over:
            time.sleep(0.01)
        try:
            yield
        finally:
            self._server.should_exit = True
            thread.join(timeout=5)


def bound_socket(host: str, port: int) -> socket.socket:
    """Take a port.

    Raises:
        InputError: It is taken, or the address is none of this machine.
    """
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _cannot(host, port, error) from error
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(place)
        found.listen(128)  # else two could take one port, and the second would hear of it late
        found.settimeout(0)
    except OSError as error:
        found.close()
        raise _cannot(host, port, error) from error
    return found


def _cannot(host: str, port: int, error: OSError) -> InputError:
    remedies = {
        errno.EADDRINUSE: "another run may have it; give another --port, or 0 for any",
        errno.EACCES: "give a --port from 1024 on",
    }
    remedy = remedies.get(error.errno or 0, "give a --host that is an address of this machine")
    what = (error.strerror or str(error)).lower()
    return InputError(f"the page cannot be served at {host}, port {port}: {what}; {remedy}")
