"""`shedlight serve`, and what `shedlight run --page` says before Spark starts."""

import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from shedlight.cli.main import main
from tests.page.conftest import recorded_run  # noqa: F401  # a fixture
from tests.page.rehearsal import BOUND


def command(*options):
    """Write the command line."""
    return [sys.executable, "-m", "shedlight.cli", *options]


@pytest.fixture
def failing_call(capsys, monkeypatch):
    """Call it with something that cannot be done; give what it says."""

    def call(*options, status=1):
        monkeypatch.setattr(sys, "argv", ["shedlight", *options])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == status
        out, err = capsys.readouterr()
        assert out == ""
        return err

    return call


def test_it_serves_a_recorded_run_until_it_is_told_to_stop(recorded_run):  # noqa: F811
    """And prints where, with a token."""
    with subprocess.Popen(
        command("serve", str(recorded_run), "--port", "0"), stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        link = re.fullmatch(r"web UI: (http://127\.0\.0\.1:\d+/)\n", running.stderr.readline())
        token = re.fullmatch(r"token for changes: (\S{32})\n", running.stderr.readline())
        assert link
        assert token
        with httpx.Client(trust_env=False) as client:
            run = client.get(f"{link[1]}api/run").json()
        running.send_signal(signal.SIGINT)
        running.wait(timeout=20)
    assert run["nodes"]["edge-2"]["bound"] == BOUND
    assert running.returncode == 0


def test_a_run_that_is_not_there(failing_call, tmp_path):
    """A sentence."""
    assert failing_call("serve", str(tmp_path / "no")) == (
        f"shedlight: {tmp_path}/no: there is nothing; give the checkpoint of a run, or the log "
        "that `shedlight run` wrote\n"
    )
    assert "there is no log in it" in failing_call("serve", str(tmp_path))


def test_a_file_that_is_no_log(failing_call, tmp_path):
    """It would be an empty page else."""
    (tmp_path / "log.jsonl").write_text("hello\n")
    assert "it is no log of a run" in failing_call("serve", str(tmp_path), "--port", "0")


def test_a_port_that_is_taken(failing_call, recorded_run):  # noqa: F811
    """It says so, and what to do."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        port = str(one.getsockname()[1])
        assert failing_call("serve", str(recorded_run), "--port", port) == (
            f"shedlight: the web UI cannot be served at 127.0.0.1, port {port}: address "
            "already in use; another run may have it; give another --port, or 0 for any\n"
        )


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (
            ("--port", "8000"),
            "--host, --port, --tls-cert and --tls-key are for the web UI; add --page",
        ),
        (("--page", "--engine", "simulator"), "the simulator has no web UI; leave out --page"),
    ],
)
def test_options_that_make_no_sense_together(failing_call, options, what):
    """It is said before anything is read."""
    assert what in " ".join(failing_call("run", "app.yaml", *options, status=2).split())


def test_a_token_can_come_from_the_environment(failing_call, recorded_run, monkeypatch):  # noqa: F811
    """One that is too short is rejected as if it were an option."""
    monkeypatch.setenv("SHEDLIGHT_TOKEN", "short")
    said = failing_call("serve", str(recorded_run), "--port", "0")
    assert "the token has 5 characters" in said
