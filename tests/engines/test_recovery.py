"""What a run missed of a stretch: laws, without Spark."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.cli.future_events import FutureCounts
from shedlight.cli.malformed import MalformedRecords
from shedlight.cli.stored_events import StoredEvents
from shedlight.engines import event_pieces
from shedlight.engines.event_pieces import EventPieces
from shedlight.engines.recovery import (
    TimeRange,
    cut_behind,
    cut_pieces,
    find_missed,
    match_stored,
    run_in_pieces,
)
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

    results = match_stored(APPLICATION, stored, until, run)
    found = find_missed(APPLICATION, results, came, TimeRange(since, until))
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
@given(events, st.integers(0, 60), st.integers(1, 5))
def test_a_pattern_that_began_later_sees_later_events(steps, time, number):
    """And the others of its operator see all."""

    def in_pieces(operator, tables):
        return run_in_pieces(operator, tables, number, began={"Alone": time})

    ordered = table(steps).sort_by([("at", "ascending"), ("n", "ascending")])
    later = ordered.filter(pc.greater_equal(ordered["at"], time))
    found = by_sink(run_application(APPLICATION, {"s": ordered}, run=in_pieces))
    whole = by_sink(run_application(APPLICATION, {"s": ordered}))
    alone = by_sink(run_application(APPLICATION, {"s": later}))
    assert found["alone"]["id"].to_pylist() == alone["alone"]["id"].to_pylist()
    assert found["pairs"]["id"].to_pylist() == whole["pairs"]["id"].to_pylist()


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


@settings(max_examples=25)
@given(events, st.integers(-5, 90), st.integers(1, 5))
def test_pieces_end_where_the_whole_does(steps, until, size):
    """Wherever they are cut."""
    stored = table(steps)

    def pieces():
        tables = [stored.slice(at, size) for at in range(0, len(stored), size)]
        return EventPieces(stored.schema, len(tables), iter(tables))

    cut = cut_pieces(SOURCE, pieces(), pieces(), until)
    left = pa.concat_tables([stored.slice(0, 0), *cut.tables])
    assert left.to_pylist() == cut_behind(SOURCE, stored, until).to_pylist()


def test_large_files_are_matched_in_pieces(tmp_path, monkeypatch):
    """Up to a time, with a pattern that came later."""
    monkeypatch.setattr(event_pieces, "EVENTS_PER_PIECE", 16)
    steps = [(number % 5, number * 7 % 3) for number in range(100)]
    pq.write_table(table(steps), tmp_path / "stored.parquet")
    until, began = 150, {"Alone": 60}
    file = f"s={tmp_path / 'stored.parquet'}"
    stored = StoredEvents(APPLICATION, tmp_path, [file], until)
    left_out, future = MalformedRecords(), FutureCounts()

    def whole(operator, tables):
        return run_in_pieces(operator, tables, 1, began=began)

    found = by_sink(stored.match(began, left_out, future))
    wanted = by_sink(match_stored(APPLICATION, {"s": table(steps)}, until, whole))
    assert {name: each.to_pylist() for name, each in found.items()} == {
        name: each.to_pylist() for name, each in wanted.items()
    }
    assert all(len(each) for each in found.values())


def test_without_an_end_nothing_is_left_out():
    """And the times of what was missed are those of a sink."""
    stored = table([(1, 0), (1, 1)])
    assert cut_behind(SOURCE, stored, None) is stored
    none = pa.array([], pa.string())
    results = match_stored(APPLICATION, {"s": stored}, None)
    missed = find_missed(APPLICATION, results, {"pairs": none}, TimeRange())["pairs"].missed
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
    results = match_stored(application, {"s": stored}, 2, on_malformed=seen.append)
    none = pa.array([], pa.string())
    found = find_missed(application, results, {"pairs": none}, TimeRange(None, 2))
    assert found["pairs"].matches == 0
    assert [len(records) for records in seen] == [0], (
        "it arrived behind the last event of the stretch"
    )
