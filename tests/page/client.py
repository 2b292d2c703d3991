"""A client of the web UI, without a socket."""

import asyncio
import json
from typing import Any

import httpx

from shedlight.page.app import build_app
from shedlight.page.auth import Access
from shedlight.page.run_view import RunView, run_paths

TOKEN = "a-token-for-the-tests"  # noqa: S105
BEARER = {"authorization": f"Bearer {TOKEN}"}

to_close: list[Any] = []
"""What a test has opened and leaves to be closed."""


class PageClient:
    """Sends requests to the web UI of a log.

    Args:
        log: The log of the run.
        host: The address that it believes to be served at.
        clock: Now.
        paths: Where the run writes, if it is not found by the log.
    """

    def __init__(self, log, host="127.0.0.1", clock=None, paths=None):
        self.view = RunView(paths or run_paths(log), *([clock] if clock else []))
        to_close.append(self.view)
        self.app = build_app(self.view, Access(TOKEN, host))

    def ask(self, path, method="GET", url="http://127.0.0.1:8321", **more):
        """Ask once."""

        async def asked():
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url=url) as client:
                return await client.request(method, path, **more)

        return asyncio.run(asked())

    def get(self, path, **more):
        """Ask for something that is there."""
        reply = self.ask(path, **more)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def error(self, path, status, **more):
        """Ask for something that is an error; give the sentence."""
        reply = self.ask(path, **more)
        assert reply.status_code == status, reply.text
        assert reply.headers["content-type"] == "application/json"
        found = reply.json()
        assert set(found) == {"error"}
        return found["error"]


def posted(body):
    """Make the arguments of a POST."""
    return {"method": "POST", "content": json.dumps(body), "headers": {"content-type": JSON}}


JSON = "application/json"
