"""The server under clients that mean no good: nobody is locked out, and nothing fails."""

import asyncio
import json
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import closing

import httpx
import pytest

from shedlight.errors import InputError
from shedlight.page import connections, sse
from shedlight.page.run_view import RunView, run_paths
from shedlight.page.server import Address, PageServer
from shedlight.page.sse import FollowResponse, StatusFeed
from shedlight.page.tls import read_tls
from tests.page.client import TOKEN, to_close
from tests.page.conftest import page_of
from tests.page.hostile import HOST, STATUS, WHAT_IF, Attack, Witness, trusting

WITHIN_S = 1.0
"""In which time others are answered."""


def hostile(folder, number):
    """Send so many requests, look at the page meanwhile; give the attack and the witness."""
    with page_of(folder) as served, Witness(served.link) as witness:
        attack = Attack(served.port)
        with closing(attack):
            attack.run(number)
    return attack, witness


def late(witness):
    """Give how many answers took too long, the slowest, and what else was answered."""
    slow = [each for each in witness.seconds if each > WITHIN_S]
    return len(slow), max(witness.seconds), witness.others


def test_hostile_requests_lock_nobody_out(recorded_run):
    """The long version measures how soon others are answered; here they are answered."""
    attack, witness = hostile(recorded_run, 600)
    assert witness.others == []
    assert attack.statuses[403] > 0
    assert max(attack.statuses) < 500


@pytest.mark.soak
def test_ten_thousand_hostile_requests(recorded_run):
    """No 5xx, and others are answered within a second meanwhile."""
    with page_of(recorded_run) as served, Witness(served.link) as witness:
        command = [sys.executable, "-m", "tests.page.hostile", str(served.port), "10000"]
        attack = subprocess.run(command, check=True, capture_output=True, text=True)
    statuses = json.loads(attack.stdout)
    assert max(map(int, statuses)) < 500
    assert statuses["403"] > 0
    assert late(witness)[0] == 0, (late(witness), statuses)
    assert witness.others == []


@pytest.mark.parametrize(
    "request_",
    [b"", b"GET / HT", STATUS + HOST, WHAT_IF + HOST + b"Content-Length: 9\r\n\r\n{"],
)
def test_a_request_that_does_not_arrive_is_closed(recorded_run, monkeypatch, request_):
    """What has begun is answered first; a byte now and then gives it no more time."""
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 0.3)
    with (
        page_of(recorded_run) as served,
        socket.create_connection(("127.0.0.1", served.port), timeout=10) as client,
    ):
        client.sendall(request_)
        answer = client.recv(1000)
        assert answer.startswith(b"HTTP/1.1 408" if request_ else b"")
        assert (b"did not arrive within" in answer) == bool(request_)
        rest = client.recv(1000) if answer else b""
        assert rest == b""


def test_a_connection_that_is_kept_is_closed_when_nothing_more_comes(recorded_run, monkeypatch):
    """Also if a byte of a second request comes."""
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 0.3)
    with (
        page_of(recorded_run) as served,
        socket.create_connection(("127.0.0.1", served.port), timeout=10) as client,
    ):
        client.sendall(STATUS + HOST + b"\r\n" + b"G")
        received = b""
        while chunk := client.recv(100_000):
            received += chunk
    assert received.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in received


def test_who_opens_many_connections_loses_the_oldest_of_them(recorded_run, monkeypatch):
    """A new one is served, however many wait."""
    monkeypatch.setattr(connections, "MAX_CLIENT_CONNECTIONS", 5)
    with page_of(recorded_run) as served:
        held = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(5)]
        time.sleep(0.2)  # until all are taken
        reply = httpx.get(f"{served.link}api/status", trust_env=False)
        assert reply.status_code == 200
        held[0].settimeout(5)
        assert held[0].recv(1) == b""
        for each in held:
            each.close()


def test_connections_that_are_all_in_use_are_an_error(recorded_run, monkeypatch):
    """In a sentence; none of them is closed."""
    monkeypatch.setattr(connections, "MAX_CLIENT_CONNECTIONS", 1)
    with (
        page_of(recorded_run) as served,
        httpx.Client(trust_env=False) as client,
        client.stream("GET", f"{served.link}api/stream") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines).startswith("data: ")
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as other:
            assert other.recv(1000).startswith(b"HTTP/1.1 429")


def test_a_burst_of_readers_gets_no_more_places_than_there_are(recorded_run, monkeypatch):
    """All begin before the first is sent anything."""
    monkeypatch.setattr(sse, "MAX_CLIENT_READERS", 3)
    view = RunView(run_paths(recorded_run / "log.jsonl"))
    to_close.append(view)
    feed = StatusFeed(view)
    statuses = []

    async def follow(client, is_over):
        async def receive():
            await is_over.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        scope = {"type": "http", "client": client, "asgi": {"spec_version": "2.3"}}
        await FollowResponse(feed, is_over.is_set)(scope, receive, send)

    async def burst():
        is_over = asyncio.Event()
        readers = [
            asyncio.create_task(follow((address, 1), is_over))
            for address in ["10.0.0.1"] * 20 + ["10.0.0.2"] * 2
        ]
        await asyncio.sleep(0.2)
        is_over.set()
        await asyncio.gather(*readers)

    asyncio.run(burst())
    assert sorted(statuses) == [200] * 5 + [429] * 17
    assert feed.readers.total() == 0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Make a certificate for this machine, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl; install it (Debian: apt-get install openssl)")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext"]
    command += ["subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


def test_it_is_served_by_tls(recorded_run, certificate):
    """As https, also while handshakes hang that nobody ends."""
    cert, key = certificate
    address = Address(port=0, token=TOKEN, tls_cert=cert, tls_key=key)
    served = PageServer(run_paths(recorded_run / "log.jsonl"), address)
    with served.in_background():
        held = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(100)]
        reply = httpx.get(f"{served.link}api/status", verify=trusting(cert), trust_env=False)
        for each in held:
            each.close()
    assert re.fullmatch(r"https://127\.0\.0\.1:\d+/", served.link)
    assert reply.status_code == 200


def test_a_handshake_that_hangs_is_closed(recorded_run, certificate, monkeypatch):
    """It is over before a request could begin."""
    monkeypatch.setattr("shedlight.page.tls.HANDSHAKE_TIMEOUT_S", 0.3)
    address = Address(port=0, token=TOKEN, tls_cert=certificate[0], tls_key=certificate[1])
    served = PageServer(run_paths(recorded_run / "log.jsonl"), address)
    with (
        served.in_background(),
        socket.create_connection(("127.0.0.1", served.port), timeout=10) as client,
    ):
        assert client.recv(1) == b""


def test_a_certificate_that_cannot_be_used_is_an_error(certificate, tmp_path):
    """A sentence each, before anything is served."""
    cert, key = certificate
    (tmp_path / "none.pem").write_text("nothing")
    for given, message in (
        ((cert, None), "only the certificate for TLS; give --tls-key"),
        ((None, key), "only the key for TLS; give --tls-cert"),
        ((cert, tmp_path / "no.pem"), "no such file or directory; give files in PEM"),
        ((tmp_path / "none.pem", key), "no certificate and key in PEM"),
    ):
        with pytest.raises(InputError, match=message):
            read_tls(*given)
    assert read_tls(None, None) is None


def test_a_key_of_another_certificate_or_with_a_password_is_an_error(certificate, tmp_path):
    """Nobody is asked for the password: a run may have no terminal."""
    cert, key = certificate
    openssl = str(shutil.which("openssl"))
    other, locked = tmp_path / "other.pem", tmp_path / "locked.pem"
    make = [openssl, "ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", other]
    lock = [openssl, "pkey", "-in", key, "-aes256", "-passout", "pass:abcdef", "-out", locked]
    for command in (make, lock):
        subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(InputError, match="the key is not that of"):
        read_tls(cert, other)
    with pytest.raises(InputError, match="the key is encrypted, and nobody can be asked"):
        read_tls(cert, locked)
