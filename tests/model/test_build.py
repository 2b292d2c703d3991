"""Models of applications, built from snapshots."""

from pathlib import Path

import numpy as np
import pytest

from shedlight.errors import SnapshotError
from shedlight.graph import ShedBy, Stream
from shedlight.model.build import build_model
from shedlight.model.model import Model, PatternModel
from shedlight.model.rates import predict
from shedlight.model.snapshot_file import read_snapshot
from tests.graph.applications import loaded, stream
from tests.model.applications import PAPERS, operators, paper, snapshot, written


@pytest.fixture
def papers(tmp_path: Path) -> Model:
    """Build the model of the paper's running example."""
    application = paper()
    return build_model(application, read_snapshot(written(tmp_path, PAPERS), application))


def pattern(text: str, rates: dict[str, float] | None = None, **more: object) -> PatternModel:
    """Build the model of one pattern over one source."""
    found = operators(w={"text": f"s1: {text}", **more.pop("operator", {})})  # type: ignore[dict-item]
    return build_model(found, snapshot({"s1": rates or {}}, **more)).operators["w"].patterns[0]


def test_the_papers_example_has_the_papers_types(papers):
    """Operators in the order of the graph, types in that of the text."""
    assert {name: one.types for name, one in papers.operators.items()} == {
        "w1": ("type=0", "type=1", "type=2", "type=3"),
        "w2": ("type=0", "type=1", "type=2", "type=3"),
        "w3": ("source=Q11", "source=Q21"),
        "w4": ("source=Q12", "source=Q22"),
    }
    assert papers.operators["w2"].sources["s2"].tolist() == [60, 30, 40, 40]
    assert papers.operators["w3"].feeds[stream("w1.Q11")].tolist() == [1, 0]
    assert papers.operators["w3"].feeds[stream("w2.Q21")].tolist() == [0, 1]
    assert papers.operators["w2"].unused == {"s2": 0}


def test_the_papers_example_has_the_papers_needs(papers):
    """Two of type 0 and one of type 1; one of each of 1, 2 and 3."""
    first, second = papers.operators["w2"].patterns

    assert dict(zip(first.demand.uses, first.demand.per_use, strict=True)) == {0: 2, 1: 1}
    assert dict(zip(second.demand.uses, second.demand.per_use, strict=True)) == {
        1: 1,
        2: 1,
        3: 1,
    }
    assert first.seconds.tolist() == [0.002, 0.002]
    assert second.moments.tolist() == pytest.approx([3.2e-5] * 3)
    assert not papers.patterns[stream("w1.Q11")].is_timed
    assert papers.patterns[stream("w1.Q11")].measured == 19.9
    assert papers.patterns[stream("w2.Q21")].measured is None


def test_the_papers_equations_give_its_rates(papers):
    """min(min(40 / 2, 20), min(60 / 2, 30)) at sink 1, with upstream as measured."""
    rates = predict(papers, nodes=("edge-2",))

    assert rates.outputs[stream("w2.Q21")] == 30
    assert rates.sinks == {"sink1": 19.9, "sink2": 6.0}
    assert predict(papers, nodes=("edge-1", "edge-2")).sinks == {"sink1": 20, "sink2": 10}


def test_nodes_and_sinks_have_what_application_and_snapshot_say(tmp_path):
    """What is not said is zero, or one for a weight."""
    application = loaded(("path: out}", "path: out, weight: 2, min_rate: 3, min_share: 40%}"))
    more = {
        "backlog": {"edge": 1.5},
        "micro_batch": {"edge": {"a": 0.2, "b_in": 1e-6}},
        "transport": {"edge": 1e-5},
        "calibration": {"w1.A": 0.5},
    }

    model = build_model(
        application,
        read_snapshot(written(tmp_path, {"rates": {"s1": {}}, **more}), application),
    )

    edge, core, sink = model.nodes["edge"], model.nodes["core"], model.sinks["out"]
    assert (edge.bound, edge.backlog, edge.fixed, edge.reading, edge.transport) == (
        3.0,
        1.5,
        0.2,
        1e-6,
        1e-5,
    )
    assert (core.bound, core.backlog, core.fixed, core.reading, core.transport) == (
        None,
        0,
        0,
        0,
        0,
    )
    assert (sink.weight, sink.min_rate, sink.min_share) == (2, 3, 0.4)
    assert sink.stream == Stream("C", "w2")
    assert model.patterns[stream("w1.A")].calibration == 0.5


def test_each_emits_an_event_per_event_of_a_match():
    """At least as many as the shortest match has."""
    where = "SEQ(A.t = 1 {2,5}, OR(B.t = 2, SEQ(C.t = 3, D.t = 4)), E.t = 5?) WITHIN 1 s"

    assert pattern(f"SELECT * WHERE {where}").emits == 1
    assert pattern(f"SELECT EACH * WHERE {where}").emits == 3


def test_a_pattern_with_a_key_is_shed_by_key():
    """Unless its operator says otherwise."""
    text = "SELECT * WHERE SEQ(A.t = 1, B.t = 2) WITHIN 1 s"
    keyed = f"{text} PARTITION BY host, zone"

    assert pattern(text).key == ""
    assert pattern(keyed).key == "host, zone"
    assert pattern(keyed, operator={"shed_by": ShedBy.EVENT}).key == ""
    assert pattern(keyed, operator={"shed_by": ShedBy.KEY}).key == "host, zone"


def test_types_that_are_never_shed_are_marked():
    """A label stands for all types of which its words hold; other types are of no word."""
    text = "SELECT * WHERE SEQ(A.t = 1, B.t = 2, C.x > 3, D) WITHIN 1 s"
    rates = {"t=1": 1.0, "t=1 & x > 3": 1.0, "t=2": 1.0, "other": 1.0}
    labels = ["t=1", "t=1 & x > 3", "t=2", "other", "x > 3"]

    def protected(*names: str) -> list[str]:
        found = pattern(text, {**rates, "x > 3": 1.0}, operator={"never_shed": names})
        return [label for label, is_it in zip(labels, found.protected, strict=True) if is_it]

    assert protected("t=1") == ["t=1", "t=1 & x > 3"]
    assert protected("x > 3", "t=2") == ["t=1 & x > 3", "t=2", "x > 3"]
    assert protected("x > 3 & t=1") == ["t=1 & x > 3"]
    assert protected("other") == ["other"]
    assert len(pattern(text, rates).protected) == 0


def test_a_window_of_events_watches_all_of_them():
    """Shedding one would make the window longer."""
    text = "SELECT * WHERE SEQ(A.t = 1, B.t = 2) WITHIN 5"

    assert not pattern(f"{text} s").demand.has_not
    assert pattern(f"{text} EVENTS").demand.watched.tolist() == [True, True]


TEXT = "SELECT * WHERE SEQ(A.t = 1, B.t = 2) WITHIN 1 s"


def test_times_may_differ_by_type():
    """The default of a second moment is that of an exponential time."""
    found = pattern(
        TEXT,
        {"t=1": 1.0, "t=2": 1.0},
        processing_time={"w.W": {"t=2": 0.1, "t=1": 0.2}},
        second_moment={"w.W": {"t=2": 0.05}},
    )

    assert found.seconds.tolist() == [0.2, 0.1]
    assert found.moments.tolist() == pytest.approx([0.08, 0.05])


def test_a_type_that_does_not_arrive_needs_no_time():
    """It gets the longest of the others, to be safe."""
    found = pattern(TEXT, {"t=1": 1.0}, processing_time={"w.W": {"t=1": 0.2}})

    assert found.seconds.tolist() == [0.2, 0.2]


def test_a_type_that_arrives_needs_a_time():
    """Nobody else can know it."""
    with pytest.raises(SnapshotError) as error:
        pattern(TEXT, {"t=1": 1.0, "t=2": 1.0}, processing_time={"w.W": {"t=1": 0.2}})

    assert str(error.value) == (
        "the snapshot: processing_time[\"w.W\"] has nothing for 't=2', which arrives and which "
        "it uses; add its seconds, or write one number for all"
    )


def test_a_second_moment_is_at_least_the_square_of_the_mean():
    """Else the variance would be negative."""
    with pytest.raises(SnapshotError) as error:
        pattern(TEXT, processing_time={"w.W": 0.2}, second_moment={"w.W": 0.03})

    assert str(error.value) == (
        'the snapshot: second_moment["w.W"] is 0.03, less than the square of the mean: it is '
        "at least 0.04; leave it out if it is not known"
    )
    assert pattern(
        TEXT, processing_time={"w.W": 0.2}, second_moment={"w.W": 0.2**2}
    ).moments.tolist() == pytest.approx([0.04, 0.04])


def test_an_or_may_be_read_as_in_the_paper():
    """Then one branch alone counts."""
    application = operators(w="s1: SELECT * WHERE OR(A.t = 1, B.t = 2)")
    given = snapshot({"s1": {"t=1": 3.0, "t=2": 5.0}})

    both, one = build_model(application, given), build_model(application, given, or_as="max")

    assert np.isclose(predict(both).outputs[stream("w.W")], 8)
    assert np.isclose(predict(one).outputs[stream("w.W")], 5)
