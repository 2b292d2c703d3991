"""Who may ask what: tokens, hosts, bodies, and the error that the rest gets."""

import re

import pytest

from shedlight.page.auth import COOKIE, SESSION_S, Sessions
from shedlight.page.responses import MAX_BODY_BYTES
from tests.page.client import BEARER, JSON, TOKEN, PageClient, posted

ELSEWHERE = "http://192.0.2.7:8321"


@pytest.fixture
def page(recorded_run):
    """Have a page on loopback."""
    return PageClient(recorded_run / "log.jsonl")


@pytest.fixture
def public(recorded_run):
    """Have a page that other machines reach."""
    return PageClient(recorded_run / "log.jsonl", host="0.0.0.0")  # noqa: S104


@pytest.mark.parametrize("host", ["127.0.0.1:8321", "localhost", "[::1]:80", "127.8.8.8"])
def test_on_loopback_anybody_here_may_look(page, host):
    """Without a token."""
    assert page.ask("/api/status", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost:x", "", "[::1", "2130706433"]
)
def test_on_loopback_another_host_is_rejected(page, host):
    """A page from elsewhere that has its name point here asks under its own name."""
    said = page.error("/api/status", 403, headers={"host": host})
    assert "localhost" in said


@pytest.mark.parametrize(
    "path", ["/", "/static/index.html", "/api/status", "/metrics", "/nothing"]
)
def test_elsewhere_every_request_needs_the_token(public, path):
    """Also those to what is not there."""
    assert "token" in public.error(path, 401, url=ELSEWHERE)
    assert public.ask(path, url=ELSEWHERE, headers=BEARER).status_code in {200, 404}


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        "Bearer \u00e9",
        "Bearer " + "x" * 9999,
    ],
)
def test_malformed_tokens_are_rejected(public, given):
    """In a sentence."""
    headers = {"authorization": given.encode("latin-1")}
    assert "token" in public.error("/api/status", 401, url=ELSEWHERE, headers=headers)


def begin_session(page, url=ELSEWHERE):
    """Open the link; give what comes back and the cookie alone."""
    reply = page.ask("/", url=url, params={"token": TOKEN})
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    return reply, reply.headers["set-cookie"].partition(";")[0]


def test_the_link_begins_a_session(public):
    """Its cookie is only for this page, not for its scripts, and is not the token."""
    reply, cookie = begin_session(public)
    attributes = reply.headers["set-cookie"].lower()
    assert all(each in attributes for each in ("httponly", "samesite=strict", "max-age=43200"))
    assert "secure" not in attributes
    assert TOKEN not in reply.headers["set-cookie"]
    headers = {"cookie": cookie}
    assert public.ask("/api/status", url=ELSEWHERE, headers=headers).status_code == 200
    public.error("/api/status", 401, url=ELSEWHERE, params={"token": TOKEN})
    public.error("/", 401, url=ELSEWHERE, params={"token": "wrong"})


def test_a_cookie_is_for_tls_alone_where_it_was_set_by_tls(public):
    """A browser does not send it over a connection that others can read."""
    reply, _ = begin_session(public, ELSEWHERE.replace("http:", "https:"))
    assert "secure" in reply.headers["set-cookie"].lower()


def test_a_cookie_of_somebody_else_is_rejected(public, recorded_run):
    """The token, one of another server, one with a later end, one for another port."""
    _, cookie = begin_session(public)
    name, _, value = cookie.partition("=")
    end, _, signature = value.partition(".")
    other = PageClient(recorded_run / "log.jsonl", host="0.0.0.0")  # noqa: S104
    bad = [
        f"{name}={TOKEN}",
        f"{name}={int(end) + 9}.{signature}",
        f"{name}={end}.",
        f"{name}=",
    ]
    bad += [begin_session(other)[1], f"{COOKIE}-1={value}", f"{name}=\u00e9.\u00e9"]
    for each in bad:
        headers = {"cookie": each.encode("latin-1")}
        public.error("/api/status", 401, url=ELSEWHERE, headers=headers)


def test_a_session_ends():
    """Then the link is needed again."""
    now = [1000.0]
    sessions = Sessions(b"k", clock=lambda: now[0])
    cookie = sessions.begin()
    now[0] += SESSION_S - 1
    assert sessions.knows(cookie)
    now[0] += 1
    assert not sessions.knows(cookie)


def test_changes_need_the_token_in_a_header(page, public):
    """On loopback too, and a cookie is not enough."""
    body = posted({"bounds": {"edge-2": 5.0}})
    assert "token" in page.error("/api/apply", 401, **body)
    body["headers"] |= {"cookie": begin_session(public)[1]}
    assert "token" in public.error("/api/apply", 401, url=ELSEWHERE, **body)


def test_what_if_needs_no_token_here_and_one_elsewhere(page, public):
    """It changes nothing."""
    assert page.ask("/api/what-if", **posted({})).status_code == 200
    public.error("/api/what-if", 401, url=ELSEWHERE, **posted({}))


@pytest.mark.parametrize("path", ["/api/what-if", "/api/apply", "/api/status", "/nothing"])
def test_huge_bodies_are_rejected(page, path):
    """Before they are looked at, whoever sends them."""
    said = page.error(path, 413, method="POST", content=b"x" * (MAX_BODY_BYTES + 1))
    assert "65,536 bytes" in said


def test_a_huge_body_that_does_not_say_so_is_rejected(page):
    """It comes in chunks."""

    async def chunks():
        for _ in range(100):
            yield b" " * 1000

    page.error("/api/what-if", 413, method="POST", content=chunks())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 60_000,
        b'{"load": NaN}',
        b'{"load": Infinity}',
        b'{"load": -1}',
        b'{"load": 1e400}',
        b'{"load": ' + b"9" * 5000 + b"}",
        b'{"load": "2"}',
        b'{"load": true}',
        b'{"bounds": {"edge-2": 0}}',
        b'{"bounds": {"edge-2": -1}}',
        b'{"bounds": {"edge-2": null}}',
        b'{"bounds": [1]}',
        b'{"bounds": {"nobody": 1}}',
        b'{"bounds": {"edge-1": 1}}',
        b'{"bounds": {"\\ud800": 1}}',
        b'{"weights": {"k3": -1}}',
        b'{"weights": {"k3": NaN}}',
        b'{"weights": {"nobody": 1}}',
        b'{"nothing": 1}',
    ],
)
def test_bad_input_is_rejected_in_a_sentence(page, body):
    """What is malformed, unknown or out of range."""
    reply = page.ask(
        "/api/what-if", method="POST", content=body, headers={"content-type": JSON}
    )
    assert reply.status_code in {400, 404, 422}
    said = reply.json()["error"]
    assert len(said) > 20
    assert not re.search("input should|valid|unable|cannot be taken", said, re.IGNORECASE), said


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/series", 422),
        ("/api/series?node=nobody", 404),
        ("/api/series?node=core&seconds=nan", 422),
        ("/api/series?node=core&seconds=inf", 422),
        ("/api/series?node=core&seconds=-1", 422),
        ("/api/decisions?limit=0", 422),
        ("/api/decisions?limit=99999999999999999999", 422),
        ("/api/nothing", 404),
        ("/static/%2e%2e/app.py", 404),
        ("/static/..%2fapp.py", 404),
        ("/static/%00", 404),
        ("/docs", 404),
    ],
)
def test_questions_that_cannot_be_answered(page, path, status):
    """A sentence each."""
    assert page.error(path, status)


def test_another_method_is_rejected(page):
    """And it says which would do."""
    reply = page.ask("/api/status", method="DELETE")
    assert reply.status_code == 405
    assert reply.headers["allow"] == "GET"


def test_browsers_are_asked_to_trust_nobody_else(page):
    """On every answer, errors included."""
    for path in ("/", "/api/status", "/nothing"):
        headers = page.ask(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in headers
    assert page.ask("/api/status").headers["cache-control"] == "no-store"
