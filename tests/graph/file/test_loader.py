"""Application files that can be used, and what is read from them."""

import json
import re
from pathlib import Path

import pytest

from shedlight.errors import ApplicationError
from shedlight.graph import (
    Node,
    RunSettings,
    ShedBy,
    SideOutput,
    Sink,
    Stream,
    TimeUnit,
    application_json_schema,
    load_application,
)
from shedlight.graph.file.yaml_lines import read_document
from shedlight.language import DataType, parse_expression
from tests.graph.applications import PAPER, SMALL, edited, loaded


def test_the_papers_example_is_understood():
    """As it stands in the design."""
    application = load_application(PAPER).application

    assert application.name == "borg"
    assert {name: node.bound for name, node in application.nodes.items()} == {
        "edge-1": None,
        "edge-2": 3.0,
        "core": None,
    }
    assert application.operators["w3"].inputs == (Stream("Q11", "w1"), Stream("Q21", "w2"))
    assert str(application.operators["w2"].patterns["Q22"]) == (
        "SELECT E4, E5, E6 WHERE AND(E4.type = 1, E5.type = 2, E6.type = 3) WITHIN 10 s"
    )
    assert application.sinks["sink2"] == Sink(
        name="sink2", input=Stream("Q41", "w4"), weight=1.0, format="parquet", path="out/sink2"
    )


def test_a_bound_is_of_the_mean_or_of_a_percentile():
    """And it is the same whether it comes from a file or is made in Python."""
    by_percentile = loaded(("bound: 3 s", "bound: {p95: 500 ms}"))

    assert loaded().nodes["edge"] == Node(name="edge", bound=3.0)
    assert by_percentile.nodes["edge"] == Node(name="edge", bound=0.5, percentile=95)


def test_a_merge_takes_all_but_what_is_written():
    """Anchors and merges work as YAML says."""
    sources = load_application(PAPER).application.sources

    assert sources["s1"].path == "data/s1"
    assert sources["s2"].path == "data/s2"
    assert sources["s2"].id == sources["s1"].id
    assert sources["s2"].columns == {"type": parse_expression("machine_id % 4")}


def test_of_several_merges_the_first_counts_most():
    """A line is that of the place where something is written."""
    text = """\
a: &a {x: 1, y: 1}
b: &b {y: 2, z: 2}
c: {<<: [*a, *b], z: 3}
d: {<<: {<<: *a, x: 4}}"""

    document = read_document(text)

    assert document.value == {
        "a": {"x": "1", "y": "1"},
        "b": {"y": "2", "z": "2"},
        "c": {"z": "3", "x": "1", "y": "1"},
        "d": {"x": "4", "y": "1"},
    }
    assert [document.lines["c", name] for name in "xyz"] == [1, 1, 3]


def test_a_source_may_have_side_outputs():
    """What is late, and what is no event; a format has options and may have a path."""
    settings = """path: data/s1
    arrival: came
    late: {format: parquet, path: out/late}
    malformed: {format: kafka, options: {kafka.bootstrap.servers: "h:1", topic: bad}}
"""

    source = loaded(("path: data/s1\n", settings)).sources["s1"]

    assert source.arrival == "came"
    assert source.late == SideOutput(format="parquet", path="out/late")
    options = {"kafka.bootstrap.servers": "h:1", "topic": "bad"}
    assert source.malformed == SideOutput(format="kafka", options=options)
    assert list(source.side_outputs) == ["late", "malformed"]
    assert not loaded().sources["s1"].side_outputs


def test_a_source_has_sensible_defaults():
    """Format, time and id are all that is needed."""
    source = loaded().sources["s1"]

    assert source.time_unit is TimeUnit.MICROSECONDS
    assert (source.lateness, source.idle) == (0, None)
    assert (source.options, source.columns, source.schema) == ({}, {}, None)
    assert loaded().sinks["out"].weight == 1


def test_all_settings_of_a_source_are_read():
    """Options stay as they are written; Spark knows what they mean."""
    settings = """format: socket
    options: {host: here, failOnDataLoss: no, maxOffsetsPerTrigger: 1000}
    time_unit: ms
    lateness: 1.5 s
    idle: 10 min
    schema: {key: bigint, ts: BIGINT, type: bigint, host: {zone: string, rack: {row: bigint}}}
    columns: {zone: host.zone, one: 1}
"""

    source = loaded(("format: parquet\n    path: data/s1\n", settings)).sources["s1"]

    assert (source.format, source.path) == ("socket", None)
    assert source.options == {
        "host": "here",
        "failOnDataLoss": "no",
        "maxOffsetsPerTrigger": "1000",
    }
    assert source.time_unit is TimeUnit.MILLISECONDS
    assert (source.lateness, source.idle) == (1_500_000, 600_000_000)
    assert source.columns == {
        "zone": parse_expression("host.zone"),
        "one": parse_expression("1"),
    }
    assert source.schema == {
        "key": DataType.BIGINT,
        "ts": DataType.BIGINT,
        "type": DataType.BIGINT,
        "host": DataType.STRUCT,
        "host.zone": DataType.STRING,
        "host.rack": DataType.STRUCT,
        "host.rack.row": DataType.BIGINT,
    }


@pytest.mark.parametrize("text", ["input: s1", "input: [s1]", "input:\n    - s1"])
def test_an_input_is_one_or_several(text):
    """A list of one may be written without brackets."""
    assert loaded(("input: s1", text)).operators["w1"].inputs == (Stream("s1"),)


@pytest.mark.parametrize("mark", [">", "|", ">-", ""])
def test_a_pattern_may_have_several_lines(mark):
    """Folded, literal or plain."""
    written = "B: SELECT E1.key WHERE E1.type = 2"
    several = f"B: {mark}\n        SELECT E1.key\n        WHERE E1.type = 2"

    assert loaded((written, several)) == loaded()


def test_a_node_without_settings_may_be_left_empty():
    """That is how most people write it."""
    assert loaded(("core: {}", "core:")).nodes["core"] == Node(name="core")


def test_words_that_yaml_takes_for_something_else_are_names():
    """`on`, `no` and dates are text here, whatever YAML 1.1 says."""
    application = loaded(
        ("  s1:", "  on:"),
        ("input: s1", "input: on"),
        ("path: data/s1", "path: 2024-01-01"),
        ("id: [key, ts]", "id: [no, 1_0]"),
        ("name: small", "name: 0123"),
    )

    assert application.name == "0123"
    assert application.sources["on"].path == "2024-01-01"
    assert application.sources["on"].id == ("no", "1_0")
    assert application.operators["w1"].inputs == (Stream("on"),)


def test_an_operator_may_read_sources_and_patterns():
    """In order of declaration."""
    application = loaded(("input: [w1.A, w1.B]", "input: [w1.A, s1, w1.B]"))

    assert application.operators["w2"].inputs == (
        Stream("A", "w1"),
        Stream("s1"),
        Stream("B", "w1"),
    )


def test_a_pattern_may_feed_operators_and_sinks():
    """A sink does not use it up."""
    sink = "sinks:\n  more: {input: w1.A, weight: 2.5, format: console}"

    assert loaded(("sinks:", sink)).sinks["more"].weight == 2.5


CONSTRAINTS = (
    (
        "node: edge",
        "node: edge\n    never_shed: [type=0, cpu > 0.5 & type=2]\n    shed_by: event",
    ),
    ("WHERE E1.type = 2", "WHERE E1.type = 2 AND E1.cpu > 0.5"),
    ("path: out}", "path: out, min_rate: 2.5, min_share: 40%}"),
)


def test_constraints_on_shedding_are_read():
    """Types never to be shed, what is shed as one, and what a sink should get at least."""
    application = loaded(*CONSTRAINTS)

    assert application.operators["w1"].never_shed == ("type=0", "cpu > 0.5 & type=2")
    assert application.operators["w1"].shed_by is ShedBy.EVENT
    assert application.sinks["out"].min_rate == 2.5
    assert application.sinks["out"].min_share == 0.4


@pytest.mark.parametrize(
    ("text", "share"), [("0", 0), ("1", 1), ("0.25", 0.25), ("25 %", 0.25), ("'100%'", 1)]
)
def test_a_share_may_be_in_per_cent(text, share):
    """Either way it is kept as a number from 0 to 1."""
    application = loaded(("path: out}", f"path: out, min_share: {text}}}"))

    assert application.sinks["out"].min_share == share


@pytest.mark.parametrize(
    ("text", "share"), [("0", 0), ("0.05", 0.05), ("2.5%", 0.025), ("99 %", 0.99)]
)
def test_the_unshed_sample_is_a_share_of_the_keys(text, share):
    """1 % if nothing is said."""
    assert loaded().unshed_sample == 0.01
    assert loaded(("name: small", f"name: small\nunshed_sample: {text}")).unshed_sample == share


@pytest.mark.parametrize("text", ["100%", "1", "-1%", "-0.1", "2", "all", "[1%]"])
def test_a_sample_of_all_keys_is_an_error(text):
    """Nothing would be left to shed; and less than nothing is no sample."""
    with pytest.raises(
        ApplicationError, match="line 2: unshed_sample must be from 0 to below 1"
    ):
        loaded(("name: small", f"name: small\nunshed_sample: {text}"))


def test_an_application_says_how_it_is_run():
    """Times are in seconds; what it does not say the engine decides."""
    text = "run: {trigger: 500 ms, shards: 8, restarts: 0, retention: 5 min}"

    run = loaded(("name: small", f"name: small\n{text}")).run

    assert run.given == {"trigger": 0.5, "shards": 8, "restarts": 0, "retention": 300.0}
    assert loaded().run == loaded(("name: small", "name: small\nrun:")).run == RunSettings()
    assert loaded(("name: small", "name: small\nrun: {shards: auto}")).run.shards is None
    on_start = loaded(("name: small", "name: small\nrun: {on_start: catch up}")).run.on_start
    assert str(on_start) == "catch up"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("triger: 1 s", "run has no setting 'triger'; known: delivery_interval, "),
        ("triger: 1 s", "did you mean 'trigger'?"),
        ("trigger: 0 s", "run.trigger must be longer than zero, got '0 s'"),
        ("shards: 0", "run.shards must be auto or a whole number from 1 on, got '0'"),
        ("shards: some", "run.shards must be auto or a whole number from 1 on, got 'some'"),
        ("on_start: jump", "run.on_start must be catch up, shed or skip, got 'jump'"),
        ("restarts: 1.5", "run.restarts must be a whole number from 0 on, got '1.5'"),
    ],
)
def test_how_it_is_run_is_checked(text, problem):
    """As all settings are."""
    with pytest.raises(ApplicationError, match=f"line 2: .*{re.escape(problem)}"):
        loaded(("name: small", f"name: small\nrun: {{{text}}}"))


def test_a_setting_of_a_function_that_is_not_known_is_an_error():
    """It names those that are."""
    text = "functions: {f: {pyton: 'math:sqrt', returns: double}}"
    with pytest.raises(ApplicationError, match="has no setting 'pyton'; known: python"):
        loaded(("name: small", f"name: small\n{text}"))


def test_a_sink_may_take_what_timed_out():
    """It weighs nothing; a sink takes matches unless it says so."""
    for text, said in (("true", True), ("True", True), ("false", False)):
        sink = loaded(("path: out}", f"path: out, timed_out: {text}}}")).sinks["out"]
        assert sink.timed_out is said
        assert sink.weight == (0 if said else 1)
        assert (sink.stream == sink.input) is not said
    assert loaded().timed_out == frozenset()
    edit = ("path: out}", "path: out, weight: 0, timed_out: true}")
    assert loaded(edit).timed_out == {Stream("C", "w2")}


def test_without_constraints_there_are_none():
    """A pattern with a key is then shed by key."""
    application = loaded()

    assert application.operators["w1"].never_shed == ()
    assert application.operators["w1"].shed_by is None
    assert application.sinks["out"].min_rate == application.sinks["out"].min_share == 0


def test_fused_operators_may_share_a_key_that_is_handed_on():
    """As an attribute, with EACH, or as an aggregate that keeps its value."""
    by_key = " PARTITION BY key"
    edits = (
        ("E2.type = 1) WITHIN 10 s", "E2.type = 1) WITHIN 10 s" + by_key),
        ("WHERE E1.type = 2", "WHERE E1.type = 2" + by_key),
        ("WITHIN 1 min", "WITHIN 1 min" + by_key),
        ("node: core", "node: edge"),
        ("  core: {}\n", ""),
    )

    assert loaded(*edits)
    assert loaded(*edits, ("SELECT E1.key WHERE E1", "SELECT EACH * WHERE E1"))
    assert loaded(*edits, ("SELECT E1.key WHERE E1", "SELECT LAST(E1.key) AS key WHERE E1"))


def test_what_looks_wrong_is_a_warning_in_order_of_lines():
    """It does not keep anybody from running the application."""
    text = edited(
        ("sources:", "sources:\n  s0: {format: rate, time: t, id: t}"),
        ("  core: {}", "  core: {}\n  far: {}"),
        ("X.source = 'A'", "X.source IN ('A', 'BB')"),
        ("E1.type = 2", "SEQ(E1.type = 2, E2 ?)"),
        ("E2 ?)", "E2 ?) WITHIN 1 s"),
    )

    idle_source, idle_node, never_taken, never_there = load_application(text).warnings
    assert idle_source == "line 3: sources.s0 is read by no operator"
    assert idle_node == "line 12: nodes.far has no operators"
    assert (
        never_taken
        == """\
line 19: operators.w1.patterns.B, in the text of this pattern:
    line 1, column 41: this repetition ends the pattern, so it is never taken at all
    SELECT E1.key WHERE SEQ(E1.type = 2, E2 ?) WITHIN 1 s
                                            ^
    a match is complete as soon as it can be; put a part after it"""
    )
    assert never_there == (
        "line 24: operators.w2.patterns.C asks for source 'BB', but no input of w2 is called "
        "so; known: A, B; did you mean 'B'?"
    )


def test_a_source_may_have_a_column_called_source():
    """Then any value of it is possible."""
    edits = (
        ("input: [w1.A, w1.B]", "input: [w1.A, w1.B, s1]"),
        ("X.source = 'A'", "X.source = 'x'"),
    )

    assert load_application(edited(*edits)).warnings == ()


def test_a_path_is_a_file_to_read(tmp_path):
    """Also one from Windows, with a byte order mark."""
    file = tmp_path / "app.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())

    assert load_application(file).application == loaded()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "{}: the file cannot be read: No such file or directory"),
        (b"name: \xff", "{}, line 1: this is not UTF-8; save the file as UTF-8"),
        (b"#" * 10_000_001, "{}: the file has more than 10,000,000 bytes"),
        (b"", "{}: the file is empty; it describes no application"),
        (
            SMALL.replace("bound", "bond").encode(),
            "{}, line 9: nodes.edge has no setting 'bond'; known: bound; did you mean 'bound'?",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path, content, message):
    """The name comes first, as compilers have it."""
    file = tmp_path / "app.yaml"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ApplicationError) as error:
        load_application(file)

    assert str(error.value) == message.format(file)


def test_a_folder_or_a_strange_name_is_no_file(tmp_path):
    """Whatever the operating system says, it is our error."""
    for path in (tmp_path, Path("\0")):
        with pytest.raises(ApplicationError, match="the file cannot be read"):
            load_application(path)


def test_the_name_of_a_file_is_not_taken_for_an_application():
    """A string is the text itself."""
    with pytest.raises(ApplicationError) as error:
        load_application("app.yaml")

    assert (
        str(error.value)
        == "'app.yaml' is not an application; write Path('app.yaml') for a file"
    )


def test_editors_get_a_json_schema():
    """It knows all settings, refuses others, and says what they mean."""
    schema = application_json_schema()

    assert json.loads(json.dumps(schema)) == schema
    assert schema["required"] == ["name", "sources", "nodes", "operators", "sinks"]
    parts = schema["$defs"]
    assert all(part["additionalProperties"] is False for part in parts.values())
    assert set(parts["SourceSettings"]["properties"]) == {
        "format",
        "path",
        "options",
        "time",
        "time_unit",
        "id",
        "value",
        "columns",
        "schema",
        "lateness",
        "max_jump",
        "idle",
        "time_zone",
        "arrival",
        "late",
        "malformed",
    }
    assert parts["NodeSettings"]["properties"]["bound"]["description"]
