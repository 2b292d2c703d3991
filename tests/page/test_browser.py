"""The live page in a browser: what it shows of a run, and that it changes nothing by itself."""

import json
import re
import threading
import time
from contextlib import ExitStack, closing, contextmanager

import httpx
import pytest
from playwright.sync_api import expect

from shedlight.engines.spark.support.checkpoint import lock_checkpoint
from shedlight.page.run_view import run_paths
from shedlight.page.server import Address, PageServer
from tests.page.browsing import chromium, looking, photograph
from tests.page.conftest import TOKEN, page_of
from tests.page.made_up import HOSTILE, LargeRun, hostile_log, hostile_text
from tests.page.rehearsal import BOUND, BUSY, QUIET, Rehearsal, rehearse
from tests.runlog.logs import batch, decision, header, text

SLOW = 20_000
"""In milliseconds: news comes once a second, but the machine may be busy with other tests."""


@pytest.fixture(scope="module")
def browser():
    """Start one browser for all tests here."""
    with chromium() as found:
        yield found


@pytest.fixture
def quiet_run(tmp_path):
    """Have a run under way that has not had to shed."""
    run = rehearse(tmp_path / "state", quiet=6, busy=0)
    with lock_checkpoint(run.folder), closing(run.log):
        yield run


def graph(page):
    """Read all texts of the graph."""
    return set(page.locator("#graph text").all_text_contents())


def test_the_graph_shows_the_operators(browser, recorded_run):
    """All of it is there by name, and in words for those who listen."""
    with page_of(recorded_run) as served, looking(browser, served.link) as page:
        expect(page.locator("#graph .ring.shown")).to_have_count(1)

        assert {"s1", "s2", "w1", "w2", "w3", "w4", "k3", "k4", "edge-1", "edge-2", "core"} <= (
            graph(page)
        )
        expect(
            page.get_by_role("group", name="paper: 2 sources, 4 operators on 3 nodes")
        ).to_be_visible()
        expect(page.locator("#graph desc")).to_contain_text("edge-2 is SHEDDING")
        expect(page.locator("#graph desc")).to_contain_text("the bottleneck")
        expect(page.locator("header .badge")).to_have_text("SHEDDING")
        expect(page.locator("#advice")).to_contain_text("more cores")


def test_widths_and_hatches_say_what_flows_and_what_is_shed(browser, recorded_run):
    """The second source brings twice the first, and most of it is shed."""
    with page_of(recorded_run) as served, looking(browser, served.link) as page:
        shed = page.locator("#graph .edge").evaluate_all(
            "edges => edges.map((e) => [e.textContent, +e.dataset.shed])"
        )

        assert [one for one, share in shed if share > 0.5] == [shed[1][0]]
        assert shed[1][0].startswith("s2: 20k/s")
        widths = page.locator("#graph .edge").evaluate_all(
            "edges => edges.slice(0, 2).map((e) => [...e.querySelectorAll('path')]"
            ".reduce((sum, p) => sum + +p.getAttribute('stroke-width'), 0))"
        )
        assert widths[1] == pytest.approx(widths[0] * 2**0.5, rel=0.05)


def test_the_plan_changes_when_the_load_changes(browser, quiet_run):
    """Nobody touches the page: it learns that the load triples, and that it falls."""
    with page_of(quiet_run.folder) as served, looking(browser, served.link) as page:
        expect(page.locator("header .badge")).to_have_text("OK")
        expect(page.locator("#keep-rows")).to_contain_text("Everything is kept")

        for _ in range(8):
            quiet_run.second(BUSY)

        expect(page.locator("header .badge")).to_have_text("SHEDDING", timeout=SLOW)
        expect(page.locator("#keep-rows tbody tr").first).to_contain_text("w2.")
        expect(page.locator("#decisions tr.plan")).to_contain_text("edge-2", timeout=SLOW)
        expect(page.locator("#facts")).to_contain_text("#2")
        for _ in range(14):
            quiet_run.second(QUIET)
        expect(page.locator("header .badge")).to_have_text("OK", timeout=SLOW)


def test_latency_is_drawn_against_its_bound(browser, recorded_run):
    """Each node has four lines; one has a bound, too. Arrow keys tell the past."""
    with page_of(recorded_run) as served, looking(browser, served.link) as page:
        expect(page.locator("#curves figure")).to_have_count(3)
        second = page.locator("#curves figure").nth(1)
        expect(second.locator("figcaption")).to_have_text("edge-2 latency")
        expect(second.locator(".legend")).to_contain_text("4\u202fs")
        lines = second.locator("path[class^=line]")
        paths = lines.evaluate_all("all => all.map((p) => p.getAttribute('d'))")
        assert len(paths) == 4
        assert all(re.match(r"M[\d. L]+", path) for path in paths)
        expect(second.locator(".statuses")).to_have_text("OKSHEDDING")
        expect(second.locator(".legend")).to_contain_text("new plan")

        second.locator("> svg").focus()
        page.keyboard.press("Home")

        expect(second.locator(".when")).to_contain_text("at ")
        page.get_by_label("Node", exact=True).select_option("core")
        expect(page.locator("#curves figcaption")).to_have_text("core latency")


def test_rates_shares_and_loads_are_drawn_over_time(browser, recorded_run):
    """A chart of each kind; each line that is drawn has an entry in its legend."""
    with page_of(recorded_run) as served, looking(browser, served.link) as page:
        page.get_by_label("Node", exact=True).select_option("edge-2")
        page.get_by_label("Show", exact=True).select_option("all")
        figures = page.locator("#curves figure")
        expect(figures).to_have_count(5)
        expect(figures.nth(1).locator(".legend")).to_contain_text("20k/s")
        expect(figures.nth(2).locator("figcaption")).to_contain_text("relevant events kept")
        expect(figures.nth(3).locator(".legend")).to_contain_text("limit100\u202f%")
        for figure in figures.all():
            drawn = figure.locator("path[class^=line][d^=M]").count()
            shown = figure.locator(".legend div:not([hidden]) line[class^=line]").count()
            assert drawn == shown > 0


def test_what_is_kept_can_be_sorted_and_found(browser, recorded_run):
    """Rows stay put otherwise, in the order of what is shed most."""
    with page_of(recorded_run) as served, looking(browser, served.link) as page:
        rows = page.locator("#keep-rows tbody tr")
        expect(rows.first).to_contain_text("w2.")
        kept = page.locator("#keep-rows").get_by_role("columnheader", name="kept")
        kept.get_by_role("button").click()
        expect(kept).to_have_attribute("aria-sort", "descending")
        kept.get_by_role("button").click()
        expect(kept).to_have_attribute("aria-sort", "ascending")
        page.get_by_label("Find").fill("q22")
        assert all("Q22" in one for one in rows.all_text_contents())
        page.get_by_label("Find").fill("no such thing")
        expect(rows).to_have_text("Nothing here has “no such thing” in it.")


def test_the_run_in_all_is_shown_when_it_is_over(browser, recorded_run, live_run):
    """A sentence and two tables; while it goes on there is none of it."""
    with page_of(recorded_run) as served, looking(browser, served.link) as page:
        expect(page.locator("#totals-text")).to_contain_text("All bounds held")
        expect(page.locator("#totals-nodes tbody tr")).to_have_count(3)
        expect(page.locator("#totals-sinks")).to_contain_text("no sample")
    with page_of(live_run.folder) as served, looking(browser, served.link) as page:
        expect(page.locator("#totals")).to_be_hidden()
        expect(page.locator("#advice")).to_contain_text("of the time that the bound allows")


def test_what_an_operator_looks_for_is_a_click_away(browser, recorded_run):
    """The texts of its patterns and their automata, by mouse or keys; it can be closed."""
    with page_of(recorded_run) as served, looking(browser, served.link) as page:
        page.locator("#graph .vertex.operator", has_text="w1").click()
        shown = page.locator("#patterns")
        expect(shown).to_contain_text("What w1 looks for")
        expect(shown).to_contain_text("SEQ(a.type = 0, b.type = 0, c.type = 1)")
        expect(shown.get_by_role("img", name="State 2: c leads to a match.")).to_be_visible()
        shown.get_by_role("button", name="Close").click()
        expect(shown).to_be_hidden()
        page.get_by_role("button", name="What w3 looks for").focus()
        page.keyboard.press("Enter")
        expect(shown).to_contain_text("= 'Q11'")


def test_the_plan_of_any_moment_can_be_looked_at(browser, recorded_run):
    """From a decision or from a chart, by mouse or keys; then back to now."""
    with page_of(recorded_run) as served, looking(browser, served.link) as page:
        rows = page.locator("#keep-rows tbody tr")
        expect(rows).to_have_count(5)
        page.locator("#decisions tbody tr").last.get_by_role("button").click()
        expect(page.locator("#moment-text")).to_contain_text("As decided at")
        expect(rows.first).to_contain_text("Everything is kept")
        page.get_by_role("button", name="Back to now").click()
        expect(page.locator("#moment")).to_be_hidden()
        expect(rows).to_have_count(5)
        page.locator("#curves figure > svg").nth(1).focus()
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        expect(page.locator("#moment-text")).to_contain_text("edge-2 SHEDDING")
        expect(rows).to_have_count(5)


def bound_of(served):
    """Ask the server for the current bound."""
    return httpx.get(f"{served.link}api/status").json()["nodes"]["edge-2"]["bound"]


def test_what_if_touches_nothing_until_it_is_applied(browser, live_run):
    """The answer says what would be, the run goes on as it was; then it is applied."""
    with page_of(live_run.folder) as served, looking(browser, served.link) as page:
        before = sorted(one.name for one in live_run.folder.iterdir())
        page.get_by_label("edge-2", exact=True).fill("1.5")

        expect(page.locator("#whatif-result")).to_contain_text("Nothing is applied")
        expect(page.locator("#whatif-result tbody").first).to_contain_text("k4")
        live_run.second(BUSY)
        assert bound_of(served) == BOUND
        assert sorted(one.name for one in live_run.folder.iterdir()) == before

        page.get_by_role("button", name="Apply…").click()
        expect(page.locator("#apply-what")).to_have_text(
            "bound of edge-2: 4\u202fs → 1.5\u202fs on average"
        )
        page.get_by_label("Token", exact=True).fill(TOKEN)
        page.get_by_role("button", name="Apply", exact=True).click()
        expect(page.locator("#whatif-result .done")).to_be_visible()
        expect(page.locator("dialog")).to_be_hidden()
        live_run.second(BUSY)
        live_run.second(BUSY)
        expect(page.locator("#graph")).to_contain_text("1.5\u202fs", timeout=SLOW)
        assert bound_of(served) == 1.5
        stored = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]")
        assert stored == [0, 0, ""]


def test_a_wrong_token_is_rejected(browser, live_run, tmp_path):
    """The server's sentence is shown, the question stays, and nothing is changed."""
    with (
        page_of(live_run.folder) as served,
        looking(browser, served.link, expected=("401", "403")) as page,
    ):
        page.get_by_label("k4", exact=True).fill("7")
        page.get_by_role("button", name="Apply…").click()
        page.get_by_label("Token", exact=True).fill("a-token-of-somebody-else")
        page.keyboard.press("Enter")

        expect(page.locator("#apply-problem")).to_contain_text("Nothing was applied")
        expect(page.locator("#apply-problem")).to_contain_text("token")
        photograph(page, "rejected", tmp_path)
        expect(page.locator("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("dialog")).to_be_hidden()
        expect(page.get_by_label("k4", exact=True)).to_have_value("7")
        live_run.second(BUSY)
        assert httpx.get(f"{served.link}api/status").json()["sinks"]["k4"]["weight"] == 2.0


def test_what_is_no_number_is_no_question(browser, live_run):
    """It is said next to the controls; `Reset` puts all back."""
    with page_of(live_run.folder) as served, looking(browser, served.link) as page:
        page.get_by_label("edge-2", exact=True).fill("")
        expect(page.locator("#whatif-result .problem")).to_contain_text("numbers above 0")
        expect(page.get_by_role("button", name="Apply…")).to_be_disabled()
        page.get_by_role("button", name="Reset").click()
        expect(page.get_by_label("edge-2", exact=True)).to_have_value("4")
        expect(page.locator("#whatif-result")).to_contain_text("Move a control")


def test_a_recorded_run_cannot_be_changed(browser, recorded_run):
    """The page says that the run is over; questions are answered all the same."""
    with page_of(recorded_run) as served, looking(browser, served.link) as page:
        expect(page.locator("#banner")).to_contain_text("The run is over")
        page.get_by_label("Load", exact=True).fill("2")
        expect(page.locator("#whatif-result")).to_contain_text("Nothing is applied")
        page.get_by_label("k4", exact=True).fill("7")
        expect(page.get_by_role("button", name="Apply…")).to_be_disabled()


def test_hostile_text_is_shown_as_text(browser, tmp_path):
    """Names, types and reasons are foreign; no element comes of them and nothing runs."""
    hostile_log(tmp_path / "log.jsonl")
    with page_of(tmp_path) as served, looking(browser, served.link) as page:
        expect(page.locator("h1")).to_have_text(HOSTILE)
        expect(page.locator("#keep-rows tbody tr")).to_contain_text(f"type = '{HOSTILE}'")
        expect(page.locator("#decisions tbody")).to_contain_text(f"because {HOSTILE}")
        expect(page.locator("#advice")).to_contain_text(f"do {HOSTILE}")
        expect(page.locator("#graph title").first).to_contain_text(HOSTILE)
        assert page.locator("img").count() == 0
        assert page.locator("main script, main iframe, main a").count() == 0


MARKUP = (
    "<script>alert(1)</script>",
    "</title><svg onload=alert(1)>",
    "\"><iframe src='javascript:alert(1)'></iframe>",
    "' onfocus=alert(1) autofocus tabindex=0 '",
    "{{constructor.constructor('alert(1)')()}}",
    "javascript:alert(1)",
    "__proto__",
)


def test_hostile_names_in_a_run_under_way_run_nothing(browser, tmp_path):
    """Each comes in by the stream while somebody looks; no dialog, no element, no complaint."""
    log = tmp_path / "log.jsonl"
    hostile_log(log, MARKUP[0])
    with page_of(tmp_path) as served, looking(browser, served.link) as page:
        for name in MARKUP:
            log.write_text(log.read_text() + hostile_text(name))
            expect(page.locator("#decisions tbody")).to_contain_text(
                f"because {name}", timeout=SLOW
            )
            expect(page.locator("h1")).to_have_text(name)
            page.locator("#graph .vertex").first.hover()
            added = "main script, main iframe, main a, main img, [onload], [onfocus]"
            assert page.locator(added).count() == 0
        assert page.evaluate("({}).polluted") is None


def test_hostile_text_in_an_answer_is_shown_as_text(browser, live_run):
    """What the server says to a question is no more trusted than the log."""
    with page_of(live_run.folder) as served, looking(browser, served.link) as page:
        answer = {
            "seconds": 0.01,
            "nodes": {
                HOSTILE: {"load": 0.5, "status": HOSTILE, "advice": HOSTILE, "bound": 1.0}
            },
            "sinks": {HOSTILE: {"current": 1.0, "forecast": 2.0}},
            "changes": [{"pattern": HOSTILE, "type": HOSTILE, "before": 1.0, "after": 0.5}],
            "feasible": True,
            "summary": HOSTILE,
        }
        page.route("**/api/what-if", lambda route: route.fulfill(json=answer))
        page.get_by_label("Load", exact=True).fill("2")
        expect(page.locator("#whatif-result .verdict")).to_have_text(HOSTILE)
        assert page.locator("img").count() == 0


def test_a_run_that_has_not_begun_is_said_kindly(browser, tmp_path):
    """There is no log yet; the page waits, and follows once there is one."""
    with page_of(tmp_path) as served, looking(browser, served.link) as page:
        expect(page.locator("header .badge")).to_have_text("STARTING")
        expect(page.locator("#graph")).to_contain_text("appears once it does")
        expect(page.locator("#whatif-result")).to_contain_text("once it is known what is run")

        rows = [header(100.0), batch(101.0), decision(102.0)]
        (tmp_path / "log.jsonl").write_text(text(*rows), encoding="utf-8")

        expect(page.locator("h1")).to_have_text("demo", timeout=SLOW)
        expect(page.locator("#graph svg")).to_be_visible()


@contextmanager
def served_at(folder, port):
    """Serve a page at a given port."""
    served = PageServer(run_paths(folder / "log.jsonl"), Address(port=port, token=TOKEN))
    with served.in_background():
        yield served


@pytest.mark.soak
def test_the_page_survives_a_restart(browser, live_run):
    """While the server is away it is said since when; then the page goes on by itself."""
    with ExitStack() as stack:
        with served_at(live_run.folder, 0) as served:
            port = served.port
            opened = looking(browser, served.link, expected=("ERR_",))
            page = stack.enter_context(opened)
            expect(page.locator("header .badge")).to_have_text("SHEDDING")
        expect(page.locator("#banner")).to_contain_text("No news for", timeout=SLOW)
        again = Rehearsal(live_run.folder, live_run.clock)
        for _ in range(4):
            again.second(QUIET)
        with closing(again.log), served_at(live_run.folder, port):
            expect(page.locator("#banner")).to_be_hidden(timeout=SLOW)
            expect(page.locator("header .badge")).to_have_text("OK", timeout=SLOW)


def test_without_a_stream_the_page_asks(browser, live_run):
    """Where events from the server do not come through, it asks every few seconds."""
    blocked = "**/api/stream"
    with (
        page_of(live_run.folder) as served,
        looking(browser, served.link, blocked=blocked, expected=("ERR_FAILED",)) as page,
    ):
        expect(page.locator("header .badge")).to_have_text("SHEDDING")
        for _ in range(14):
            live_run.second(QUIET)
        expect(page.locator("header .badge")).to_have_text("OK", timeout=SLOW)


def cost_of_following(page, second):
    """Measure the share of a core that a page takes while `second` is called every second."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.wait_for_timeout(1500)

    def used():
        found = session.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in found if one["name"] == "TaskDuration")

    stop = threading.Event()

    def go_on():
        while not stop.wait(1.0):
            second()

    engine = threading.Thread(target=go_on)
    engine.start()
    start = used()
    page.wait_for_timeout(10_000)
    share = (used() - start) / 10
    stop.set()
    engine.join()
    return share


@pytest.mark.soak
def test_following_a_run_costs_next_to_nothing(browser, live_run):
    """At one update a second the page takes less than 2 % of a core (4 % are let pass here)."""
    with page_of(live_run.folder) as served, looking(browser, served.link) as page:
        share = cost_of_following(page, lambda: live_run.second(BUSY))
        assert share < 0.04, json.dumps(share)


@pytest.mark.soak
def test_following_sixty_operators_costs_next_to_nothing(browser, tmp_path):
    """The same of a large run: all numbers change every second, and the plan every other."""
    run, log = LargeRun(60, 12), tmp_path / "log.jsonl"
    log.write_text(text(run.header(time.time()), *run.second(time.time())))

    def second():
        with log.open("a") as file:
            now = time.time()
            decided = [run.decision(now)] if round(now) % 2 else []
            file.write(text(*run.second(now), *decided))

    second()
    with page_of(tmp_path) as served, looking(browser, served.link) as page:
        share = cost_of_following(page, second)
        assert share < 0.04, json.dumps(share)


def test_apply_is_offered_once_there_is_something_to_apply_to(browser, tmp_path):
    """Before its first decision a run takes no overrides; the web UI finds out by itself."""
    run = Rehearsal(tmp_path / "state")
    with (
        lock_checkpoint(run.folder),
        closing(run.log),
        page_of(run.folder) as served,
        looking(browser, served.link) as page,
    ):
        expect(page.locator("#whatif-note")).to_contain_text("first decision", timeout=SLOW)
        for _ in range(6):
            run.second(QUIET)
        expect(page.locator("#whatif-note")).to_be_hidden(timeout=SLOW)
        page.get_by_label("k4", exact=True).fill("7")
        expect(page.get_by_role("button", name="Apply…")).to_be_enabled()
