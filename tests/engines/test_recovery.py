"""What a run missed of a stretch: laws, without Spark."""

from dataclasses import replace

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.recovery import TimeRange, cut_behind, find_missed, run_in_pieces
from shedlight.engines.tables import run_application, run_operator
from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream
from shedlight.graph.application import SideOutput, build_application
from shedlight.language import DataType, parse_pattern

COLUMNS = ("at", "n", "type")
SOURCE = Source(
    name="s",
    format="parquet",
    path="unread",
    time="at",
    id=("n",),
    lateness=3,
    schema=dict.fromkeys(COLUMNS, DataType.BIGINT),
)
PAIRS = "SELECT a.n AS n WHERE SEQ(a.type = 0, NOT(x.type = 2), b.type = 1) WITHIN 20 us"
ALONE = "SELECT a.n AS n WHERE SEQ(a.type = 0, NOT(b.type = 1)) WITHIN 5 us"
TWICE = "SELECT a.n AS n WHERE SEQ(a.source = 'Pairs', b.source = 'Pairs') WITHIN 40 us"


def _application():
    made = {
        "first": OperatorSpec(
            name="first",
            node="edge",
            inputs=(Stream("s"),),
            patterns={
                n: parse_pattern(t).pattern for n, t in (("Pairs", PAIRS), ("Alone", ALONE))
            },
        ),
        "second": OperatorSpec(
            name="second",
            node="edge",
            inputs=(Stream("Pairs", "first"), Stream("Alone", "first")),
            patterns={"Twice": parse_pattern(TWICE).pattern},
        ),
    }
    sinks = [
        Sink(name=name.lower(), input=Stream(name, operator), format="parquet", path="unread")
        for name, operator in (("Pairs", "first"), ("Alone", "first"), ("Twice", "second"))
    ]
    return build_application("small", [SOURCE], [Node(name="edge")], [*made.values()], sinks)


APPLICATION = _application()
events = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=60)


def table(steps):
    """Have times that grow, but for some that are behind, a few of them late."""
    at, rows = 0, []
    for number, (step, type_) in enumerate(steps):
        at += step
        rows.append((at - 5 * (number % 7 == 3), number, type_))
    return pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))


def by_sink(results):
    """Give the complex events of each sink."""
    return {
        name: results[sink.input.operator].complex_events[sink.input.name]
        for name, sink in APPLICATION.sinks.items()
    }


@settings(max_examples=25)
@given(
    events, st.integers(-5, 90), st.integers(-5, 90), st.integers(0, 2**60), st.integers(1, 9)
)
def test_delivered_and_missed_are_all_matches_and_none_twice(steps, since, until, lot, pieces):
    """Whatever came of them, and of others, and however the stored events are cut."""
    stored = {"s": table(steps)}
    matches = by_sink(run_application(APPLICATION, stored))
    came = {
        name: pa.array([*ids[lot % 3 :: 2], "of another pairing"], pa.string())
        for name, ids in ((n, each["id"].to_pylist()) for n, each in matches.items())
    }

    def run(operator, tables):
        return run_in_pieces(operator, tables, pieces)

    found = find_missed(APPLICATION, stored, came, TimeRange(since, until), run)
    for name, each in found.items():
        wanted = [
            row["id"] for row in matches[name].to_pylist() if since <= row["time"] <= until
        ]
        missed = each.missed["id"].to_pylist()
        delivered = [id_ for id_ in wanted if id_ in set(came[name].to_pylist())]
        assert sorted(missed + delivered) == sorted(wanted)
        assert (each.matches, each.delivered) == (len(wanted), len(delivered))
        assert set(missed).isdisjoint(came[name].to_pylist())


@settings(max_examples=15)
@given(events, st.integers(1, 12))
def test_pieces_of_all_inputs_give_what_the_whole_gives(steps, number):
    """An operator with two inputs too, of which one may be much shorter."""

    def in_pieces(operator, tables):
        return run_in_pieces(operator, tables, number)

    stored = {"s": table(steps)}
    whole = by_sink(run_application(APPLICATION, stored, run=run_operator))
    cut = by_sink(run_application(APPLICATION, stored, run=in_pieces))
    assert {n: each.to_pylist() for n, each in whole.items()} == {
        n: each.to_pylist() for n, each in cut.items()
    }


@given(events, st.integers(-5, 90))
def test_what_arrives_behind_a_stretch_is_left_out(steps, until):
    """All up to its last event stays, with later ones that make others late."""
    stored = table(steps)
    left = cut_behind(SOURCE, stored, until)
    assert left.equals(stored.slice(0, len(left)))
    assert all(at > until for at in stored["at"].to_pylist()[len(left) :])
    assert not len(left) or left["at"].to_pylist()[-1] <= until


def test_without_an_end_nothing_is_left_out():
    """And the times of what was missed are those of a sink."""
    stored = table([(1, 0), (1, 1)])
    assert cut_behind(SOURCE, stored, None) is stored
    none = pa.array([], pa.string())
    missed = find_missed(APPLICATION, {"s": stored}, {"pairs": none}, TimeRange())[
        "pairs"
    ].missed
    assert missed.column_names[:4] == ["source", "time", "id", "events"]
    assert missed.schema.field("time").type == pa.timestamp("us", tz="UTC")
    assert len(missed) == 1


def test_malformed_records_are_left_out():
    """Those of a source that has a place for them, in a stretch too."""
    place = replace(SOURCE, malformed=SideOutput(format="json", path="unread"))
    application = replace(APPLICATION, sources={"s": place})
    stored = table([(1, 0), (1, 1), (1, 0)])
    stored = stored.set_column(0, "at", pa.array([1, None, 3], pa.int64()))
    seen: list[pa.Table] = []
    found = find_missed(
        application,
        {"s": stored},
        {"pairs": pa.array([], pa.string())},
        TimeRange(None, 2),
        on_malformed=seen.append,
    )
    assert found["pairs"].matches == 0
    assert [len(records) for records in seen] == [0], (
        "it arrived behind the last event of the stretch"
    )
