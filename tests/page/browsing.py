"""A headless Chromium that looks at pages, and what can be said of any page that it sees."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

expect.set_options(timeout=15_000)

WIDTHS = (1280, 800, 360)
SCHEMES = ("light", "dark")


@contextmanager
def chromium():
    """Start the browser; without one, skip, but not where all tests have to run."""
    path = shutil.which("chromium")
    if path is None and os.environ.get("CI") != "true":
        pytest.skip("needs chromium; install it (Debian: apt-get install chromium)")
    # As root its sandbox does not start.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@contextmanager
def looking(browser, link, *, width=1280, scheme="light", blocked="", expected=()):
    """Open a page once it shows a run; in the end it must have complained of nothing.

    Args:
        browser: The browser.
        link: The address of the page.
        width: Of the window.
        scheme: Light or dark.
        blocked: Requests that do not come through.
        expected: Parts of complaints that are as they should be.
    """
    complaints = []
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    if blocked:
        page.route(blocked, lambda route: route.abort())
    page.goto(link)
    expect(page.locator("#graph svg, #graph .empty")).to_be_visible()
    expect(page.locator("#facts")).to_contain_text("plan")
    yield page
    context.close()
    assert [c for c in complaints if not any(part in c for part in expected)] == []


def photograph(page, name, folder):
    """Keep a picture of the whole page, where it was asked for or in a folder of the test."""
    folder = Path(os.environ.get("SHEDLIGHT_SCREENSHOTS", folder))
    folder.mkdir(parents=True, exist_ok=True)
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=folder / f"{name}.png", full_page=True)


OVERFLOW = """() => [
  document.documentElement.scrollWidth - document.documentElement.clientWidth,
  ...[...document.querySelectorAll("main *:not(svg *), header *")]
    .filter((one) => one.checkVisibility() && !one.closest(".scroll > *"))
    .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
    .map((one) => one.outerHTML.slice(0, 120)),
]"""
"""By how much the page is wider than its window, and what sticks out."""

OVERLAPS = """() => {
  const texts = [...document.querySelectorAll("#graph text")].filter(
    (one) => one.textContent && getComputedStyle(one).visibility === "visible");
  const boxes = texts.map((one) => one.getBoundingClientRect());
  const found = [];
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b, j) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 3) found.push([texts[i].textContent, texts[i + 1 + j].textContent]);
  }));
  const all = document.querySelector("#graph svg").getBoundingClientRect();
  boxes.forEach((a, i) => {
    if (a.left < all.left || a.right > all.right || a.bottom > all.bottom) {
      found.push([texts[i].textContent, "the border"]);
    }
  });
  return [texts.length, found];
}"""
"""How many texts the graph has, and which are on top of each other or cut off."""

NAMELESS = """() => [...document.querySelectorAll(
    "input, select, button, summary, [tabindex='0']")]
  .filter((one) => !(one.labels?.length || one.getAttribute("aria-label")
    || one.getAttribute("aria-labelledby") || one.textContent.trim()))
  .map((one) => one.outerHTML.slice(0, 120))"""
"""What can be used, but has no name to tell it by."""

FAINT = """() => {
  const shades = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const light = (colour) => shades(colour).slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (one) => {
    for (let e = one; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if ((shades(colour)[3] ?? 1) > 0.5) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const contrast = (a, b) =>
    (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const pairs = [...document.querySelectorAll("body *:not(svg *)")]
    .filter((one) => one.checkVisibility())
    .filter((one) => !one.closest("button:disabled, .unseen, option, .skip"))
    .filter((one) => [...one.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
    .map((one) => [one.textContent, getComputedStyle(one).color, behind(one)]);
  for (const strip of document.querySelectorAll("#graph path.load")) {
    for (const text of strip.parentElement.querySelectorAll("text.on")) {
      pairs.push([text.textContent, getComputedStyle(text).fill, getComputedStyle(strip).fill]);
    }
  }
  return pairs.filter(([, a, b]) => contrast(a, b) < 4.5)
    .map(([text, ...rest]) => [text.slice(0, 60), ...rest]);
}"""
"""Which texts have too little contrast to what is behind them."""
