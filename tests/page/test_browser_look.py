"""How the live page looks: nothing overlaps or sticks out, and everybody can use it."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.page.browsing import (
    FAINT,
    NAMELESS,
    OVERFLOW,
    OVERLAPS,
    SCHEMES,
    WIDTHS,
    chromium,
    looking,
    photograph,
)
from tests.page.conftest import page_of
from tests.page.made_up import hostile_log, large_log

SOURCES = Path(__file__).parent.parent.parent / "src" / "shedlight"


@pytest.fixture(scope="module")
def browser():
    """Start one browser for all tests here."""
    with chromium() as found:
        yield found


def check(page):
    """See that nothing sticks out of the window or lies on something else."""
    sticks_out = page.evaluate(OVERFLOW)
    assert sticks_out == [0]
    texts, overlaps = page.evaluate(OVERLAPS)
    assert overlaps == []
    assert texts > 5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_is_readable(browser, recorded_run, tmp_path, width, scheme):
    """On a laptop, in a narrow window and on a telephone, in light and dark."""
    with (
        page_of(recorded_run) as served,
        looking(browser, served.link, width=width, scheme=scheme) as page,
    ):
        expect(page.locator("#curves path[class^=line][d^=M]")).to_have_count(12)
        check(page)
        assert page.locator("#graph").evaluate("one => one.scrollWidth <= one.clientWidth")
        assert page.evaluate(FAINT) == []
        photograph(page, f"run-{width}-{scheme}", tmp_path)
        page.get_by_label("edge-2", exact=True).fill("1.5")
        expect(page.locator("#whatif-result")).to_contain_text("Nothing is applied")
        page.locator("details").evaluate_all("all => all.forEach((one) => (one.open = true))")
        expect(page.locator("#nodes tbody th")).to_have_count(3)
        check(page)
        assert page.evaluate(FAINT) == []
        photograph(page, f"asked-{width}-{scheme}", tmp_path)


@pytest.mark.parametrize("width", WIDTHS)
def test_long_and_hostile_names_fit(browser, tmp_path, width):
    """They are cut in the graph and wrapped elsewhere."""
    hostile_log(tmp_path / "log.jsonl")
    with page_of(tmp_path) as served, looking(browser, served.link, width=width) as page:
        expect(page.locator("#decisions tr.plan")).to_be_visible()
        check(page)
        photograph(page, f"hostile-{width}", tmp_path)


@pytest.mark.parametrize(("number", "nodes"), [(1, 1), (14, 4), (60, 12)])
@pytest.mark.parametrize("width", [1280, 360])
def test_graphs_of_all_sizes_are_laid_out(browser, tmp_path, number, nodes, width):
    """No text on another, no card outside its node's box, no box on another."""
    large_log(tmp_path / "log.jsonl", number, nodes)
    with page_of(tmp_path) as served, looking(browser, served.link, width=width) as page:
        expect(page.locator("#graph .vertex.operator")).to_have_count(number)
        expect(page.locator("#graph .vertex.sink").first).to_contain_text("recall100\u202f%")
        check(page)
        if number >= 20:
            page.get_by_label("Look for").fill("op")
            assert page.locator("#graph .vertex.found").count() > 0
            page.get_by_label("Look for").fill("")
            expect(page.locator("#graph .vertex.found")).to_have_count(0)
            check_nodes_alone(page, nodes)
            photograph(page, f"nodes-{number}-{width}", tmp_path)
            page.get_by_label("nodes alone").uncheck()
            expect(page.locator("#graph .vertex.operator")).to_have_count(number)
        boxes = page.locator("#graph .box").evaluate_all(RECTANGLES)
        cards = page.locator("#graph .operator .card").evaluate_all(RECTANGLES)
        assert not any(_meet(a, b) for i, a in enumerate(boxes) for b in boxes[:i])
        assert not any(_meet(a, b) for i, a in enumerate(cards) for b in cards[:i])
        assert all(any(_within(card, box) for box in boxes) for card in cards)
        photograph(page, f"graph-{number}-{width}", tmp_path)


def check_nodes_alone(page, nodes):
    """Each node is one vertex, found by the names of its operators; nothing is on another."""
    page.get_by_label("nodes alone").check()
    expect(page.locator("#graph .vertex.operator")).to_have_count(nodes)
    expect(page.locator("#graph .vertex.operator").first).to_contain_text("5 operators")
    expect(page.locator("#graph .vertex.sink")).to_have_count(6)
    assert page.locator("#graph .edge").count() < 3 * nodes + 6
    check(page)
    page.get_by_label("Look for").fill("op")
    assert page.locator("#graph .vertex.found").count() > 0
    page.get_by_label("Look for").fill("")


RECTANGLES = """all => all.map((one) => one.getBoundingClientRect())
  .map((one) => [one.left, one.top, one.right, one.bottom])"""


def _meet(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _within(inner, outer):
    return (
        outer[0] <= inner[0]
        and outer[1] <= inner[1]
        and inner[2] <= outer[2]
        and inner[3] <= outer[3]
    )


def test_everything_can_be_reached_by_keyboard(browser, live_run):
    """Tab goes through all controls as they are read, and shows where it is."""
    with page_of(live_run.folder) as served, looking(browser, served.link) as page:
        page.get_by_label("edge-2", exact=True).fill("3")
        expect(page.locator("#whatif-result")).to_contain_text("Nothing is applied")
        wanted = page.evaluate(
            """() => [...document.querySelectorAll(
              "a[href], button:not(:disabled), input, select, summary, [tabindex='0']")]
              .filter((one) => one.checkVisibility())
              .map((one, place) => { one.dataset.stop = place; return place; })"""
        )
        page.evaluate("document.activeElement.blur()")
        page.locator(".skip").focus()
        stops, unseen = [], []
        for _ in wanted:
            place, outline = page.evaluate(
                """() => [document.activeElement.dataset.stop,
                  getComputedStyle(document.activeElement).outlineStyle]"""
            )
            stops.append(int(place))
            unseen += [place] * (outline == "none")
            page.keyboard.press("Tab")

        assert stops == wanted
        assert unseen == []


def test_a_question_can_be_asked_without_a_mouse(browser, live_run):
    """Arrow keys move a slider, Enter opens the dialog, Escape gives the focus back."""
    with page_of(live_run.folder) as served, looking(browser, served.link) as page:
        page.get_by_role("slider", name="edge-2").focus()
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#whatif-result")).to_contain_text("Nothing is applied")
        page.locator("#whatif-apply").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_label("Token", exact=True)).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator("#whatif-apply")).to_be_focused()


def test_everything_has_a_name_and_tables_have_heads(browser, recorded_run):
    """Controls have labels, pictures have words, tables have captions and headers."""
    with page_of(recorded_run) as served, looking(browser, served.link) as page:
        expect(page.locator("#curves path[class^=line][d^=M]")).to_have_count(12)
        assert page.evaluate(NAMELESS) == []
        for table in page.locator("table").all():
            assert table.locator("caption").text_content()
            assert table.locator("thead th[scope=col]").count() > 1
        assert page.locator("html").get_attribute("lang") == "en"
        assert page.locator("h1").count() == 1
        for picture in page.locator("svg[role=img]").all():
            assert picture.get_attribute("aria-label") or picture.locator("title").count()


def _palette(path, scheme):
    sheet = path.read_text("utf-8")
    light, dark = sheet.split("@media screen and (prefers-color-scheme: dark)", 1)
    part = light if scheme == "light" else dark.split("}", 1)[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", part))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_loads_are_distinguished_by_brightness_alone(scheme):
    """Whoever sees no colours sees the ladder from the first step to the last."""
    colours = _palette(SOURCES / "page" / "static" / "palette.css", scheme)

    def brightness(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(a * b for a, b in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))

    steps = [brightness(colours[f"l{step}"]) for step in range(5)]
    assert steps == sorted(steps, reverse=scheme == "light")
    ratios = [(max(a, b) + 0.05) / (min(a, b) + 0.05) for a, b in pairwise(steps)]
    assert min(ratios) > 1.25
