"""What a pattern looks for: its text and its automaton, as the log of a run has them."""

import pytest

from tests.page.client import PageClient
from tests.runlog.logs import header, text


@pytest.fixture
def ask(tmp_path):
    """Ask what a pattern looks for that has a text."""

    def asked(pattern):
        log = tmp_path / "log.jsonl"
        log.write_text(text(header(100.0, pattern_texts={"w.P": pattern})))
        return PageClient(log).get("/api/pattern", params={"name": "w.P"})

    return asked


def arrows(states):
    """List where elements lead, from each state."""
    return [[(one["element"], one["to"]) for one in state["takes"]] for state in states]


def test_patterns_of_a_run_are_in_its_log(recorded_run):
    """With the automaton that `shedlight check` prints."""
    page = PageClient(recorded_run / "log.jsonl")
    found = page.get("/api/pattern", params={"name": "w1.Q11"})
    assert "SEQ(a.type = 0, b.type = 0, c.type = 1)" in found["text"]
    (states,) = found["regions"]
    assert arrows(states)[:3] == [[("a", 1)], [("b", 2)], [("c", None)]]
    assert "there is no pattern 'w1.Q99'" in page.error(
        "/api/pattern", 404, params={"name": "w1.Q99"}
    )


def test_elements_under_not_close_it_or_take_it_back(ask):
    """A place before the NOT is left; an absence is a match when the window is over."""
    (states,) = ask("SELECT a.n WHERE SEQ(a.t = 1, NOT(x.t = 2), b.t = 3) WITHIN 1 s")[
        "regions"
    ]
    assert states[1]["closed_by"] == ["x"]
    (states,) = ask("SELECT a.n WHERE SEQ(a.t = 1 {2,}, NOT(x.t = 2), b.t = 3) WITHIN 1 s")[
        "regions"
    ]
    assert arrows(states)[2] == [("a", 2), ("b", None), ("NOT x", 4)]
    assert arrows(states)[4] == [("a", 2)]
    (states,) = ask("SELECT a.n WHERE SEQ(a.t = 1, NOT(x.t = 2)) WITHIN 1 s")["regions"]
    assert [state["ends"] for state in states] == [False, True]


def test_parts_in_any_order_are_regions_of_their_own(ask):
    """A match needs each of them."""
    regions = ask("SELECT a.n WHERE AND(a.t = 1, b.t = 2) WITHIN 1 s")["regions"]
    assert [arrows(states)[0] for states in regions] == [[("a", None)], [("b", None)]]


@pytest.mark.parametrize(
    "pattern",
    [
        "SELECT a.n WHERE SEQ(a.t = 1 {30}, b.t = 2) WITHIN 1 s",
        "SELECT a.n WHERE SEQ(own(a.t), b.t = 2) WITHIN 1 s",
        "<script>alert(1)</script>",
        "SELECT " * 2_000,
    ],
)
def test_what_cannot_be_drawn_has_its_text_alone(ask, pattern):
    """Too many states, functions of the user, what is no pattern."""
    found = ask(pattern)
    assert found["regions"] == []
    assert found["text"][:40] == pattern[:40]
