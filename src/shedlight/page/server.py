"""Serving the web UI: at which address, with which token, in a thread or until a signal."""

import asyncio
import errno
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvicorn

from shedlight.errors import InputError
from shedlight.page.app import build_app
from shedlight.page.auth import Access
from shedlight.page.connections import PageProtocol
from shedlight.page.run_view import RunPaths, RunView
from shedlight.page.tls import PageLoop, read_tls

_MAX_START_S = 10.0
_MIN_TOKEN_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Address:
    """Where the web UI is served."""

    host: str = "127.0.0.1"  # an address of this machine
    port: int = 0  # 0: any that is free
    token: str = ""  # what to show for changes; empty: one is made
    tls_cert: Path | None = None  # a certificate in PEM; None: no TLS
    tls_key: Path | None = None  # the key of the certificate

    def __post_init__(self) -> None:
        if self.token and len(self.token) < _MIN_TOKEN_LENGTH:
            raise InputError(
                f"the token has {len(self.token)} characters, and anybody could guess it; give "
                f"one of {_MIN_TOKEN_LENGTH} or more, or none to have one made"
            )
        if not self.token.isascii() or any(map(str.isspace, self.token)):
            raise InputError(
                "the token has characters that a header cannot have; use letters and digits"
            )


class PageServer:
    """The web UI of a run, served."""

    def __init__(self, paths: RunPaths, address: Address) -> None:
        self.access = Access(address.token or secrets.token_urlsafe(24), address.host)
        self._tls = read_tls(address.tls_cert, address.tls_key)
        self._socket = bind_socket(address.host, address.port)
        self.port = int(self._socket.getsockname()[1])
        self._view = RunView(paths)
        app = build_app(self._view, self.access, lambda: self._server.should_exit)
        config = uvicorn.Config(
            app,
            http=PageProtocol,
            ws="none",
            access_log=False,
            log_level="critical",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            lifespan="off",
        )
        self._server = uvicorn.Server(config)

    @property
    def link(self) -> str:
        """What to open."""
        host = self.access.host
        shown = f"[{host}]" if ":" in host else host
        query = "" if self.access.is_open else f"?token={self.access.token}"
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{shown}:{self.port}/{query}"

    def check(self) -> None:
        """Read what is there of the log; that it is none of a run is an `InputError`."""
        self._view.refresh()
        if problem := self._view.problem:
            raise InputError(f"{self._view.paths.log}: {problem}")

    def close(self) -> None:
        """Give the port back, and close the log."""
        self._socket.close()
        self._view.close()

    def run(self) -> None:
        """Serve until a signal."""
        with closing(self):
            self._view.refresh()
            with asyncio.Runner(loop_factory=partial(PageLoop, self._tls)) as runner:
                runner.run(self._server.serve(sockets=[self._socket]))

    @contextmanager
    def in_background(self) -> Iterator[None]:
        """Serve from a thread for as long as something else is done."""
        thread = threading.Thread(target=self.run, name="shedlight web UI", daemon=True)
        thread.start()
        deadline = time.monotonic() + _MAX_START_S
        while thread.is_alive() and not self._server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            yield
        finally:
            self._server.should_exit = True
            thread.join(timeout=5)


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind a socket to a port, unless it is taken or the address is none of this machine."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # It listens at once: else two could take one port, and the second would learn it late.
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        bound = socket.create_server(
            (host, port), family=family, backlog=128, dualstack_ipv6=both
        )
    except OSError as error:
        advice = {
            errno.EADDRINUSE: "another run may have it; give another --port, or 0 for any",
            errno.EACCES: "give a --port from 1024 on",
        }.get(error.errno or 0, "give a --host that is an address of this machine")
        known = (error.errno or 0) in errno.errorcode
        what = os.strerror(error.errno or 0) if known else error.strerror or str(error)
        raise InputError(
            f"the web UI cannot be served at {host}, port {port}: {what.lower()}; {advice}"
        ) from error
    bound.settimeout(0)
    return bound
