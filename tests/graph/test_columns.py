"""The columns that operators see, and the patterns that are checked against them."""

import pytest

from shedlight.errors import ApplicationError
from shedlight.graph import load_application, with_schemas
from shedlight.graph.columns import Columns, operator_columns
from shedlight.language import DataType
from tests.graph.applications import PAPER, edited, graph, loaded

DECLARED = (
    "path: data/s1\n",
    """path: data/s1
    schema: {key: bigint, ts: bigint, type: bigint, cpu: double, host: {zone: string}}
    columns: {hot: cpu > 0.5, twice: cpu * 2}
""",
)
SOURCE = {
    "key": DataType.BIGINT,
    "ts": DataType.BIGINT,
    "type": DataType.BIGINT,
    "cpu": DataType.DOUBLE,
    "host": DataType.STRUCT,
    "host.zone": DataType.STRING,
    "hot": DataType.BOOLEAN,
    "twice": DataType.DOUBLE,
}
COMPLEX = {"source": DataType.STRING, "time": DataType.BIGINT, "id": DataType.STRING}


def selected(select: str, where: str = "E1.type = 2") -> dict[str, DataType]:
    """Find what a pattern's complex events have besides source, time and id."""
    text = edited(
        DECLARED,
        ("SELECT E1.key WHERE E1.type = 2", f"SELECT {select} WHERE {where}"),
        (
            "C: SELECT X.key WHERE AND(X.source = 'A', ",
            "C: SELECT X WHERE AND(X.source = 'A', ",
        ),
        ("input: [w1.A, w1.B]", "input: [w1.B]"),
        ("      A: SELECT E1.key WHERE SEQ(E1.type = 0, E2.type = 1) WITHIN 10 s\n", ""),
    )
    schema = operator_columns(load_application(text).application)["w2"]
    assert schema.complete
    assert dict(schema).items() >= COMPLEX.items()
    return {name: data_type for name, data_type in schema.items() if name not in COMPLEX}


def under(name: str, columns: dict[str, DataType]) -> dict[str, DataType]:
    """Put columns into a struct."""
    return {
        name: DataType.STRUCT,
        **{f"{name}.{each}": data_type for each, data_type in columns.items()},
    }


def test_a_source_has_its_declared_and_its_derived_columns():
    """Derived columns get their data types from their expressions."""
    assert operator_columns(loaded(DECLARED))["w1"] == SOURCE


def test_a_derived_column_may_use_those_before_it():
    """They are computed one after the other."""
    text = (
        "path: data/s1\n",
        "path: data/s1\n    columns: {a: ts % 4, b: a = 1, c: CASE WHEN b THEN 1 END}\n",
    )

    columns = operator_columns(loaded(text))["w1"]

    assert columns.data_types == {
        "a": DataType.UNKNOWN,
        "b": DataType.BOOLEAN,
        "c": DataType.BIGINT,
    }


def test_without_a_declared_schema_the_columns_of_a_source_are_not_known():
    """They are read from the data later."""
    assert not operator_columns(loaded())["w1"].complete


def test_selected_values_have_their_names_and_data_types():
    """Of the data types upstream."""
    assert selected("E1.key, E1.cpu - 1 AS less, E1.hot AS h") == {
        "key": DataType.BIGINT,
        "less": DataType.DOUBLE,
        "h": DataType.BOOLEAN,
    }


def test_a_whole_event_is_a_struct_of_all_columns():
    """Its fields are named after it."""
    assert selected("E1") == under("E1", SOURCE)
    assert selected("E1 AS first") == under("first", SOURCE)


def test_everything_is_every_event_that_a_match_has():
    """What stands under NOT is in no match."""
    where = "SEQ(E1.type = 2, NOT(X.type = 3), E2.type = 4) WITHIN 1 s"

    assert selected("*", where) == under("E1", SOURCE) | under("E2", SOURCE)


def test_each_selects_columns_of_the_event():
    """A bare name is a column of the event at hand."""
    assert selected("EACH key, E1.cpu AS first") == {
        "key": DataType.BIGINT,
        "first": DataType.DOUBLE,
    }
    assert selected("EACH *") == SOURCE


def test_a_struct_that_is_selected_keeps_its_fields():
    """Under the name that it is selected by."""
    host = {"host": DataType.STRUCT, "host.zone": DataType.STRING}

    assert selected("E1.host") == host
    assert selected("LAST(E1.host) AS host") == host
    assert selected("E1.host.zone") == {"zone": DataType.STRING}


def test_aggregates_have_data_types_of_their_own():
    """A mean of whole numbers is a double."""
    select = "COUNT(E1) AS n, AVG(E1.type) AS mean, SUM(E1.type) AS sum, MAX(E1.cpu) AS top"

    assert selected(select) == {
        "n": DataType.BIGINT,
        "mean": DataType.DOUBLE,
        "sum": DataType.BIGINT,
        "top": DataType.DOUBLE,
    }


def test_of_the_papers_example_it_is_known_what_complex_events_have():
    """Of their events, all that is known is that they are structs."""
    application = load_application(PAPER).application

    schema = operator_columns(application)["w3"]

    assert schema.complete
    assert dict(schema).items() >= COMPLEX.items()
    assert schema["E4"] is DataType.STRUCT
    assert schema["E4.cpu"] is DataType.UNKNOWN
    assert "cpu" not in schema
    assert "E7.cpu" not in schema


def test_structs_whose_fields_are_not_known_stay_open_wherever_they_go():
    """Two levels down, but the complex event between them is known."""
    application = graph("w1: s1 -> A", "w2: w1.A -> B", "w3: w2.B -> C", sinks="w3.C")

    columns = operator_columns(application)["w3"]

    assert columns["E.E.anything"] is DataType.UNKNOWN
    assert columns["E.source"] is DataType.STRING
    assert "E.anything" not in columns


def test_an_unknown_attribute_may_be_a_struct():
    """So its fields are not refused."""
    text = "SELECT FIRST(E.id) AS h WHERE E"

    columns = operator_columns(graph("w1: s1 -> A", "w2: w1.A -> B", text=text))["w2"]

    assert columns["h"] is DataType.UNKNOWN
    assert columns["h.zone"] is DataType.UNKNOWN


def test_an_input_of_which_nothing_is_known_leaves_everything_possible():
    """What is known of the others is still used."""
    application = loaded(("input: [w1.A, w1.B]", "input: [w1.A, w1.B, s1]"))

    columns = operator_columns(application)["w2"]
    assert not columns.complete
    assert columns["source"] is DataType.STRING


def test_an_operator_sees_the_columns_of_all_inputs():
    """An event has null where it has no such column."""
    application = loaded(DECLARED, ("input: [w1.A, w1.B]", "input: [w1.A, s1, w1.B]"))

    assert operator_columns(application)["w2"] == COMPLEX | SOURCE


def test_a_column_of_two_kinds_is_an_error_that_names_both():
    """No condition on it could be understood."""
    text = edited(
        DECLARED, ("SELECT E1.key WHERE E1.type = 2", "SELECT E1.cpu AS key WHERE E1.type = 2")
    )

    with pytest.raises(ApplicationError) as error:
        load_application(text)

    assert str(error.value) == (
        "line 22: operators.w2 reads two columns named 'key': bigint in w1.A and double in "
        "w1.B; give one of them another name"
    )


def test_a_null_fits_any_kind():
    """It has no data type of its own."""
    text = ("SELECT E1.key WHERE E1.type = 2", "SELECT NULL AS key WHERE E1.type = 2")

    schema = operator_columns(loaded(DECLARED, text))["w2"]

    assert schema == {**COMPLEX, "key": DataType.BIGINT}


def test_a_pattern_downstream_is_checked_against_what_is_selected_upstream():
    """The error points into its text."""
    text = edited(DECLARED, ("X.source = 'A'", "X.key = 'A'"))

    with pytest.raises(ApplicationError) as error:
        load_application(text)

    assert (
        str(error.value)
        == """\
line 24: operators.w2.patterns.C, in the text of this pattern:
    line 1, column 24: `=` compares number with number, got bigint and string
    SELECT X.key WHERE AND(X.key = 'A', Y.source = 'B') WITHIN 1 min
                           ^^^^^^^^^^^
    use CAST(... AS bigint) or CAST(... AS double) on the string"""
    )


def test_a_field_of_a_whole_event_is_checked_too():
    """However deep it is."""
    select = ("SELECT E1.key WHERE SEQ", "SELECT E1 WHERE SEQ")
    fields = ("X.source = 'A'", "X.source = 'A' AND X.E1.cpu > 1 AND X.E1.host.zone = 'z'")

    assert loaded(DECLARED, select, ("SELECT X.key", "SELECT X.E1.key"), fields)
    with pytest.raises(ApplicationError, match=r"unknown attribute 'E1\.cpo'"):
        loaded(DECLARED, select, ("X.source = 'A'", "X.E1.cpo = 1"))


def test_events_that_stand_in_events_have_an_end():
    """Each operator doubles the columns; the eleventh would have more than ten thousand."""
    lines = ["w0: s1 -> P0", *(f"w{i}: w{i - 1}.P{i - 1} -> P{i}" for i in range(1, 30))]
    application = graph(*lines, sinks="w29.P29", text="SELECT A, B WHERE SEQ(A, B) WITHIN 1 s")

    with pytest.raises(ApplicationError) as error:
        operator_columns(application)

    assert str(error.value) == (
        "w10.P10 selects more than 10,000 columns, with the fields of whole events; "
        "select single attributes, such as E1.cpu"
    )


def test_schemas_that_were_read_from_data_are_checked_as_declared_ones_are():
    """An engine does so before it starts."""
    application = loaded()
    schema = {"key": DataType.BIGINT, "ts": DataType.BIGINT, "type": DataType.BIGINT}

    known = operator_columns(with_schemas(application, {"s1": schema}))["w1"]
    assert known == schema
    with pytest.raises(ApplicationError) as error:
        with_schemas(application, {"s1": {"key": DataType.BIGINT, "type": DataType.BIGINT}})
    assert (
        str(error.value)
        == """\
sources.s1.time names the unknown column 'ts'; known: key, type
sources.s1.id names the unknown column 'ts'; known: key, type"""
    )


def test_a_declared_schema_is_not_replaced():
    """What the user wrote counts."""
    application = loaded(DECLARED)

    assert with_schemas(application, {"s1": {"key": DataType.STRING}}) == application


def test_columns_are_a_mapping():
    """A schema for the language, but with room for unknown fields."""
    columns = Columns({"a": DataType.STRUCT, "a.b": DataType.BIGINT}, frozenset({"a.c"}))

    assert dict(columns) == {"a": DataType.STRUCT, "a.b": DataType.BIGINT}
    assert len(columns) == 2
    assert columns["a.c.d.e"] is DataType.UNKNOWN
    assert columns.get("a.d") is None
