"""Serving the web UI: ports, tokens, threads, and the status as it changes."""

import asyncio
import json
import socket

import httpx
import pytest

from shedlight.errors import InputError
from shedlight.page import sse
from shedlight.page.run_view import RunPaths, RunView
from shedlight.page.server import Address, PageServer, bind_socket
from shedlight.page.sse import StatusFeed
from tests.page.client import TOKEN, to_close
from tests.page.conftest import page_of
from tests.page.rehearsal import BUSY, QUIET


def test_it_is_served_from_a_thread_and_ends_with_it(recorded_run):
    """On any port that is free."""
    with page_of(recorded_run) as served, httpx.Client(trust_env=False) as client:
        assert served.link == f"http://127.0.0.1:{served.port}/"
        assert client.get(served.link).status_code == 200
        assert client.get(f"{served.link}api/status").json()["status"] == "SHEDDING"
    with socket.socket() as one:
        assert one.connect_ex(("127.0.0.1", served.port)) != 0


def test_a_second_server_on_the_same_port_is_an_error(recorded_run, tmp_path):
    """Before anything else is done."""
    with page_of(recorded_run) as served:
        paths = RunPaths(tmp_path / "log.jsonl")
        with pytest.raises(InputError, match=f"port {served.port}: address already in use; "):
            PageServer(paths, Address(port=served.port))


def test_an_address_of_another_machine_is_an_error():
    """In a sentence."""
    with pytest.raises(InputError, match="give a --host that is an address of this machine"):
        bind_socket("192.0.2.1", 0)
    with pytest.raises(InputError, match="give a --host"):
        bind_socket("no such host", 0)


@pytest.mark.parametrize("token", ["short", "with blanks in the middle", "é" * 20])
def test_a_token_that_is_none_is_an_error(token):
    """Too easy to guess, or nothing that a header could have."""
    with pytest.raises(InputError, match="the token has"):
        Address(token=token)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"kind":"batch","time":5,"node":"a"}', "its records are not of log format 2"),
        ("hello", "it is no log of a run"),
    ],
)
def test_a_log_that_cannot_be_shown_is_an_error(tmp_path, line, message):
    """One of before, and what is none; nothing at all may become a log."""
    log = tmp_path / "log.jsonl"
    server = PageServer(RunPaths(log), Address())
    to_close.append(server)
    server.check()

    log.write_text(f"{line}\n")
    other = PageServer(RunPaths(log), Address())
    to_close.append(other)
    with pytest.raises(InputError, match=message):
        other.check()


def test_a_token_is_made_if_none_is_given(tmp_path):
    """Another each time; elsewhere than on loopback it is in the link."""
    with bind_socket("127.0.0.1", 0) as one:
        free = one.getsockname()[1]
    first = PageServer(RunPaths(tmp_path / "log.jsonl"), Address())
    second = PageServer(RunPaths(tmp_path / "log.jsonl"), Address("0.0.0.0", free))  # noqa: S104
    to_close.extend([first, second])
    assert first.access.token != second.access.token
    assert len(first.access.token) >= 32
    assert first.access.token not in first.link
    assert second.link == f"http://0.0.0.0:{free}/?token={second.access.token}"


def test_the_status_is_sent_when_it_changes(live_run):
    """The same as `/api/status`, and nothing while nothing happens."""
    clock = [live_run.clock]
    view = RunView(RunPaths(live_run.path, live_run.folder), lambda: clock[0])
    to_close.append(view)
    feed = StatusFeed(view)

    async def read():
        looks = 0

        def is_closing():
            nonlocal looks
            looks += 1
            clock[0] += 1.0
            if looks in {4, 5}:
                live_run.second(BUSY)
            return looks > 8

        return [event async for event in feed.events(is_closing, interval=0.0)]

    events = asyncio.run(read())
    assert len(events) == 3
    assert all(event.startswith(b"data: {") and event.endswith(b"}\n\n") for event in events)
    times = [json.loads(event.removeprefix(b"data: "))["time"] for event in events]
    assert times == sorted(set(times))


def test_a_heartbeat_is_sent_while_nothing_changes(recorded_run):
    """So that nobody in between takes the line for dead."""
    clock = [0.0]
    view = RunView(RunPaths(recorded_run / "log.jsonl"), lambda: clock[0])
    to_close.append(view)
    looks = iter([False] * 25 + [True])

    async def read():
        events = StatusFeed(view).events(lambda: next(looks), interval=0.0)
        return [event async for event in events]

    first, *others = asyncio.run(read())
    assert first.startswith(b"data: ")
    assert others == [b": still here\n\n"] * 2


def test_a_stream_follows_a_run(live_run, monkeypatch):
    """Through a socket, from one second to the next."""
    monkeypatch.setattr(sse, "POLL_INTERVAL_S", 0.05)
    with (
        page_of(live_run.folder) as served,
        httpx.Client(trust_env=False) as client,
        client.stream("GET", f"{served.link}api/stream") as reply,
    ):
        assert reply.headers["content-type"].startswith("text/event-stream")
        lines = (line for line in reply.iter_lines() if line.startswith("data: "))
        first = json.loads(next(lines).removeprefix("data: "))
        live_run.second(QUIET)
        second = json.loads(next(lines).removeprefix("data: "))
    assert second["time"] > first["time"]


def test_too_many_readers_are_an_error(recorded_run, monkeypatch):
    """A sentence, and no line is opened."""
    monkeypatch.setattr(sse, "MAX_READERS", 0)
    with page_of(recorded_run) as served, httpx.Client(trust_env=False) as client:
        reply = client.get(f"{served.link}api/stream")
    assert reply.status_code == 429
    assert "too many follow already" in reply.json()["error"]


def test_the_token_of_the_tests_is_long_enough():
    """It is given to pages here."""
    assert Address(token=TOKEN).token == TOKEN
