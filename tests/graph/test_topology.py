"""Who reads what, on lines, diamonds and fans."""

from dataclasses import replace

import pytest

from shedlight.graph import Application, Stream, load_application
from shedlight.graph.topology import (
    descendants,
    find_cycle,
    longest_windows,
    operator_order,
    operators_on,
    readers,
)
from shedlight.language import parse_pattern
from tests.graph.applications import PAPER, graph, stream

LINE = graph("w1: s1 -> A", "w2: w1.A -> B", "w3: w2.B -> C", sinks="w3.C")
DIAMOND = graph(
    "join: left.L right.R -> J",
    "left: top.T -> L",
    "right: top.T -> R",
    "top: s1 -> T",
    sinks="join.J",
)
FAN = graph(
    "one: s1 -> A B",
    "two: one.A -> C",
    "three: one.A s1 s2 -> D E",
    sinks="one.A one.B two.C three.D three.E",
)
PAPERS = load_application(PAPER).application


def order(application: Application) -> list[str]:
    """Name the operators in topological order."""
    return [spec.name for spec in operator_order(application)]


def words(streams: tuple[Stream, ...]) -> str:
    """Write streams as one text."""
    return " ".join(map(str, streams))


def test_an_operator_comes_after_those_that_feed_it():
    """Whatever the order of declaration is."""
    assert order(LINE) == ["w1", "w2", "w3"]
    assert order(DIAMOND) == ["top", "left", "right", "join"]
    assert order(FAN) == ["one", "two", "three"]
    assert order(PAPERS) == ["w1", "w2", "w3", "w4"]


def test_descendants_are_all_that_a_stream_has_influence_on():
    """Also through other patterns; the stream itself is none of them."""
    assert words(descendants(LINE, stream("s1"))) == "w1.A w2.B w3.C"
    assert words(descendants(LINE, stream("w3.C"))) == ""
    assert words(descendants(DIAMOND, stream("top.T"))) == "join.J left.L right.R"
    assert words(descendants(DIAMOND, stream("left.L"))) == "join.J"
    assert words(descendants(FAN, stream("s2"))) == "three.D three.E"
    assert words(descendants(PAPERS, stream("w2.Q22"))) == "w4.Q41"


def test_readers_of_a_stream():
    """One pattern may feed several operators, or only a sink."""
    assert [spec.name for spec in readers(FAN, stream("one.A"))] == ["two", "three"]
    assert readers(FAN, stream("one.B")) == ()


def test_operators_of_a_node():
    """In order of declaration."""
    assert [spec.name for spec in operators_on(PAPERS, "core")] == ["w3", "w4"]
    assert [spec.name for spec in operators_on(PAPERS, "edge-1")] == ["w1"]


def test_a_cycle_is_found_and_named_in_the_direction_of_the_events():
    """It starts at the operator that was declared first."""
    circle = graph("w1: w3.C -> A", "w2: w1.A -> B", "w3: w2.B s1 -> C")

    assert find_cycle(circle) == ("w1", "w2", "w3", "w1")
    assert find_cycle(graph("w1: s1 w1.A -> A")) == ("w1", "w1")
    assert find_cycle(DIAMOND) == ()
    with pytest.raises(ValueError, match="operators feed each other: w"):
        operator_order(circle)


def test_a_long_line_needs_no_deep_stack():
    """Nothing here is recursive."""
    lines = ["w0: s1 -> P0", *(f"w{i}: w{i - 1}.P{i - 1} -> P{i}" for i in range(1, 3000))]
    application = graph(*lines, text="SELECT E.x WHERE E")

    assert order(application)[-1] == "w2999"
    assert len(descendants(application, stream("s1"))) == 3000


@pytest.mark.parametrize(
    ("windows", "longest"),
    [
        (["2 s", "5 EVENTS", "1 s"], 2_000_000),
        (
            ["5 EVENTS", "9 EVENTS"],
            60_000_000,
        ),
    ],
)
def test_the_longest_window_of_a_key_is_one_of_time(windows, longest):
    """A window of events has no length in time; a minute stands for it where it is alone."""
    text = "SELECT a WHERE SEQ(a.type = 0, b.type = 1) WITHIN {} PARTITION BY key"
    spec = LINE.operators["w1"]
    patterns = {
        f"P{i}": parse_pattern(text.format(window)).pattern for i, window in enumerate(windows)
    }
    operators = {"w1": replace(spec, patterns=patterns)}
    assert longest_windows(replace(LINE, operators=operators)) == {"key": longest}
