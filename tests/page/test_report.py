"""The report: the web UI in one file, which asks for nothing and runs no foreign text."""

import json
import re
from html.parser import HTMLParser

import pytest
from playwright.sync_api import expect

from shedlight.page import report
from shedlight.page.report import bundle, report_page
from shedlight.runlog.follow import read_run
from tests.page.browsing import (
    FAINT,
    NAMELESS,
    OVERFLOW,
    OVERLAPS,
    chromium,
    looking,
    photograph,
)
from tests.page.made_up import large_log
from tests.runlog.logs import HOSTILE, batch, decision, header, hostile_run, run


class Page(HTMLParser):
    """Collects the tags and texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags = list[str]()
        self.texts = list[str]()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, _):
        """See a tag."""
        self.tags.append(tag)

    def handle_data(self, data):
        """Take in a text."""
        self.texts.append(data)


@pytest.fixture(scope="module")
def browser():
    """Start one browser for all tests here."""
    with chromium() as found:
        yield found


def write(folder, recorded):
    """Write the report of a run; give its address."""
    path = folder / "report.html"
    path.write_text(report_page(recorded), encoding="utf-8", errors="replace")
    return path.as_uri()


def answers(page):
    """Read the answers that are in a report."""
    found = re.search(r'<script type="application/json" id="recorded">(.*?)</script>', page)
    assert found
    return json.loads(found[1])


def test_the_page_asks_for_nothing(recorded_run):
    """No address of elsewhere, and a policy by which it could not ask."""
    page = report_page(read_run(recorded_run))
    loaded = re.findall(r'(?:src|href)="([^"#]+)', page)
    assert all(each.startswith("data:") for each in loaded)
    assert not re.search(r"url\((?!#)|@import|https?:(?!//www\.w3\.org/)", page)
    assert "default-src 'none'" in page
    assert "unsafe" not in page


def test_what_a_log_says_is_no_part_of_the_page():
    """Every name is a script here; the page has the same tags as that of a run that is fine."""
    fine = run(header(99.0), batch(101.0), decision(102.0))
    hostile, plain = Page(report_page(hostile_run())), Page(report_page(fine))
    tags = [tag for tag in hostile.tags if tag != "li"]
    assert tags == [tag for tag in plain.tags if tag != "li"]
    assert HOSTILE.partition("\u202e")[0].strip() in "".join(hostile.texts)


def test_without_scripts_it_says_how_the_run_went(recorded_run):
    """In sentences."""
    page = report_page(read_run(recorded_run))
    assert "Node edge-2 kept" in page.partition("<noscript>")[2].partition("</noscript>")[0]


def test_each_module_is_in_it_once_and_after_what_it_needs():
    """Every module of the page is bundled."""
    script = bundle("main.js")
    modules = re.findall(r"^const \$(\w+) = ", script, re.MULTILINE)
    assert sorted(modules) == sorted(path.stem for path in report.STATIC.glob("*.js"))
    for found in re.finditer(r"^const \{[^}]*\} = \$(\w+);", script, re.MULTILINE):
        assert script.index(f"const ${found[1]} = ") < found.start()
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)


@pytest.mark.parametrize(
    "rows",
    [
        [decision(5.0)],
        [header(5.0)],
        [batch(5.0, events=0, kept=0, patterns={})],
        [batch(5.0, mean=1e15, seconds=1e15), batch(4.0, mean=-3.0)],
        [batch(0.0), batch(2e11)],
        [batch(5.0, mean=1e-300)],
    ],
)
def test_every_log_has_a_report(browser, tmp_path, rows):
    """Whatever is missing in it or far off."""
    with looking(browser, write(tmp_path, run(*rows))) as page:
        expect(page.locator("#banner")).to_contain_text("A report")


def test_old_plans_that_do_not_fit_are_left_out_and_not_taken_for_others(monkeypatch):
    """Of then there is none, rather than that of another time."""
    monkeypatch.setattr(report, "MAX_PLAN_ROWS", 1)
    rows = [
        decision(t, replanned=True, shares={"flows.P": {"a": t / 10, "b": 0.5}})
        for t in (1.0, 2.0, 3.0)
    ]
    plans = answers(
        report_page(run(header(0.5), *rows, decision(4.0, shares=rows[-1]["shares"])))
    )
    assert [(time, plan is None) for time, plan in plans["plans"]] == [
        (1.0, True),
        (2.0, True),
        (3.0, False),
    ]


@pytest.mark.parametrize("width", [1440, 420])
def test_a_report_is_the_page_without_a_server(browser, recorded_run, tmp_path, width):
    """Graph, totals, curves of all kinds, keep shares of any moment, automata; printed too."""
    link = write(tmp_path, read_run(recorded_run))
    with looking(browser, link, width=width) as page:
        expect(page.locator("#totals-text")).to_contain_text("events read")
        expect(page.locator("#totals-patterns tbody tr")).to_have_count(6)
        expect(page.locator("#curves figure")).to_have_count(15)
        expect(page.locator("#whatif-panel")).to_be_hidden()
        assert page.evaluate(OVERFLOW) == [0]
        assert page.evaluate(OVERLAPS)[1] == []
        assert page.evaluate(FAINT) == []
        assert page.evaluate(NAMELESS) == []
        page.locator("#decisions button").last.click()
        expect(page.locator("#moment")).to_contain_text("As decided at")
        page.get_by_role("button", name="Back to now").click()
        photograph(page, f"report-{width}", tmp_path)
        page.emulate_media(media="print")
        page.evaluate("document.documentElement.style.width = '718px'")
        page.pdf(path=tmp_path / "report.pdf", format="A4")
        assert (tmp_path / "report.pdf").stat().st_size > 10_000


def test_hostile_names_do_nothing_in_a_report(browser, tmp_path):
    """They are shown."""
    with looking(browser, write(tmp_path, hostile_run())) as page:
        expect(page.locator("h1")).to_contain_text("<script>")
        assert page.locator("main script, main img").count() == 0


def test_a_report_of_many_nodes_stays_small(tmp_path):
    """Curves have fewer points then."""
    large_log(tmp_path / "log.jsonl", 200, 20)
    page = report_page(read_run(tmp_path / "log.jsonl"))
    assert len(page) < 1_000_000
    assert len(answers(page)["series"]) == 20
