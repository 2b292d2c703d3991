"""Text -> Pattern: what each form of the language means, and that it can be written back.

The messages about mistakes are in `mistakes.txt`, message by message.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.errors import LanguageError, Span
from shedlight.language import parse_expression, parse_pattern
from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import (
    KEYWORDS,
    Aggregate,
    AggregateFunction,
    Attribute,
    Binary,
    Call,
    Case,
    Cast,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Operator,
    Sign,
    Unary,
    WholeEvent,
)
from shedlight.language.ast.pattern import (
    And,
    Element,
    Item,
    Not,
    Or,
    Part,
    Pattern,
    Repeat,
    Seq,
    Window,
)
from shedlight.language.ast.pattern import WindowUnit as Measure
from shedlight.language.check.normal_form import normalize
from tests.language.expressions import expressions
from tests.strategies import SCHEMA as STREAM
from tests.strategies import patterns

SCHEMA = {
    "type": DataType.BIGINT,
    "cpu": DataType.DOUBLE,
    "event": DataType.STRING,
    "machine_id": DataType.BIGINT,
}


def pattern_of(text: str) -> Pattern:
    """Read a pattern; it must be one that is written back to the same value."""
    found = parse_pattern(text).pattern
    assert parse_pattern(str(found)).pattern == found
    return found


def tree_of(text: str) -> Part:
    """Read the tree of a pattern."""
    return pattern_of(f"SELECT * WHERE {text} WITHIN 10 s").where


def has(variable: str, kind: int) -> Element:
    """Make the element that is written `A.k = 1`."""
    attribute = Attribute(variable, ("k",))
    return Element(variable, Binary(Operator.EQUAL, attribute, Literal(kind)))


A, B, C = has("A", 1), has("B", 2), has("C", 3)
ANY = Element("D")

TREES = {
    "A.k = 1": A,
    "D": ANY,
    "SEQ(A.k = 1, B.k = 2)": Seq((A, B)),
    "seq(A.k = 1; B.k = 2; D)": Seq((A, B, ANY)),
    "AND(A.k = 1, D)": And((A, ANY)),
    "OR(A.k = 1, D)": Or((A, ANY)),
    "SEQ(A.k = 1, NOT(B.k = 2), D)": Seq((A, Not(B), ANY)),
    "SEQ(A.k = 1, not ((B.k = 2)), D)": Seq((A, Not(B), ANY)),
    "SEQ(A.k = 1, NOT(D))": Seq((A, Not(ANY))),
    "AND(NOT(B.k = 2), A.k = 1)": And((Not(B), A)),
    "A.k = 1 {2}": Repeat(A, 2, 2),
    "A.k = 1{2,5}": Repeat(A, 2, 5),
    "A.k = 1 { 2 , }": Repeat(A, 2, None),
    "A.k = 1 +": Repeat(A, 1, None),
    "SEQ(A.k = 1?, D)": Seq((Repeat(A, 0, 1), ANY)),
    "SEQ(A.k = 1+, D+)": Seq((Repeat(A, 1, None), Repeat(ANY, 1, None))),
    "(A.k = 1 {2})+": Repeat(Repeat(A, 2, 2), 1, None),
    "SEQ(A.k = 1, B.k = 2){2}": Repeat(Seq((A, B)), 2, 2),
    "(SEQ(A.k = 1, B.k = 2)) {2}": Repeat(Seq((A, B)), 2, 2),
    "SEQ(A.k = 1, SEQ(B.k = 2, D))": Seq((A, B, ANY)),
    "SEQ(A.k = 1, (SEQ(NOT(B.k = 2), D)))": Seq((A, Not(B), ANY)),
    "SEQ(A.k = 1, SEQ(B.k = 2, D){2})": Seq((A, Repeat(Seq((B, ANY)), 2, 2))),
    "SEQ(AND(A.k = 1, OR(B.k = 2, D)), C.k = 3)": Seq((And((A, Or((B, ANY)))), C)),
    "SEQ(A.k = 1, NOT(B.k = 2), SEQ(C.k = 3, NOT(D)))": Seq((A, Not(B), C, Not(ANY))),
}


@pytest.mark.parametrize("text", TREES)
def test_a_tree_is_read_as_written(text):
    """Blanks, semicolons and parentheses around a part mean nothing."""
    assert tree_of(text) == TREES[text]


X, Y = Attribute("", ("x",)), Attribute("", ("y",))
ONE, TWO = Literal(1), Literal(2)


def binary(operator: str, left: Expression, right: Expression) -> Binary:
    """Join two operands."""
    return Binary(Operator(operator), left, right)


EXPRESSIONS = {
    "x": X,
    "x.y": Attribute("", ("x", "y")),
    "`a b`.`c``d`.select": Attribute("", ("a b", "c`d", "select")),
    "1": ONE,
    "1.0": Literal(1.0),
    ".5e1": Literal(5.0),
    "5.": Literal(5.0),
    "-1": Literal(-1),
    "- -1": ONE,
    "-(1)": Literal(-1),
    "-9223372036854775808": Literal(-(2**63)),
    "00012": Literal(12),
    "'it''s'": Literal("it's"),
    "''": Literal(""),
    "True": Literal(value=True),
    "NULL": Literal(None),
    "-x": Unary(Sign.MINUS, X),
    "-(-x)": Unary(Sign.MINUS, Unary(Sign.MINUS, X)),
    "x - -1": binary("-", X, Literal(-1)),
    "x -1": binary("-", X, ONE),
    "x + y * 2": binary("+", X, binary("*", Y, TWO)),
    "(x + y) * 2": binary("*", binary("+", X, Y), TWO),
    "x - y - 1": binary("-", binary("-", X, Y), ONE),
    "x div y % 2 / 1": binary("/", binary("%", binary("DIV", X, Y), TWO), ONE),
    "x == 1": binary("=", X, ONE),
    "x != 1": binary("<>", X, ONE),
    "x <> 1": binary("<>", X, ONE),
    "x <= 1": binary("<=", X, ONE),
    "x = 1 OR y = 2 AND x < y": binary(
        "OR", binary("=", X, ONE), binary("AND", binary("=", Y, TWO), binary("<", X, Y))
    ),
    "NOT x = 1 AND y = 2": binary(
        "AND", Unary(Sign.NOT, binary("=", X, ONE)), binary("=", Y, TWO)
    ),
    "x IS NULL": IsNull(X),
    "x + 1 is not null": IsNull(binary("+", X, ONE), negated=True),
    "x IN (1, y)": In(X, (ONE, Y)),
    "x NOT IN (1)": In(X, (ONE,), negated=True),
    "x LIKE '%a''_'": Like(X, "%a'_"),
    "x NOT LIKE ''": Like(X, "", negated=True),
    "x BETWEEN 1 AND y + 1": binary(
        "AND", binary(">=", X, ONE), binary("<=", X, binary("+", Y, ONE))
    ),
    "x NOT BETWEEN 1 AND 2": Unary(
        Sign.NOT, binary("AND", binary(">=", X, ONE), binary("<=", X, TWO))
    ),
    "CASE WHEN x = 1 THEN y END": Case(((binary("=", X, ONE), Y),)),
    "CASE WHEN x = 1 THEN 1 WHEN y = 2 THEN 2 ELSE x END": Case(
        ((binary("=", X, ONE), ONE), (binary("=", Y, TWO), TWO)), X
    ),
    "CAST(x + 1 AS Double)": Cast(binary("+", X, ONE), DataType.DOUBLE),
    "COALESCE(x, 1)": Call("coalesce", (X, ONE)),
    "x -- a comment; 'not' text\n + 1": binary("+", X, ONE),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_is_read_as_written(text):
    """Operators bind as in SQL; BETWEEN is two comparisons."""
    found = parse_expression(text)

    assert found == EXPRESSIONS[text]
    assert parse_expression(str(found)) == found


def test_every_clause_is_read():
    """The fuller pattern of docs/design.md, section 13, and then some."""
    found = pattern_of(
        "SELECT E1.machine_id, E3.cpu - E1.cpu AS rise\n"
        "WHERE SEQ(E1.cpu > 0.2, NOT(X.event = 'EVICT'), E2.cpu > 0.4 {2,5}, E3.cpu > 0.8)"
        " AND E3.cpu > E1.cpu * 2\n"
        "WITHIN 10 min PARTITION BY machine_id, place.`zip code` REUSE"
    )

    cpu = {name: Attribute(name, ("cpu",)) for name in ("E1", "E2", "E3")}
    event = Attribute("X", ("event",))
    assert found == Pattern(
        select=(
            Item(Attribute("E1", ("machine_id",)), "machine_id"),
            Item(binary("-", cpu["E3"], cpu["E1"]), "rise"),
        ),
        where=Seq(
            (
                Element("E1", binary(">", cpu["E1"], Literal(0.2))),
                Not(Element("X", binary("=", event, Literal("EVICT")))),
                Repeat(Element("E2", binary(">", cpu["E2"], Literal(0.4))), 2, 5),
                Element("E3", binary(">", cpu["E3"], Literal(0.8))),
            )
        ),
        conditions=(binary(">", cpu["E3"], binary("*", cpu["E1"], TWO)),),
        within=Window(600_000_000),
        partition_by=(Attribute("", ("machine_id",)), Attribute("", ("place", "zip code"))),
        reuse=True,
    )


PAPER = {
    "Q11": "SELECT E1, E2, E3 WHERE SEQ(E1.type = 0, E2.type = 0, E3.type = 1) WITHIN 10 sec",
    "Q12": "SELECT E1, E2, E3 WHERE AND(E1.type = 1, E2.type = 2, E3.type = 3) WITHIN 10 sec",
    "Q21": "SELECT E4, E5, E6 WHERE SEQ(E4.type = 0, E5.type = 0, E6.type = 1) WITHIN 10 sec",
    "Q22": "SELECT E4, E5, E6 WHERE AND(E4.type = 1, E5.type = 2, E6.type = 3) WITHIN 10 sec",
    "Q31": "SELECT CE1, CE2 WHERE AND(CE1.source = 'Q11', CE2.source = 'Q21') WITHIN 10 sec",
    "Q41": "SELECT CE1, CE2 WHERE AND(CE1.source = 'Q12', CE2.source = 'Q22') WITHIN 10 sec",
}


@pytest.mark.parametrize("name", PAPER)
def test_the_queries_of_the_paper_are_read(name):
    """Its listings differ a little from one another; these are docs/design.md, section 13."""
    assert str(pattern_of(PAPER[name])) == PAPER[name].removesuffix("ec")
    assert parse_pattern(PAPER[name]).warnings == ()


def test_the_semicolons_and_capitals_of_the_paper_are_read():
    """As its listings have them."""
    text = "Select E1, E2, E3\n\tWhere Seq(E1.type=0; E2.type=0; E3.type=1)\n\tWithin 10 sec"

    assert parse_pattern(text) == parse_pattern(PAPER["Q11"])


WINDOWS = {
    "1 us": Window(1),
    "2 ms": Window(2_000),
    "10sec": Window(10_000_000),
    "0.5 s": Window(500_000),
    "1e3 Seconds": Window(1_000_000_000),
    "1 second": Window(1_000_000),
    "1.5 min": Window(90_000_000),
    "2 minutes": Window(120_000_000),
    "1 h": Window(3_600_000_000),
    "2 hours": Window(7_200_000_000),
    "1 day": Window(86_400_000_000),
    ".5 d": Window(43_200_000_000),
    "1 event": Window(1, Measure.EVENTS),
    "20 Events": Window(20, Measure.EVENTS),
}


@pytest.mark.parametrize("text", WINDOWS)
def test_a_window_is_read_in_its_unit(text):
    """Fractions are fine where whole microseconds come out."""
    assert pattern_of(f"SELECT * WHERE SEQ(A, B) WITHIN {text}").within == WINDOWS[text]


def test_after_a_dot_any_word_is_an_attribute():
    """Streams have columns with names like these."""
    found = pattern_of("SELECT E1.type, E1 . select WHERE E1.events = E1.where.`is`")

    assert found.where == Element(
        "E1", binary("=", Attribute("E1", ("events",)), Attribute("E1", ("where", "is")))
    )
    assert found.select == (
        Item(Attribute("E1", ("type",)), "type"),
        Item(Attribute("E1", ("select",)), "select"),
    )


@pytest.mark.parametrize("keyword", sorted(KEYWORDS))
def test_in_backquotes_a_keyword_is_a_name(keyword):
    """So that any column and any variable can be named."""
    found = pattern_of(f"SELECT `{keyword}` AS whole WHERE `{keyword}`.{keyword} > 1")

    condition = binary(">", Attribute(keyword, (keyword,)), ONE)
    assert found.where == Element(keyword, condition)


def test_what_is_selected_is_named():
    """By AS, else by the last name of an attribute or by the variable."""
    found = pattern_of(
        "SELECT A, A.x.y, B.x AS second, 1 AS one, COUNT(B) AS n, max(B.x) - A.x AS rise"
        " WHERE SEQ(A, B+, C) WITHIN 1 h"
    )

    rise = binary("-", Aggregate(AggregateFunction.MAX, "B", ("x",)), Attribute("A", ("x",)))
    assert found.select == (
        Item(WholeEvent("A"), "A"),
        Item(Attribute("A", ("x", "y")), "y"),
        Item(Attribute("B", ("x",)), "second"),
        Item(ONE, "one"),
        Item(Aggregate(AggregateFunction.COUNT, "B"), "n"),
        Item(rise, "rise"),
    )


def test_everything_is_selected_as_nothing_in_particular():
    """Each variable as a whole event."""
    assert pattern_of("SELECT * WHERE A").select == ()


def test_with_each_a_name_without_variable_is_of_each_event():
    """A name that is a variable stays one."""
    found = pattern_of("SELECT EACH cpu, place.zip, A.x, A WHERE SEQ(A, B) WITHIN 1 h")

    assert found.each
    assert [item.expression for item in found.select] == [
        Attribute("", ("cpu",)),
        Attribute("", ("place", "zip")),
        Attribute("A", ("x",)),
        WholeEvent("A"),
    ]


CONDITIONS = "SELECT * WHERE SEQ(A.k = 1, NOT(B.k = 2), C+, D) AND {} WITHIN 1 h"


def test_a_condition_on_one_variable_is_part_of_its_element():
    """Also of one under NOT."""
    found = pattern_of(CONDITIONS.format("A.x = 1 AND B.x = 2 AND C.x = 3 AND A.y = 4"))

    assert str(found.where) == (
        "SEQ(A.k = 1 AND A.x = 1 AND A.y = 4, NOT(B.k = 2 AND B.x = 2), C.x = 3 +, D)"
    )
    assert found.conditions == ()


def test_conditions_across_variables_stand_one_by_one():
    """A conjunction is as many conditions."""
    found = pattern_of(
        CONDITIONS.format(
            "(A.x > D.x AND A.y = 1) AND (A.x = D.x OR C.x = 2) AND NOT A.z = B.z"
        )
    )

    assert str(found.where) == "SEQ(A.k = 1 AND A.y = 1, NOT(B.k = 2), C +, D)"
    assert list(map(str, found.conditions)) == [
        "A.x > D.x",
        "A.x = D.x OR C.x = 2",
        "NOT A.z = B.z",
    ]


def test_between_across_variables_is_two_conditions():
    """Each can be checked as soon as it can."""
    found = pattern_of("SELECT * WHERE SEQ(A, B, C) AND B.x BETWEEN A.x AND C.x WITHIN 1 h")

    assert list(map(str, found.conditions)) == ["B.x >= A.x", "B.x <= C.x"]


SAME_CONDITION = (
    "SEQ(D, A.x = 1 AND A.y = 2)",
    "SEQ(D, (A.x = 1 AND A.y = 2))",
    "SEQ(D, A.x = 1) AND A.y = 2",
    "SEQ(D, A.x = 1) AND (A.y = 2)",
    "SEQ(D, A) AND A.x = 1 AND A.y = 2",
    "SEQ(D, A) AND (A.x = 1 AND A.y = 2)",
)


@pytest.mark.parametrize("text", SAME_CONDITION)
def test_there_are_several_ways_to_say_the_same(text):
    """All give the same value."""
    assert tree_of(text) == tree_of(SAME_CONDITION[0])


def test_a_single_element_is_a_pattern():
    """It needs no window."""
    found = pattern_of("SELECT E1 WHERE E1.cpu > 0.9 OR E1.type = 1 AND E1.cpu > 0.5")

    assert str(found.where) == "E1.cpu > 0.9 OR E1.type = 1 AND E1.cpu > 0.5"
    assert found.within is None


@pytest.mark.parametrize("text", ["A.x = 1 AND A.y = 2 {2}", "(A.x = 1 AND A.y = 2) {2}"])
@pytest.mark.parametrize("place", ["{}", "SEQ({}, D)", "OR(SEQ(D, {}), E)"])
def test_a_repetition_is_of_the_whole_condition(place, text):
    """It can be about nothing else."""
    assert "(A.x = 1 AND A.y = 2) {2}" in str(tree_of(place.format(text)))


def test_a_condition_that_starts_with_not_stands_in_parentheses():
    """Without them, NOT(...) is an event that must not come."""
    for text in ("(NOT A.x = 1)", "(NOT (A.x = 1 OR A.y = 2))", "A.x NOT BETWEEN 1 AND 2"):
        found = tree_of(f"SEQ(D, {text}, E)")

        assert isinstance(found, Seq)
        assert isinstance(found.parts[1], Element)


PLUSES = {
    "A.x = 1 + 2": "A.x = 1 + 2",
    "A.x = 1 +2": "A.x = 1 + 2",
    "A.x = 1 +": "A.x = 1 +",
    "A.x = 1 + -- as often as it likes\n": "A.x = 1 +",
    "SEQ(A.x = 1 + -- one\n 2 +, B + ;C)": "SEQ(A.x = 1 + 2 +, B +, C)",
    "ANDY.x = 1 + ANDY.y": "ANDY.x = 1 + ANDY.y",
    "(A +) + AND A.x = 1": "(A.x = 1 +)+",
    "A.x + (A.y) = 1": "A.x + A.y = 1",
}


@pytest.mark.parametrize("text", PLUSES)
def test_a_plus_sign_repeats_where_no_operand_follows(text):
    """Comments do not matter, nor names like ANDY."""
    assert str(tree_of(text)) == PLUSES[text]


def test_a_semicolon_may_end_a_pattern():
    """As in SQL; one in a text or a comment is what it is."""
    plain = "SELECT A WHERE A.x = 'b; -- c'"

    for text in (f"{plain};", f"{plain} ; -- done;\n"):
        assert parse_pattern(text) == parse_pattern(plain)
    with pytest.raises(LanguageError, match="unexpected ';'"):
        parse_pattern(f"{plain};;")


def mistakes() -> list[str]:
    """List the messages of `mistakes.txt`."""
    text = (Path(__file__).parents[1] / "mistakes.txt").read_text("utf-8")
    return [block for block in text.split("\n\n") if not block.startswith("#")]


@pytest.mark.parametrize("message", mistakes(), ids=lambda message: message.splitlines()[1])
def test_a_mistake_is_explained(message):
    """The whole message, as the user sees it."""
    text = message.splitlines()[1]
    is_pattern = text.startswith(("SELECT", "SELCT"))

    with pytest.raises(LanguageError) as caught:
        (parse_pattern if is_pattern else parse_expression)(text, SCHEMA)

    assert str(caught.value) == message.removesuffix("\n")


def test_an_error_points_into_a_text_of_several_lines():
    """A tab in the text is one in the margin."""
    text = "-- rising\nSELECT A\nWHERE SEQ(A.type = 0,\n\tB.type = 'x')\nWITHIN 10 s"

    with pytest.raises(LanguageError) as caught:
        parse_pattern(text, SCHEMA)

    assert caught.value.text == text
    assert caught.value.span == Span(text.index("B.type"), text.index(")\nWITHIN"))
    assert str(caught.value).splitlines()[:3] == [
        "line 4, column 2: `=` compares number with number, got bigint and string",
        "\tB.type = 'x')",
        "\t^^^^^^^^^^^^",
    ]


def test_an_error_points_at_the_very_place_of_a_node():
    """The two operands are equal; only the second stands where text is asked for."""
    text = "SELECT A WHERE A.cpu > 1 AND lower(A.cpu) = 'x'"

    with pytest.raises(LanguageError) as caught:
        parse_pattern(text, SCHEMA)

    assert caught.value.span == Span(text.rindex("A.cpu"), text.rindex(")"))


def test_without_a_schema_attributes_are_not_checked():
    """They may be anything."""
    text = "SELECT A.what WHERE A.ever > 1 PARTITION BY nobody"
    with pytest.raises(LanguageError):
        parse_pattern(text, SCHEMA)
    assert str(parse_pattern(text).pattern.partition_by[0]) == "nobody"
    assert str(parse_expression("what + ever")) == "what + ever"


TOO_MUCH = {
    "parentheses": "(" * 100_000,
    "closed parentheses": "(" * 100_000 + "1" + ")" * 100_000,
    "signs": "- " * 5_000 + "x",
    "nots": "NOT " * 5_000 + "x",
    "a sum": "x + " * 5_000 + "x",
    "conditions": "x = 1 OR " * 2_000 + "x = 2",
    "cases": "CASE WHEN " * 2_000 + "x" + " THEN 1 END" * 2_000,
    "calls": "abs(" * 2_000 + "x" + ")" * 2_000,
    "what BETWEEN doubles": "(" * 40 + "x" + " BETWEEN 1 AND 2)" * 40,
    "digits": "9" * 100_000,
    "decimals": "1" * 100_000 + ".5",
    "characters": "x" * 1_000_001,
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_what_is_too_much_is_refused(what):
    """Never by a RecursionError, nor by work that does not end."""
    text = TOO_MUCH[what]
    with pytest.raises(LanguageError):
        parse_expression(text)
    text = text.replace("x", "B.x")
    for pattern in (
        f"SELECT * WHERE SEQ(A, {text}) WITHIN 1 s",
        f"SELECT * WHERE SEQ(A, B) AND {text} > A.x WITHIN 1 s",
        f"SELECT {text} WHERE B.x > 1",
        f"SELECT {text} AS y WHERE B.x > 1",
    ):
        with pytest.raises(LanguageError):
            parse_pattern(pattern)


def test_parts_of_a_pattern_have_caps_too():
    """Parentheses and elements are counted."""
    nested = "OR(" * 60 + "A" + ")" * 60
    many = ", ".join(f"E{number}" for number in range(1_001))

    for tree in (nested, f"SEQ({many})"):
        with pytest.raises(LanguageError, match=r"more than 50|at most 1,000"):
            parse_pattern(f"SELECT * WHERE {tree} WITHIN 1 s")


def test_what_is_just_not_too_much_is_read():
    """The caps are where they say they are."""
    assert str(parse_expression("(" * 150 + "x" + ")" * 150)) == "x"
    assert str(parse_expression("x + " * 99 + "x")).count("+") == 99
    options = ", ".join(map(str, range(5_000)))
    assert len(str(parse_expression(f"x IN ({options})"))) > 20_000
    conditions = " AND ".join(["A.x > B.x"] * 500)
    assert len(pattern_of(f"SELECT * WHERE SEQ(A, B) AND {conditions} WITHIN 1 s").conditions)


COLUMNS = {
    "flag": DataType.BOOLEAN,
    "n": DataType.BIGINT,
    "x": DataType.DOUBLE,
    "s": DataType.STRING,
    "at": DataType.TIMESTAMP,
    "place": DataType.STRUCT,
    "place.zip": DataType.STRING,
}


@given(
    st.sampled_from(list(DataType)[:5]).flatmap(
        lambda data_type: expressions(data_type, COLUMNS)
    )
)
def test_expressions_are_written_as_they_are_read(expression):
    """Of every operator, function and data type."""
    assert parse_expression(str(expression), COLUMNS) == expression


@pytest.mark.parametrize("start", ["1 - (", "-(", "NOT (", "abs(", "CASE WHEN ", "x IN ("])
def test_the_deepest_expressions_are_written_as_they_are_read(start):
    """They need more parentheses than parts of a pattern may nest."""
    end = " THEN TRUE END" if start.startswith("CASE") else ")" * start.count("(")

    found = parse_expression(start * 99 + "x" + end * 99)

    assert parse_expression(str(found)) == found
    with pytest.raises(LanguageError, match="more than 100 operators"):
        parse_expression(start * 101 + "x" + end * 101)


@given(patterns())
def test_patterns_are_written_as_they_are_read(pattern):
    """The value is in its normal form after one reading."""
    where, conditions = normalize(pattern.where, pattern.conditions)

    found = parse_pattern(str(pattern), STREAM).pattern

    assert found == replace(pattern, where=where, conditions=conditions)
    assert parse_pattern(str(found), STREAM).pattern == found


names = st.text(min_size=1, max_size=5) | st.sampled_from(sorted(KEYWORDS)) | st.just("a`b``")


@given(names, st.lists(names, min_size=1, max_size=3).map(tuple), names)
def test_any_name_can_be_written(variable, path, other):
    """Blanks, quotes, keywords and other alphabets included."""
    condition = binary("=", Attribute(variable, path), Literal(other))
    pattern = Pattern(
        select=(Item(Attribute(variable, path), f"{other}!"),),
        where=Element(variable, condition),
        partition_by=(Attribute("", (f"{variable}!", other)),),
    )

    assert parse_pattern(str(pattern)).pattern == pattern


@given(
    expressions(DataType.BOOLEAN, {"flag": DataType.BOOLEAN}),
    st.sampled_from(["?", "+", "{2,3}"]),
)
def test_any_condition_can_be_that_of_an_element(condition, times):
    """Also one that starts with NOT, or that could be taken for a pattern."""
    own = Binary(Operator.AND, condition, Attribute("", ("flag",)))
    for row in (own, Unary(Sign.NOT, own), Unary(Sign.NOT, Attribute("", ("flag",)))):
        text = str(row).replace("flag", "A.flag")
        found = parse_pattern(f"SELECT * WHERE SEQ(({text}) {times}, D) WITHIN 1 s").pattern

        assert parse_pattern(str(found)).pattern == found
        assert text in str(found)
