"""Applications over sources in pieces: what they find is what they find at once."""

import random
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.event_pieces import EventPieces
from shedlight.engines.pieces_run import run_application_pieces
from shedlight.engines.tables import run_application
from shedlight.errors import InputError
from shedlight.graph.application import SideOutput
from tests.drawn_graphs import draw_application, draw_events
from tests.engines.applications import drawn_events, paper_application

COUNTS = ("events", "late", "duplicates", "evicted", "dropped")


def _pieces(table, cuts, drawn=None):
    """Cut a table; `drawn` is called before each piece is given."""
    bounds = [0, *sorted(min(cut, len(table)) for cut in cuts), len(table)]
    pairs = list(pairwise(bounds))

    def tables():
        for first, end in pairs:
            if drawn is not None:
                drawn(first)
            yield table.slice(first, end - first)

    return EventPieces(table.schema, len(pairs), tables())


def _rows(results):
    return {
        name: (
            [getattr(result, count) for count in COUNTS],
            {p: t.to_pylist() for p, t in result.complex_events.items()},
            {p: t.to_pylist() for p, t in result.timed_out.items()},
        )
        for name, result in results.items()
    }


def _check_same(application, tables, cuts, **options):
    whole = _rows(run_application(application, tables, **options))
    pieces = {name: _pieces(table, cuts[name]) for name, table in tables.items()}
    assert _rows(run_application_pieces(application, pieces, **options)) == whole
    return whole


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 100), max_size=5), st.booleans())
def test_a_drawn_application_finds_the_same_in_pieces(seed, cuts, timed_out):
    """Nested operators, NOTs, absences, keys and windows of events; in the same order."""
    rng = random.Random(seed)
    application, table = draw_application(rng), draw_events(rng)
    _check_same(application, {"s": table}, {"s": cuts}, timed_out=timed_out)


@settings(max_examples=20)
@given(
    st.lists(st.integers(0, 400), max_size=6),
    st.lists(st.integers(0, 400), max_size=6),
    st.lists(st.integers(0, 399), max_size=30),
)
def test_two_sources_find_the_same_however_they_are_cut(left, right, swapped):
    """Operators that join them, and late events, which are late by their own source alone."""
    tables = {f"s{i}": drawn_events(100, 4, i) for i in (1, 2)}
    order = list(range(len(tables["s1"])))
    for row in swapped:
        if 0 < row < len(order):
            order[row - 1], order[row] = order[row], order[row - 1]
    tables["s1"] = tables["s1"].take(pa.array(order))
    whole = _check_same(paper_application(), tables, {"s1": left, "s2": right})
    assert any(whole["w3"][1]["Q31"])


def test_the_source_that_is_behind_gives_the_next_piece():
    """Else events of one would wait for all of the other."""
    drawn = []
    tables = {f"s{i}": drawn_events(100, 4, i) for i in (1, 2)}
    cuts = {"s1": range(40, 400, 40), "s2": range(10, 400, 10)}
    pieces = {
        name: _pieces(
            table,
            cuts[name],
            lambda row, name=name, table=table: drawn.append(
                (name, table["time"][row].as_py() if row < len(table) else 1 << 62)
            ),
        )
        for name, table in tables.items()
    }
    run_application_pieces(paper_application(), pieces)
    longest = 1_000_000  # the longer pieces take 0.4 s
    reached = dict.fromkeys(tables, 0)
    for name, time in drawn:
        reached[name] = time
        if all(at < 1 << 62 for at in reached.values()):
            assert abs(reached["s1"] - reached["s2"]) < longest


def test_malformed_records_are_left_out_of_each_piece():
    """If their source has a place for them; else the error says after how many events."""
    application = paper_application()
    tables = {f"s{i}": drawn_events(100, 4, i) for i in (1, 2)}
    ids = tables["s1"]["id"].to_pylist()
    ids[150] = ids[250] = None
    tables["s1"] = tables["s1"].set_column(1, "id", pa.array(ids, pa.int64()))
    cuts = {"s1": [100, 200], "s2": [50]}
    pieces = {name: _pieces(table, cuts[name]) for name, table in tables.items()}
    with pytest.raises(InputError, match=r"^after 100 events: .*'id' is null in 1 of 100"):
        run_application_pieces(application, pieces)
    source = application.sources["s1"]
    place = replace(source, malformed=SideOutput(format="json", path="bad"))
    application = replace(application, sources={**application.sources, "s1": place})
    found: list[pa.Table] = []
    whole: list[pa.Table] = []
    expected = run_application(application, tables, on_malformed=whole.append)
    pieces = {name: _pieces(table, cuts[name]) for name, table in tables.items()}
    results = run_application_pieces(application, pieces, on_malformed=found.append)
    assert _rows(results) == _rows(expected)
    assert pa.concat_tables(found).num_rows == 2
    assert pa.concat_tables(found).equals(pa.concat_tables(whole))
