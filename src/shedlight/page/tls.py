"""How the web UI's server listens: its certificate, and how long a TLS handshake may take."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

from shedlight.errors import InputError
from shedlight.page.connections import HANDSHAKE_TIMEOUT_S


class _LockedKeyError(Exception):
    """The key is encrypted."""


def read_tls(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Read the certificate and the key that the server shows; none of both: no TLS.

    Raises:
        InputError: One of the two is missing, cannot be read, or is not of the other.
    """
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        given, other = ("certificate", "--tls-key") if cert else ("key", "--tls-cert")
        raise InputError(f"there is only the {given} for TLS; give {other}, too")
    for path in (cert, key):
        try:
            path.read_bytes()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(
                f"{path}: {reason}; give files in PEM that this user can read"
            ) from error
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key, password=_reject_password)
    except _LockedKeyError as error:
        raise InputError(
            f"{key}: the key is encrypted, and nobody can be asked for the password; give one "
            "that is not, readable by its owner alone"
        ) from error
    except ssl.SSLError as error:
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        raise InputError(
            f"{key}: the key is not that of {cert}; give the one that it was made with"
            if mismatch
            else f"{cert}, {key}: no certificate and key in PEM ({error.reason or error})"
        ) from error
    return context


def _reject_password() -> str:
    raise _LockedKeyError


_BACKLOG = 512  # how many connections the system holds until they are taken
_MAX_TAKEN = 16
"""How many are taken before those that were taken are read: so a burst closes no request."""


class PageLoop(asyncio.SelectorEventLoop):
    """An event loop whose servers speak TLS, with a limit on the time of a handshake."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._context = context

    async def create_server(  # with the arguments of the base class
        self,
        *args: Any,  # noqa: ANN401
        **settings: Any,  # noqa: ANN401
    ) -> asyncio.Server:
        """Make a server, with TLS if there is a certificate."""
        if self._context is not None:
            settings |= {
                "ssl": self._context,
                "ssl_handshake_timeout": HANDSHAKE_TIMEOUT_S,
                "ssl_shutdown_timeout": 1.0,
            }
        server = await super().create_server(*args, **settings | {"backlog": _MAX_TAKEN})
        if listening := settings.get("sock"):
            listening.listen(_BACKLOG)
        return server
