"""The rules for patterns that were made by hand, and what the cautions say.

How mistakes in a text are explained is tested in `test_patterns.py`.
"""

import re
from functools import reduce

import pytest
from hypothesis import given

from shedlight.errors import LanguageError, RuleError
from shedlight.language import DataType, parse_pattern
from shedlight.language.ast.expression import (
    Aggregate,
    AggregateFunction,
    Attribute,
    Binary,
    Call,
    Case,
    Expression,
    IsNull,
    Literal,
    Operator,
    WholeEvent,
)
from shedlight.language.ast.pattern import (
    Element,
    Item,
    Not,
    Or,
    Part,
    Pattern,
    Repeat,
    Seq,
    Window,
    elements,
)
from shedlight.language.check.expr_types import DataTypeError
from shedlight.language.check.normal_form import max_events, min_events, normalize
from shedlight.language.check.rules import check, check_row
from shedlight.language.functions import FUNCTIONS
from shedlight.matching.compile.guards import build_programs
from tests.strategies import SCHEMA, can_be_empty, patterns

HOUR = Window(3_600_000_000)
A, B, C = Element("A"), Element("B"), Element("C")


def above(variable: str, limit: Expression = Literal(0)) -> Binary:  # noqa: B008 - a value
    """Make the condition that is written `A.x > 0`."""
    return Binary(Operator.GREATER, Attribute(variable, ("x",)), limit)


def pattern(where: Part, *selected: Expression, **clauses: object) -> Pattern:
    """Make a pattern by hand, with names for what is selected."""
    items = tuple(Item(expression, f"s{n}") for n, expression in enumerate(selected))
    return Pattern(select=items, where=where, within=HOUR, **clauses)  # type: ignore[arg-type]


def nested(levels: int) -> Part:
    """Put an element into so many ORs."""
    start: Part = A
    return reduce(lambda part, _: Or((part,)), range(levels), start)


def added(levels: int) -> Expression:
    """Add so many ones to an attribute."""
    start: Expression = Attribute("A", ("x",))
    return reduce(lambda sum_, _: Binary(Operator.ADD, sum_, Literal(1)), range(levels), start)


def doubled(levels: int) -> Expression:
    """Add an expression to itself again and again: a small value, but a large tree."""
    start: Expression = Attribute("A", ("x",))
    return reduce(lambda sum_, _: Binary(Operator.ADD, sum_, sum_), range(levels), start)


OF_EACH = Attribute("", ("A", "x"))

BROKEN = {
    "this group has no parts": pattern(Seq((A, Or(())))),
    "a part repeated 0 times is never there": pattern(Seq((A, Repeat(B, -1, 3)))),
    "the condition of 'A' is about another variable": pattern(Element("A", above("B"))),
    "'x' needs a variable before it": pattern(Element("A", above(""))),
    "'x' is of no event": pattern(A, Attribute("", ("x",))),
    "'A' is a variable and a column": pattern(A, OF_EACH, each=True),
    "PARTITION BY is about every event": pattern(A, partition_by=(Attribute("A", ("x",)),)),
    "NOT has nothing before it": pattern(Seq((Seq((Not(A), B)), C))),
    "more than 50 parts": pattern(nested(5_000)),
    "more than 100 operators": pattern(Element("A", above("A", added(5_000)))),
    "at most 200,000 values": pattern(Element("A", above("A", doubled(90)))),
    "unknown function 'nope'": pattern(A, Call("nope", ())),
    "MAX can only be selected": pattern(
        Seq((A, B)), conditions=(above("B", Aggregate(AggregateFunction.MAX, "A", ("x",))),)
    ),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_a_broken_rule_is_named(problem):
    """These come from Python; from text, most of them cannot be made."""
    with pytest.raises((RuleError, DataTypeError)) as caught:
        check(BROKEN[problem])

    assert problem in str(caught.value)


def test_an_error_keeps_the_very_node():
    """Two equal nodes stand in different places of a text."""
    first, second = above("A", Literal("a")), above("B", Literal("b"))
    broken = pattern(Seq((Element("A", first), Element("B", second))))

    with pytest.raises(DataTypeError) as caught:
        check(broken, {"x": DataType.BIGINT})

    assert caught.value.node is first


@given(patterns())
def test_legal_patterns_keep_to_the_rules(drawn):
    """What the tests of matching draw is legal, also before it is in its normal form."""
    check(drawn, SCHEMA)


def test_the_normal_form_flattens_and_folds():
    """What is about several variables, or about unknown ones, stays apart from the tree."""
    both = Binary(Operator.AND, above("A"), above("B", Attribute("A", ("x",))))

    where, conditions = normalize(Seq((A, Seq((Not(B), C)))), [both, above("B"), above("Z")])

    assert where == Seq((Element("A", above("A")), Not(Element("B", above("B"))), C))
    assert conditions == (above("B", Attribute("A", ("x",))), above("Z"))


LENGTHS = {
    "A": (1, 1),
    "SEQ(A, NOT(X), B)": (2, 2),
    "AND(A, B, C)": (3, 3),
    "OR(A, SEQ(B, C))": (1, 2),
    "SEQ(A {2,5}, B ?)": (2, 6),
    "SEQ(OR(A ?, SEQ(B, C)) {2}, D)": (1, 5),
    "(SEQ(A, B)) {3,}": (6, float("inf")),
}


@pytest.mark.parametrize("text", LENGTHS)
def test_words_have_a_shortest_and_a_longest(text):
    """NOT takes no events."""
    where = parse_pattern(f"SELECT * WHERE {text} WITHIN 1 s").pattern.where

    assert (min_events(where), max_events(where)) == LENGTHS[text]


@given(patterns())
def test_the_shortest_word_of_a_part_is_empty_iff_it_can_be(drawn):
    """The reference says so in another way."""
    for part in drawn.where.parts if isinstance(drawn.where, Seq) else (drawn.where,):
        assert (min_events(part) == 0) == can_be_empty(part)


def test_rows_know_no_variables():
    """A derived column is about one row alone."""
    for expression in (
        Attribute("A", ("x",)),
        WholeEvent("A"),
        Aggregate(AggregateFunction.COUNT, "A"),
    ):
        with pytest.raises(RuleError, match="has no meaning for one row alone"):
            check_row(expression)
    assert check_row(Attribute("", ("x",)), {"x": DataType.DOUBLE}) is DataType.DOUBLE


DATA_TYPES = {
    Aggregate(AggregateFunction.COUNT, "A", ("name",)): None,
    Aggregate(AggregateFunction.MAX, "A", ("name",)): None,
    Aggregate(AggregateFunction.SUM, "A", ("x",)): None,
    Aggregate(AggregateFunction.SUM, "A", ("name",)): "SUM is of numbers, got string",
    Aggregate(AggregateFunction.AVG, "A", ("name",)): "AVG is of numbers, got string",
    Aggregate(AggregateFunction.MIN, "A", ("place",)): "MIN is of values, got struct",
    Aggregate(AggregateFunction.LAST, "A", ("place",)): None,
    Call("lower", (Aggregate(AggregateFunction.AVG, "A", ("x",)),)): "got double",
    Call("lower", (Aggregate(AggregateFunction.FIRST, "A", ("name",)),)): None,
}


@pytest.mark.parametrize("expression", DATA_TYPES, ids=str)
def test_aggregates_have_data_types(expression):
    """Sums and means are of numbers, the largest is of what has an order."""
    problem = DATA_TYPES[expression]
    schema = {**SCHEMA, "place": DataType.STRUCT}

    if problem is None:
        check(pattern(A, expression), schema)
    else:
        with pytest.raises(LanguageError, match=problem):
            check(pattern(A, expression), schema)


CONSTANT = "this constant"
ACROSS = {
    "length(A.name) + B.x > 1": None,
    "A.x > B.x + length('abc')": None,
    "A.name LIKE 'a%' AND B.x > 1 OR A.x = 1": None,
    "CAST(A.x AS string) = B.name": None,
    "CAST(A.x + B.x AS double) > 1": None,
    "coalesce(A.x, B.x, abs(A.x), 0) > least(1, A.x - B.x)": None,
    "greatest(A.x, B.x) IN (1, nullif(A.x, B.x))": None,
    "if(A.x > B.x, A.name, B.name) = 'a'": None,
    "CASE WHEN A.x > B.x THEN A.x END IS NULL": None,
    "concat(A.name, B.name) = 'ab'": "`concat`",
    "1 + sqrt(A.x * B.x) > 1": "`sqrt`",
    "floor(A.y - B.y) = 1": "`floor`",
    "if(A.x > B.x, A.name, B.name) LIKE 'a%'": "`LIKE`",
    "CAST(A.y + B.y AS bigint) > 1": "`CAST AS bigint`",
    "CAST(A.x + B.x AS string) = '1'": "`CAST AS string`",
    "CAST(coalesce(A.name, B.name) AS double) > 1": "`CAST AS double`",
    "A.x + B.x > length('abc')": CONSTANT,
    "A.x + B.x > 1 + CAST('5' AS double)": CONSTANT,
    "A.x + B.x > abs(-1)": CONSTANT,
}


@pytest.mark.parametrize("condition", ACROSS)
def test_events_are_combined_by_what_a_matcher_can_do(condition):
    """The operator agrees: what passes here can be built."""
    text = f"SELECT A WHERE SEQ(A, B) AND ({condition}) WITHIN 1 s"
    refused = ACROSS[condition]

    if refused is None:
        made = parse_pattern(text, SCHEMA).pattern
        numbers = {"A": 0, "B": 1}
        assert build_programs(made.conditions, numbers, lambda node: SCHEMA[node.column])  # type: ignore[attr-defined]
    else:
        with pytest.raises(LanguageError) as caught:
            parse_pattern(text, SCHEMA)
        assert caught.value.problem.startswith(f"{refused} cannot be ")
        assert caught.value.problem.endswith("across events")


def of_either(data_type: DataType) -> Expression:
    """Make a value of a data type that depends on two events."""
    one, other = Attribute("A", (str(data_type),)), Attribute("B", (str(data_type),))
    return Case(((IsNull(one), other),), one)


_CONSTANTS = {"get_json_object": "$.a", "regexp_like": "a+", "to_timestamp": "yyyy"}


def _argument(data_type: DataType) -> Expression:
    """Make an argument; arrays are of one event, as there is nothing to combine them by."""
    return Attribute("A", (str(data_type),)) if data_type.element else of_either(data_type)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_operator_knows_the_functions_that_are_allowed_across_events(name):
    """What is refused here cannot be built there, and the other way round."""
    parameters = FUNCTIONS[name].parameters
    data_types = [min(allowed, key=str) for allowed in (*parameters, *parameters)]
    data_types = data_types if FUNCTIONS[name].repeats else data_types[: len(parameters)]
    arguments = [_argument(data_type) for data_type in data_types]
    if name in _CONSTANTS:
        arguments[-1] = Literal(_CONSTANTS[name])
    condition = IsNull(Call(name, tuple(arguments)))
    schema = {str(data_type): data_type for data_type in DataType}

    try:
        build_programs((condition,), {"A": 0, "B": 1}, lambda node: schema[node.column])  # type: ignore[attr-defined]
    except DataTypeError:
        with pytest.raises(RuleError, match=f"`{name}` cannot be used across events"):
            check(pattern(Seq((A, B)), conditions=(condition,)), schema)
    else:
        check(pattern(Seq((A, B)), conditions=(condition,)), schema)


ENDS = "this repetition ends the pattern, so it is never taken"
NEVER = "this condition is never checked:"
NULL = "a comparison with NULL is never true"
SAME = "this alternative is the same as one before it, so it is never taken"
ALONE = "this AND takes one event, so this NOT is never watched"
UNWATCHED = "what follows this NOT may be left out, so it is never watched"

CAUTIONS = {
    "SEQ(A, B)": [],
    "SEQ(A+, B)": [],
    "SEQ(A, B+)": [(f"{ENDS} more than once", "+")],
    "SEQ(A, B ?)": [(f"{ENDS} at all", "?")],
    "SEQ(A, B {2,4})": [(f"{ENDS} more than twice", "{2,4}")],
    "SEQ(A, B {3,})": [(f"{ENDS} more than 3 times", "{3,}")],
    "SEQ(A, B {3})": [],
    "SEQ(A, B ?, C {0,2})": [(f"{ENDS} at all", "{0,2}"), (f"{ENDS} at all", "?")],
    "SEQ(A, B+, NOT(C))": [],
    "SEQ(A, SEQ(B, C+){1})": [(f"{ENDS} more than once", "+")],
    "SEQ(A, C+){2}": [],
    "OR(A, SEQ(B, C+))": [(f"{ENDS} more than once", "+")],
    "AND(A+, B)": [],
    "AND(A+)": [(f"{ENDS} more than once", "+")],
    "SEQ(A, NOT(X), B ?)": [(f"{ENDS} at all", "?"), (UNWATCHED, "NOT(X)")],
    "SEQ(A, NOT(X), B ?, C)": [],
    "SEQ(A, NOT(X), B ?, NOT(Y))": [],
    "OR(A.x = 1, B.x = 2, C.x = 1)": [(SAME, "C.x = 1")],
    "OR(A.x = 1, B.x = 1 {2})": [],
    "OR(SEQ(A, NOT(X.x = 1), B), SEQ(C, NOT(Y.x = 1), D))": [(SAME, "SEQ(C, NOT(Y.x = 1), D)")],
    "SEQ(OR(A, B), C) AND B.x > C.x": [],
    "A.x = NULL": [(NULL, "A.x = NULL")],
    "SEQ(A, B) AND (A.x = B.x OR NULL <> B.y)": [(NULL, "NULL <> B.y")],
    "A.x IS NULL": [],
    "AND(A, NOT(X))": [(ALONE, "NOT(X)")],
    "SEQ(AND(NOT(X), A ?, NOT(Y)), B)": [(ALONE, "NOT(X)"), (ALONE, "NOT(Y)")],
    "SEQ(AND(OR(A, B.x = 1), NOT(X)){2}, C)": [(ALONE, "NOT(X)")],
    "AND(SEQ(A, B), NOT(X))": [],
    "SEQ(AND(A+, NOT(X)), B)": [],
    "AND(A+, NOT(X))": [(f"{ENDS} more than once", "+")],
    "AND(A, B ?, NOT(X))": [],
    "SEQ(OR(A.x = 1, B), C) AND A.x > B.x": [
        (f"{NEVER} 'A' and 'B' are in different alternatives of an OR", "A.x > B.x")
    ],
    "SEQ(OR(A.x = 1, B){2}, C) AND A.x > B.x": [],
    "SEQ(OR(A.x = 1, B), C) AND A.x > C.x": [],
    "SEQ(A, NOT(X), B) AND X.x = A.x": [],
    "SEQ(A, NOT(X), B) AND X.x = B.x": [
        (f"{NEVER} 'B' has no event yet where 'X' is watched", "X.x = B.x")
    ],
    "SEQ((SEQ(A, NOT(X), B)) {2}, C) AND X.x = B.x": [],
    "AND(A, NOT(X), B) AND X.x = B.x": [],
    "SEQ(A, NOT(X), NOT(Y), B) AND X.x = Y.x": [
        (f"{NEVER} both 'X' and 'Y' are under NOT", "X.x = Y.x")
    ],
}


@pytest.mark.parametrize("text", CAUTIONS)
def test_what_cannot_mean_what_it_seems_is_pointed_out(text):
    """With the place; an empty list is what is fine."""
    text = f"SELECT 1 AS one WHERE {text} WITHIN 10 s"
    expected = CAUTIONS[
        text.removeprefix("SELECT 1 AS one WHERE ").removesuffix(" WITHIN 10 s")
    ]

    found = parse_pattern(text).warnings

    spans = [caution.span for caution in found if caution.span]
    assert [caution.problem for caution in found] == [problem for problem, _ in expected]
    assert [text[span.start : span.end] for span in spans] == [where for _, where in expected]


def test_a_window_of_too_few_events_is_pointed_out():
    """The first event of a match counts, too."""
    text = "SELECT A WHERE SEQ(A, OR(B.x = 1, C) {2}, D ?, E) WITHIN {} EVENTS"

    (caution,) = parse_pattern(text.replace("{}", "3")).warnings

    assert str(caution).splitlines() == [
        "line 1, column 51: a match has at least 4 events, so there is none in this window",
        "SELECT A WHERE SEQ(A, OR(B.x = 1, C) {2}, D ?, E) WITHIN 3 EVENTS",
        "                                                  ^^^^^^^^^^^^^^^",
        "make it 4 EVENTS or longer",
    ]
    assert parse_pattern(text.replace("{}", "4")).warnings == ()


def test_a_caution_reads_like_an_error():
    """For the terminal."""
    (caution,) = parse_pattern("SELECT A WHERE SEQ(A, B+) WITHIN 1 s").warnings

    assert str(caution).splitlines() == [
        f"line 1, column 24: {ENDS} more than once",
        "SELECT A WHERE SEQ(A, B+) WITHIN 1 s",
        "                       ^",
        "a match is complete as soon as it can be; put a part after it",
    ]


def test_cautions_of_a_pattern_made_by_hand_have_the_node():
    """There is no text to point into."""
    made = pattern(Seq((A, Repeat(B, 1, None))))

    (caution,) = check(made)

    assert caution.node is made.where.parts[1]  # type: ignore[attr-defined]
    assert caution.span is None
    assert len(elements(made.where)) == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT a WHERE a.m = 'x'", "got an unsupported data type and string"),
        (
            "SELECT a WHERE length(a.m) > 1",
            "`length` takes string, got an unsupported data type",
        ),
        (
            "SELECT a WHERE SEQ(a.n = 1, b.n = 2) WITHIN 1 s PARTITION BY m",
            "a key is one value, 'm' is an unsupported data type",
        ),
        (
            "SELECT MAX(a.m) AS x WHERE SEQ(a.n = 1 +, b.n = 2) WITHIN 1 s",
            "MAX is of values, got an unsupported data type",
        ),
    ],
)
def test_a_column_that_cannot_be_used_is_not_called_unknown(text, problem):
    """It is there, and can be selected and tested for null."""
    schema = {"m": DataType.OTHER, "n": DataType.BIGINT}

    with pytest.raises(LanguageError, match=re.escape(problem)):
        parse_pattern(text, schema)
    parse_pattern("SELECT a.m WHERE a.m IS NOT NULL", schema)
