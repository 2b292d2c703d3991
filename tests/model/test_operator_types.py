"""The types of operators: what arrives, and which elements accept it."""

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.errors import SnapshotError
from shedlight.graph import Application, Node, OperatorSpec, Stream, build_application
from shedlight.graph.columns import operator_columns
from shedlight.language.ast.expression import Attribute, Binary, In, Literal, Operator
from shedlight.language.ast.pattern import And, Element, Part, Pattern, Window, elements
from shedlight.matching.compile.type_labels import OTHER
from shedlight.model.build import build_model
from shedlight.model.operator_types import OperatorTypes, operator_types
from shedlight.model.snapshot import Snapshot
from shedlight.model.type_index import operator_vocabulary
from tests.graph.applications import source
from tests.model.applications import S1, operators, snapshot
from tests.strategies import patterns


def types_of(application: Application, name: str, rates: Any) -> OperatorTypes:
    """Find the types of an operator."""
    spec, columns = application.operators[name], operator_columns(application)
    vocabulary = operator_vocabulary(spec)
    return operator_types(application, snapshot(rates), spec, columns, vocabulary)


def accepted(types: OperatorTypes, application: Application, name: str) -> dict[str, list[str]]:
    """List the labels that each variable accepts."""
    pattern = application.operators[name].patterns[name.upper()]
    return {
        each.variable: [types.labels[place] for place in types.accepted[each]]
        for each in elements(pattern.where)
    }


def test_types_come_from_labels_and_constants():
    """A constant without a rate does not arrive; what no element accepts is of no use."""
    application = operators(
        w="s1: SELECT * WHERE SEQ(A.type = 1, B.type = 0, C.type = 1 AND C.cpu > 2) WITHIN 1 s"
    )

    rates = {"s1": {"cpu > 2 & type=1": 5, "type=1": 3, "cpu > 2": 7, "other": 11}}
    types = types_of(application, "w", rates)

    assert types.labels == ("type=1", "type=1 & cpu > 2", "type=0")
    assert types.sources["s1"].tolist() == [3, 5, 0]
    assert types.unused == {"s1": 18}
    assert accepted(types, application, "w") == {
        "A": ["type=1", "type=1 & cpu > 2"],
        "B": ["type=0"],
        "C": ["type=1 & cpu > 2"],
    }


def test_an_element_that_nothing_fits_gets_the_type_that_it_asks_for():
    """It does not arrive; but for one that asks the impossible."""
    application = operators(
        w="s1: SELECT * WHERE AND(A.x > 1 AND A.y <> 2, B.y = 3 AND B.y = 4, C.x > 1) "
        "WITHIN 1 s"
    )

    types = types_of(application, "w", {"s1": {}})

    assert accepted(types, application, "w") == {
        "A": ["y=3 & x > 1"],
        "B": [],
        "C": ["y=3 & x > 1", "x > 1"],
    }


def test_an_element_without_a_condition_accepts_all_that_is_left():
    """Then the other events are a type."""
    application = operators(w="s1: SELECT * WHERE SEQ(A.type = 1, B) WITHIN 1 s")

    types = types_of(application, "w", {"s1": {"type=1": 3, "other": 4}})

    assert types.labels == ("type=1", OTHER)
    assert types.sources["s1"].tolist() == [3, 4]
    assert accepted(types, application, "w")["B"] == ["type=1", OTHER]


def test_the_order_of_types_is_that_of_the_text():
    """However a snapshot lists them."""
    application = operators(
        w="s1: SELECT * WHERE SEQ(A.x = 5, B.x IN (9, 1), C.x = 3) WITHIN 1 s"
    )
    one = types_of(application, "w", {"s1": {"x=1": 1, "x=5": 2}})
    other = types_of(application, "w", {"s1": {"x=5": 2, "x=1": 1}})

    assert one.labels == other.labels == ("x=5", "x=1", "x=9", "x=3")
    assert one.sources["s1"].tolist() == other.sources["s1"].tolist() == [2, 1, 0, 0]


def test_what_only_others_know_is_of_no_use():
    """But it arrives, and has to be read."""
    application = operators(
        w1="s1: SELECT * WHERE A.type = 0", w2="s1: SELECT * WHERE A.type = 1"
    )
    rates = {"s1": {"type=0": 3, "type=1": 4, "other": 5}}

    assert types_of(application, "w1", rates).unused == {"s1": 9}
    assert types_of(application, "w2", rates).unused == {"s1": 8}


UP = (
    "s1: SELECT A.type AS kind, A, 7 AS seven, A.cpu WHERE SEQ(A.type = 2, B.x = 1?) WITHIN 1 s"
)


@pytest.mark.parametrize(
    ("condition", "labels"),
    [
        ("E.source = 'UP'", ("source=UP",)),
        ("E.source IN ('UP', 'X')", ("source=UP", "source=X")),
        ("E.source <> 'X'", ("source <> 'X'",)),
        ("E.kind = 2", ("kind=2",)),
        ("E.kind > 1", ("kind > 1",)),
        ("E.A.type = 2", ("A.type=2",)),
        ("E.seven = 7", ("seven=7",)),
        ("E", (OTHER,)),
        ("E.source LIKE 'U%'", ("source LIKE 'U%'",)),
        ("E.source = 'DOWN' AND E.cpu > 3", ("source=DOWN & cpu > 3",)),
    ],
)
def test_the_text_of_a_pattern_tells_the_type_of_its_complex_events(condition, labels):
    """Its name, constants that are selected; what does not matter need not be known."""
    application = operators(up=UP, w=f"up.UP: SELECT * WHERE {condition}")
    used = "DOWN" not in condition

    types = types_of(application, "w", {"s1": {}})

    assert types.labels == labels
    assert types.feeds[Stream("UP", "up")].tolist() == [used, *[0] * (len(labels) - 1)]


def test_a_column_that_complex_events_lack_is_null():
    """An operator may read sources and patterns side by side."""
    application = operators(
        up=UP, w="s1 up.UP: SELECT * WHERE AND(A.type = 0, B.source = 'UP') WITHIN 1 s"
    )

    types = types_of(application, "w", {"s1": {"type=0": 5}})

    assert types.labels == ("type=0", "source=UP")
    assert types.feeds[Stream("UP", "up")].tolist() == [0, 1]


def test_what_the_text_does_not_tell_the_snapshot_says():
    """In shares; what the text tells need not be said again."""
    application = operators(
        up=UP,
        w="up.UP: SELECT * WHERE SEQ(A.source = 'UP' AND A.cpu > 3, B.cpu > 9) WITHIN 1 s",
    )
    rates = {"s1": {}, "up.UP": {"cpu > 3": 1, "cpu > 3 & source=UP & cpu > 9": 2, "other": 5}}

    types = types_of(application, "w", rates)

    feed = dict(zip(types.labels, types.feeds[Stream("UP", "up")].tolist(), strict=True))
    assert feed["source=UP & cpu > 3"] == 0.125
    assert feed["source=UP & cpu > 3 & cpu > 9"] == 0.25
    assert sum(feed.values()) == 0.375


def test_what_nobody_tells_is_asked_for():
    """With an example of what to write."""
    application = operators(up=UP, w="up.UP: SELECT * WHERE A.source = 'UP' AND A.cpu > 3")

    with pytest.raises(SnapshotError) as error:
        types_of(application, "w", {"s1": {}})

    assert str(error.value) == (
        "the snapshot: w asks complex events of up.UP for 'cpu > 3', and neither the text of "
        'UP nor the snapshot tells how many are; add rates["up.UP"]: {"source=UP & cpu > 3": '
        'events per second, "other": events per second}'
    )


def test_a_snapshot_cannot_contradict_the_text():
    """Complex events of a pattern have its name."""
    application = operators(
        up=UP, w="up.UP: SELECT * WHERE SEQ(A.source = 'X', B.cpu > 3) WITHIN 1 s"
    )

    with pytest.raises(
        SnapshotError, match=r'rates\["up.UP"\]\["source=X"\] cannot be: by its '
    ):
        types_of(application, "w", {"s1": {}, "up.UP": {"source=X": 1}})


@given(patterns(cross=False), st.data())
def test_types_are_accepted_as_the_alphabet_says(pattern, data):
    """One by one and all at once is the same, and nothing is lost."""
    application = build_application(
        "test",
        [source("s1")],
        [Node(name="n")],
        [OperatorSpec(name="w", node="n", inputs=(S1,), patterns={"W": pattern})],
        [],
    )
    words = types_of(application, "w", {"s1": {}}).vocabulary
    sizes = [one.codes for one in words.alphabet.closed] + [2] * len(words.alphabet.open)
    signatures = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    drawn = data.draw(st.lists(signatures, max_size=6))
    rates = {words.label(one): 1.0 for one in drawn}

    types = types_of(application, "w", {"s1": rates})

    assert list(types.signatures) == sorted(set(types.signatures))
    for each in elements(pattern.where):
        passing = [
            all(
                test.allows(one[test.component], words.null_signature[test.component])
                for test in words.tests_of(each)
            )
            for one in types.signatures
        ]
        assert types.accepted[each].tolist() == np.flatnonzero(passing).tolist()
    assert types.sources["s1"].sum() + types.unused["s1"] == len(rates)


def constant_types(count: int) -> dict[str, float]:
    """List the rates of many types."""
    return {f"type={i}": 1.0 for i in range(count)}


def alone(where: dict[str, Part]) -> Application:
    """Make an application of one operator."""
    made = {
        name: Pattern(select=(), where=each, within=Window(1)) for name, each in where.items()
    }
    spec = OperatorSpec(name="w", node="n", inputs=(S1,), patterns=made)
    return build_application("test", [source("s1")], [Node(name="n")], [spec], [])


def test_ten_thousand_types_and_a_hundred_patterns_are_quick():
    """No step looks at all pairs."""
    column = Attribute("", ("type",))
    tests = [
        In(column, tuple(Literal(i) for i in range(p, 10_000, 100))) for p in range(100)
    ] + [Binary(Operator.NOT_EQUAL, column, Literal(p)) for p in range(3)]
    singles = [Binary(Operator.EQUAL, column, Literal(i)) for i in range(0, 10_000, 10)]
    where: dict[str, Part] = {f"P{i}": Element("E", one) for i, one in enumerate(tests)}
    where["All"] = And(tuple(Element(f"E{i}", one) for i, one in enumerate(singles)))
    began = time.process_time()

    model = build_model(alone(where), Snapshot(rates={S1: constant_types(10_000)}))

    assert time.process_time() - began < 5
    assert len(model.operators["w"].types) == 10_000
    assert len(model.operators["w"].patterns[0].demand.uses) == 100
