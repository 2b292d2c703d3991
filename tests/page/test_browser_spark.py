"""The web UI of a run on Spark: the example under overload, in a browser."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.page.browsing import OVERFLOW, OVERLAPS, chromium, looking, photograph
from tests.page.conftest import TOKEN

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "overload"
STARTING, SOON = 120_000, 150_000
"""In milliseconds: Spark starts slowly where other tests run too."""


@contextmanager
def started(*command, **options):
    """Start a program, and end it as Ctrl-C would."""
    with subprocess.Popen(command, text=True, **options) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                process.kill()


def link_in(output):
    """Find the link in what a run says, once it says it."""
    over = time.monotonic() + 60
    while time.monotonic() < over:
        found = re.search(r"web UI: (http\S+)", output.read_text("utf-8"))
        if found:
            return found[1]
        time.sleep(0.1)
    pytest.fail(f"no link in: {output.read_text('utf-8')}")


@pytest.mark.soak
@pytest.mark.timeout(420)
def test_a_run_on_spark_is_followed_from_its_start_until_it_sheds(tmp_path):
    """Far more payments come than the node can match; the web UI shows it and the plan."""
    shutil.copy(EXAMPLE / "app.yaml", tmp_path)
    output = tmp_path / "output.txt"
    discarded = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    feed = [sys.executable, str(EXAMPLE / "feed.py"), str(tmp_path / "data" / "payments")]
    run = [sys.executable, "-m", "shedlight.cli", "run", str(tmp_path / "app.yaml")]
    (tmp_path / "data" / "payments").mkdir(parents=True)
    with (
        output.open("w") as out,
        chromium() as browser,
        started(
            *run,
            *("--page", "--port", "0", "--master", "local[1]"),
            env=os.environ | {"SHEDLIGHT_TOKEN": TOKEN},
            stdout=out,
            stderr=out,
        ),
        looking(browser, link_in(output)) as page,
    ):
        expect(page.locator("header .badge")).to_have_text("STARTING")
        expect(page.locator("#graph .vertex.operator")).to_have_count(2, timeout=STARTING)
        expect(page.locator("header .badge")).to_have_text("OK", timeout=STARTING)
        with started(*feed, "--rate", "20000", "--duration", "200", **discarded):
            expect(page.locator("#decisions tr.plan").first).to_be_visible(timeout=SOON)
            expect(
                page.locator("#graph .edge[data-shed]:not([data-shed='0.000'])")
            ).not_to_have_count(0, timeout=SOON)
            expect(page.locator("#keep-rows tbody")).to_contain_text("flows.", timeout=SOON)
            page.get_by_label("edge", exact=True).fill("20")
            expect(page.locator("#whatif-result")).to_contain_text("Nothing is applied")
            assert page.evaluate(OVERFLOW) == [0]
            assert page.evaluate(OVERLAPS)[1] == []
            photograph(page, "spark", tmp_path)
