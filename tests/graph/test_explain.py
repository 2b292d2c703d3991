"""What `shedlight check` prints."""

import pytest

from shedlight.errors import ApplicationError
from shedlight.graph import explain, load_application
from tests.graph.applications import PAPER, edited, loaded, stream
from tests.graph.file.test_loader import CONSTRAINTS

PAPERS = """\
borg: 2 sources, 3 nodes, 4 operators, 6 patterns, 2 sinks

sources
  s1: parquet in data/s1
    time     time_us, in microseconds, a timestamp or text; events come in order
    id       machine_id, time_us, collection_id, instance_index, event
    derived  type = machine_id % 4
    schema   not declared; read from the data
  s2: parquet in data/s2
    time     time_us, in microseconds, a timestamp or text; events come in order
    id       machine_id, time_us, collection_id, instance_index, event
    derived  type = machine_id % 4
    schema   not declared; read from the data

graph
  node edge-1: no bound, sheds nothing
    w1 reads s1
      Q11  -> w3
      Q12  -> w4
  node edge-2: bound 3 s on average
    w2 reads s2
      Q21  -> w3
      Q22  -> w4
  node core: no bound, sheds nothing
    w3 reads w1.Q11, w2.Q21
      Q31  -> sink1 (a sink)
    w4 reads w1.Q12, w2.Q22
      Q41  -> sink2 (a sink)

sinks
  sink1  takes w3.Q31, weight 1, parquet in out/sink1
  sink2  takes w4.Q41, weight 1, parquet in out/sink2

patterns
  operator w1
    types   type=0, type=1, type=2, type=3
    others  relevant to no pattern; dropped at once
    Q11: SELECT E1, E2, E3 WHERE SEQ(E1.type = 0, E2.type = 0, E3.type = 1) WITHIN 10 s
      state 0: E1 -> 1
      state 1: E2 -> 2
      state 2: E3 -> match
    Q12: SELECT E1, E2, E3 WHERE AND(E1.type = 1, E2.type = 2, E3.type = 3) WITHIN 10 s
      region 1
        state 0: E1 -> match
      region 2
        state 0: E2 -> match
      region 3
        state 0: E3 -> match
      a match needs every region
"""


def test_the_papers_example_is_explained():
    """As a stranger would read it; operators w2 to w4 look as w1 does."""
    text = explain(load_application(PAPER).application)

    assert text.startswith(PAPERS)
    assert text.endswith("\n\nno warnings")
    assert max(map(len, text.split("\n"))) <= 96


def test_all_settings_of_a_source_are_explained():
    """But not the values of options, which may be passwords."""
    application = loaded(
        (
            "format: parquet\n    path: data/s1",
            """format: kafka
    options: {kafka.bootstrap.servers: "h:1", subscribe: events, password: secret}
    time_unit: ms
    lateness: 5 s
    idle: 1 min
    arrival: ts
    late: {format: parquet, path: out/late}
    malformed: {format: kafka, options: {kafka.bootstrap.servers: "h:1", topic: bad}}
    value:
      format: json
      schema: {key: bigint, ts: bigint, type: bigint, host: {zone: string}}""",
        )
    )

    text = explain(application)

    assert (
        """
  s1: kafka
    options    kafka.bootstrap.servers, subscribe, password
    value      json; its fields are columns
    time       ts, in milliseconds; events come at most 5 s late
    idle       after 1 min without events it holds back no operator
    arrival    ts says when an event arrived
    id         key, ts
    schema     key bigint, ts bigint, type bigint, host struct, host.zone string,
               kafka_key string, topic string, partition bigint, offset bigint,
               timestamp timestamp, headers string
    late       goes to parquet in out/late
    malformed  goes to kafka
"""
        in text
    )
    assert "secret" not in text


def test_a_time_that_is_a_timestamp_has_no_unit():
    """The unit is for numbers alone."""
    schema = "path: data/s1\n    schema: {key: bigint, ts: timestamp, type: bigint}"

    assert "time    ts, a timestamp; events" in explain(loaded(("path: data/s1", schema)))


def test_a_time_in_a_time_zone_is_explained():
    """The zone is for what has none."""
    zoned = "path: data/s1\n    time_zone: Europe/Berlin"

    shown = explain(loaded(("path: data/s1", zoned)))

    assert "a timestamp or text of Europe/Berlin; events" in shown


def test_a_pattern_may_go_to_several_places():
    """Operators first, then sinks."""
    application = loaded(
        ("sinks:", "sinks:\n  more: {input: w1.A, format: console}"),
        ("  core: {}", "  core: {}\n  far: {}"),
    )

    text = explain(application)

    assert "      A  -> w2, more (a sink)\n      B  -> w2\n" in text
    assert "  node far: no bound, sheds nothing\n    no operators\n" in text
    assert "  more  takes w1.A, weight 1, console\n" in text


def test_a_sink_of_what_timed_out_is_told_from_the_others():
    """It has no weight."""
    text = explain(
        loaded(("sinks:", "sinks:\n  slow: {input: w1.A, timed_out: true, format: console}"))
    )

    assert "      A  -> w2, slow (a sink of what timed out)\n" in text
    assert "  slow  takes what timed out of w1.A, console\n" in text


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("WHERE E1", "others  relevant too: a pattern has an element without a condition"),
        ("WHERE E1.x <> 3", "others  relevant too: a pattern asks for any value but some"),
        (
            "WHERE SEQ(E1.x = 3, E2.x = 4) WITHIN 5 EVENTS",
            "others  counted by a window of events, else not relevant",
        ),
        ("WHERE E1.x > 3", "conditions  x > 3\n    others      relevant to no pattern"),
    ],
)
def test_what_patterns_ask_of_events_is_explained(pattern, lines):
    """Types and other conditions, and what becomes of events that meet none of them."""
    assert lines in explain(loaded(("WHERE E1.type = 2", pattern)))


def test_constraints_on_shedding_are_explained():
    """At the operator and at the sink that they are about."""
    text = explain(loaded(*CONSTRAINTS))

    assert (
        """
    others      relevant to no pattern; dropped at once
    never shed  type=0, cpu > 0.5 & type=2
    shed by     event
"""
        in text
    )
    assert (
        "takes w2.C, weight 1, at least 2.5/s, at least 40 % of all, parquet in out\n" in text
    )


def test_selectivity_functions_are_shown_with_their_patterns():
    """They come from outside: the graph knows nothing of the model."""
    text = explain(loaded(), (), {stream("w1.A"): "min(type=0, type=1)"})

    assert "WITHIN 10 s\n      matches/s: min(type=0, type=1)\n      state 0" in text
    assert text.count("matches/s") == 1


def test_long_lists_are_cut():
    """Ten thousand types are allowed, but nobody reads them."""
    options = ", ".join(map(str, range(3, 10_000)))

    text = explain(loaded(("E1.type = 2", f"E1.type IN ({options})")))

    assert "... and 9,979 more\n" in text
    assert "... and more\n" in text
    assert len(text) < 6_000


def test_a_large_automaton_is_cut():
    """Its beginning says enough."""
    text = explain(loaded(("E2.type = 1)", "E2.type = 1 {500}, E3.type = 2)")))

    assert "\n      state 19: E2 -> 20\n      ... and 482 more lines\n" in text


def test_a_pattern_with_too_many_states_is_an_error():
    """It could not be run either."""
    parts = ", ".join(f"E{i}.x > {i}" for i in range(1, 16))

    with pytest.raises(ApplicationError, match=r"operators\.w1\.patterns\.B: .* 16,384 states"):
        explain(loaded(("E1.type = 2", f"AND({parts}) WITHIN 1 s")))


def test_warnings_come_last():
    """With the place in the file."""
    found = load_application(edited(("  core: {}", "  core: {}\n  far: {}")))

    text = explain(found.application, found.warnings)

    assert text.endswith("\n\nwarnings\n  line 11: nodes.far has no operators")
