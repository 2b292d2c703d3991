"""What `shedlight check` says of protected closures, and where `shed_by: key` is an error."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.errors import ApplicationError
from shedlight.graph import ShedBy, check_application, explain
from shedlight.graph.closures import find_closures
from shedlight.graph.shedding_notes import closure_values, note_shedding
from tests.drawn_graphs import draw_application
from tests.graph.applications import loaded, stream

NOT_B = (
    "AND(X.source = 'A', Y.source = 'B') WITHIN 1 min",
    "SEQ(X.source = 'A', NOT(Y.source = 'B')) WITHIN 1 min",
)
KEYED = (
    ("WHERE SEQ(E1.type = 0, E2.type = 1) WITHIN 10 s", "WHERE E1.type = 0 PARTITION BY key"),
    (
        "B: SELECT E1.key WHERE E1.type = 2",
        "B: SELECT E1.key WHERE SEQ(E1.type = 2, E2.type = 3) WITHIN 2 s PARTITION BY key",
    ),
    (NOT_B[0], f"{NOT_B[1]} PARTITION BY key"),
)


def test_what_is_exempt_from_a_bound_by_percentile_is_said():
    """Of all patterns of a closure at that node, and of no other."""
    by_percentile = ("bound: 3 s", "bound: {p95: 3 s}")
    notes = note_shedding(loaded(NOT_B, by_percentile))

    exempt = {str(each) for each, about in notes.items() if "admission" in about}
    assert exempt == {"w1.B"}
    assert notes[stream("w1.B")]["admission"].startswith("exempt from the bound at p95: ")
    assert not any("admission" in about for about in note_shedding(loaded(NOT_B)).values())


def test_a_watcher_without_a_key_is_on_or_off():
    """With what must be whole, and why it is not shed by key."""
    application = loaded(NOT_B)

    assert """
      watches: w1.B, for a NOT
      shed: as a whole: all that goes into w1.B is kept, or it is off and emits nothing; not by
            key, for w2.C has no PARTITION BY
""" in explain(application)
    (closure,) = find_closures(application).by_watcher.values()
    assert closure_values(application, closure) == {
        "for": ["a NOT"],
        "watches": ["w1.B"],
        "members": ["w1.B"],
        "shed": "on or off",
        "key": None,
        "no_key": "w2.C has no PARTITION BY",
        "horizon_seconds": 0.0,
    }


def test_a_watcher_with_a_common_key_is_shed_by_it():
    """B has a window of 2 s: so long after a key is kept again, what it watches may lack."""
    application = loaded(*KEYED)

    assert note_shedding(application) == {
        stream("w2.C"): {
            "watches": "w1.B, for a NOT",
            "shed": "by key: a key is kept with all of its events here and at w1.B and w1.A, "
            "or not at all; what begins within 2 s after a key is kept again is left out",
        }
    }
    (closure,) = find_closures(application).by_watcher.values()
    values = closure_values(application, closure)
    assert (values["shed"], values["key"], values["horizon_seconds"]) == ("by key", "key", 2.0)


def test_what_is_watched_through_others_is_named():
    """A window of events upstream has no length: what was shed once is missed for ever."""
    counts = "SEQ(E1.type = 2, E2.type = 3) WITHIN 5 EVENTS"

    notes = note_shedding(loaded(NOT_B, ("WHERE E1.type = 2", f"WHERE {counts}")))

    assert notes[stream("w1.B")]["watches"] == "s1, for WITHIN 5 EVENTS"
    assert "all that it watches is kept, or it is off" in notes[stream("w1.B")]["shed"]
    assert "once off it stays off" in notes[stream("w2.C")]["shed"]


def test_nothing_is_said_where_nothing_is_shed():
    """Without a bound there is no plan, and elsewhere a closure is never touched."""
    assert note_shedding(loaded(NOT_B, ("bound: 3 s", ""))) == {}
    elsewhere = loaded(
        NOT_B, ("bound: 3 s", ""), ("  core: {}", "  core: {}\n  far: {bound: 1 s}")
    )
    assert note_shedding(elsewhere)[stream("w2.C")]["shed"].startswith("never, for nothing")


@pytest.mark.parametrize(
    ("select", "where", "note"),
    [
        ("COUNT(E2) AS n", "SEQ(E1.type = 0, E2.type = 1 +, E3.type = 2)", "COUNT(E2)"),
        ("SUM(E2.x) AS n", "SEQ(E1.type = 0, E2.type = 1 {2,4}, E3.type = 2)", "SUM(E2.x)"),
        ("COUNT(E2) AS n", "SEQ(E1.type = 0, E2.type = 1 {2}, E3.type = 2)", ""),
        ("MAX(E2.x) AS n", "SEQ(E1.type = 0, E2.type = 1 +, E3.type = 2)", ""),
    ],
)
def test_counts_of_an_open_repetition_are_of_what_was_kept(select, where, note):
    """Where so many events are taken as there are, and some may be shed."""
    edits = (
        "SELECT E1.key WHERE SEQ(E1.type = 0, E2.type = 1)",
        f"SELECT {select} WHERE {where}",
    )
    expected = {"counts": f"{note}: what was kept, not what came"} if note else None

    notes = note_shedding(loaded(edits, ("SELECT X.key", "SELECT Y.key")))

    assert notes.get(stream("w1.A")) == expected


def test_counts_downstream_of_a_bound_are_of_what_was_kept():
    """Though nothing is shed at their own node."""
    counted = "SELECT COUNT(X) AS n WHERE SEQ(X.source = 'A' +, Y.source = 'B')"
    edits = ("SELECT X.key WHERE AND(X.source = 'A', Y.source = 'B')", counted)

    assert note_shedding(loaded(edits))[stream("w2.C")] == {
        "counts": "COUNT(X): what was kept, not what came"
    }
    assert note_shedding(loaded(edits, ("bound: 3 s", ""))) == {}


@given(st.integers(0, 10**6))
def test_every_watcher_is_explained(seed):
    """What it watches, and whether by key or as a whole, in lines that fit."""
    application = draw_application(random.Random(seed))
    closures = find_closures(application).by_watcher

    notes = note_shedding(application)

    assert {s for s, about in notes.items() if "watches" in about} == set(closures)
    for watcher, closure in closures.items():
        about = notes[watcher]
        named = (*closure.watched, *closure.members)
        assert all(str(each) in about["watches"] for each in named)
        assert about["shed"].startswith("by key: " if closure.by_key else "as a whole: ")
        assert closure.no_key in about["shed"]
    assert max(map(len, explain(application).split("\n"))) <= 96


@given(st.integers(0, 10**6))
def test_a_key_that_a_closure_lacks_is_an_error_if_it_was_asked_for(seed):
    """The error names the pattern and what lacks the key; unasked, nothing changes."""
    application = draw_application(random.Random(seed))
    asked = {
        name: replace(spec, shed_by=ShedBy.KEY)
        for name, spec in application.operators.items()
        if all(pattern.partition_by for pattern in spec.patterns.values())
    }
    keyed = replace(application, operators={**application.operators, **asked})
    closures = find_closures(keyed).by_watcher
    lacking = [c for c in closures.values() if str(c.watcher.operator) in asked and c.no_key]

    check_application(application)
    if not lacking:
        check_application(keyed)
        return
    with pytest.raises(ApplicationError) as error:
        check_application(keyed)
    lines = str(error.value).split("\n")
    assert len(lines) == len({(c.watcher, c.no_key) for c in lacking})
    for closure in lacking:
        start = f"operators.{closure.watcher.operator}.shed_by is 'key', but"
        assert any(
            line.startswith(f"{start} {closure.watcher.name} watches ")
            and closure.no_key in line
            for line in lines
        )
