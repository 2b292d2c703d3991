"""The report: what it says, that it harms nobody, that it needs nothing else."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from shedlight.report.charts import Chart, Line, downsample, draw_chart
from shedlight.report.html_report import report_page
from shedlight.report.narrative import sentences
from tests.runlog.logs import batch, decision, header, hostile_run, run

ALONE = {"meta", "br"}
KNOWN = ALONE | {"html", "head", "title", "style", "body", "main", "h1", "h2", "p", "ul", "li"}
KNOWN |= {"section", "div", "b", "table", "thead", "tbody", "tr", "th", "td", "span"}
KNOWN |= {"svg", "text", "line", "rect", "circle", "polyline", "figure", "figcaption"}


class Page(HTMLParser):
    """Collects what a page is made of, and sees that it is closed."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes = set[str](), set[str]()
        self.open, self.texts = list[str](), list[str]()
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        """See a tag, and what is to be closed."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """See a tag that is closed at once."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        """See that the last one is closed."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Take in what is seen."""
        self.texts.append(data)


@pytest.fixture
def overloaded():
    """Have a run that sheds once it is given too much."""
    shares = {"flows.P": {"type=a": 0.25, "type=b": 1.0}}
    return run(
        header(100.0),
        batch(101.0),
        decision(101.0),
        batch(105.0, events=400, kept=400, mean=3.0),
        decision(
            105.0,
            "node 'edge': too busy",
            status="BOUND-AT-RISK",
            advice={"edge": "give it more cores"},
            replanned=True,
            shares=shares,
        ),
        batch(109.0, events=1000, kept=300),
        decision(109.0, "all is well", status="SHEDDING", shares=shares),
    )


def test_a_run_is_described_in_sentences(overloaded):
    """Was the bound kept, what was shed, when and why did plans change."""
    assert sentences(overloaded) == [
        (
            "The run of demo took 9.0 s from 1970-01-01 00:01:40 UTC: 3 micro-batches on "
            "1 node, 3 complex events found, 3 decisions."
        ),
        (
            "Node edge kept its bound: the mean latency was 2.0 s, the bound is 2.0 s on "
            "average; 1 of 3 micro-batches had a mean above it, at worst 3.0 s at 0:05."
        ),
        "Node edge kept 53% of 1,500 events; 700 were shed or relevant to no pattern.",
        "The plan changed once.",
        "At 0:05 the plan changed: node 'edge': too busy.",
        "The last plan keeps least of: flows.P 25% of type=a.",
    ]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([header(9.0, bound=0.5), batch(10.0)], "did not keep its bound"),
        ([header(9.0, bound=None), batch(10.0)], "has no bound"),
        ([batch(10.0)], "the log does not say its bound"),
        ([header(9.0, timed=False), batch(10.0)], "its latency says nothing"),
        ([batch(10.0, kept=0)], "kept no event"),
        ([batch(10.0, kept=40, relevant_events=70)], "; 30 were shed."),
        ([batch(10.0, malformed={"s": 1})], "Source s: 1 malformed record."),
        ([batch(10.0, late={"flows": 2})], "At flows, 2 events came too late."),
        ([batch(10.0)], "The plan never changed."),
    ],
)
def test_each_outcome_has_its_words(rows, says):
    """Nothing is claimed that the log does not say."""
    assert says in "\n".join(sentences(run(*rows)))


def test_the_page_has_figures_and_tables(overloaded):
    """Five figures of the node, one of the patterns; advice, shares and reasons in tables."""
    page = report_page(overloaded)

    assert page.count("<figure>") == 6
    assert page.count("<table ") == 4
    text = " ".join(Page(page).texts)
    for part in ("give it more cores", "type=a", "25%", "too busy", "BOUND-AT-RISK"):
        assert part in text


def test_pressure_is_drawn_where_it_is_logged():
    """A node that sheds by itself says to what it lowered its plan."""
    label = "shares of the plan lowered to"

    assert label not in report_page(run(batch(10.0)))
    assert label in report_page(run(batch(10.0, plan=3, pressure=0.5)))


def test_the_page_asks_for_nothing(overloaded):
    """No script, no address, no style from elsewhere; and a policy that says so."""
    page = report_page(overloaded)

    assert not re.search(r"https?:|url\(|@import|\bsrc=|href=", page)
    assert "default-src 'none'" in page


def test_what_a_log_says_is_text_and_nothing_else(overloaded):
    """Every name, reason and advice is a script here, and none becomes one."""
    page, fine = Page(report_page(hostile_run())), Page(report_page(overloaded))

    assert page.tags <= KNOWN
    assert page.attributes <= fine.attributes | {"cx", "cy", "r"}
    assert "\u202e" not in "".join(page.texts)
    assert '<script>alert("x")</script>' in "".join(page.texts)


def test_each_picture_is_well_formed(overloaded):
    """Also of hostile names."""
    for one in (overloaded, hostile_run()):
        pictures = re.findall(r"<svg.*?</svg>", report_page(one), re.DOTALL)

        assert pictures
        for picture in pictures:
            ET.fromstring(picture)  # noqa: S314  # it is ours


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
def test_every_log_has_a_report(rows):
    """Whatever is missing in it or far off."""
    Page(report_page(run(*rows)))


def test_long_lines_are_drawn_as_means_and_ranges():
    """Of 100,000 points at most 200 are drawn, and the one that sticks out is in the range."""
    points = [(float(n), 1.0 if n != 777 else 9.0) for n in range(100_000)]

    thin = list(downsample(points))

    assert len(thin) == 200
    assert thin[1] is not None
    assert (thin[1].time, thin[1].least, thin[1].most) == (500.0, 1.0, 9.0)
    assert thin[1].mean == pytest.approx(1 + 8 / 500)


def test_short_lines_are_drawn_as_they_are():
    """No range around them."""
    chart = Chart(title="t", lines=(Line("a", "line0", [(1.0, 1.0), (2.0, 3.0)]),))

    assert "polygon" not in draw_chart(chart, 0.0, 10.0)


def test_a_gap_in_a_line_is_drawn_as_a_gap():
    """Two lines and a point by itself."""
    points = [(1.0, 1.0), (2.0, 1.0), (3.0, None), (4.0, 2.0), (5.0, None), (6.0, 1.0)]
    points += [(7.0, 2.0)]

    picture = draw_chart(Chart(title="t", lines=(Line("a", "line0", points),)), 0.0, 10.0)

    assert picture.count("<polyline") == 2
    assert picture.count("<circle") == 1
