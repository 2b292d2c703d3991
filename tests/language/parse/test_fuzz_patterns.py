"""Whatever text comes in, a pattern or a LanguageError comes out, and the error has a place."""

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from shedlight.errors import LanguageError
from shedlight.language import (
    Expression,
    ParseResult,
    Schema,
    parse_expression,
    parse_pattern,
)
from shedlight.language.ast.expression import KEYWORDS
from tests.strategies import SCHEMA, patterns

_MARKS = """
( ( ( ) ) ) , , ; . .x .y .select A B E1.x E2.y X kind y `a` `` ` ' 'text' '' " \\ é 😀
0 1 2 0.5 1e9 1e999 99999999999999999999 s sec secs min + - * / % = == <> != < <= > >=
{2} {2,} {2,5} {5,2} {0} {a} { } ? + COUNT( MAX( abs( coalesce( SEQ( AND( NOT(
"""
WORDS = (*sorted(KEYWORDS), *_MARKS.split(), "`a b`", "-- x\n", "\n", "\t", "\0")
"""What a text may be made of, well or badly."""

_LONG = (
    "SELECT EACH x, COUNT(B) AS n WHERE SEQ(A, (B.x + 1 > 2 {2})+, C ?, D) AND A.x > B.x"
    " AND (A.y = B.y OR NOT C.name = 'it''s') WITHIN 0.5 h PARTITION BY key, kind REUSE"
)
TEXTS = (
    _LONG,
    "SELECT E1, E2, E3 WHERE SEQ(E1.type = 0, E2.type = 0, E3.type = 1) WITHIN 10 sec",
    "SELECT * WHERE AND(A.x = 1, NOT(X.name LIKE 'a%'), OR(B, C.y IS NULL)) WITHIN 5 EVENTS",
    "SELECT CASE WHEN A.x IN (1) THEN CAST(A.y AS bigint) ELSE 2 END AS t WHERE A.x --\n= 1",
    "x % 4 DIV 2 = -y AND name NOT LIKE '_' OR coalesce(x, y, 1.5e3) NOT BETWEEN 1 AND 2",
)

Parse = Callable[[str, Schema | None], Expression | ParseResult]
PARSERS: tuple[Parse, ...] = (parse_pattern, parse_expression)


def value_or_error(parse: Parse, text: str, schema: Schema | None) -> object:
    """Read a text; any other exception than the one for users is let through."""
    try:
        found = parse(text, schema)
    except LanguageError as error:
        return error
    return found.pattern if isinstance(found, ParseResult) else found


def require_value_or_error(text: str) -> None:
    """Read a text as a pattern and as an expression, with and without a schema."""
    for parse, schema in product(PARSERS, (None, SCHEMA)):
        found = value_or_error(parse, text, schema)
        if not isinstance(found, LanguageError):
            assert value_or_error(parse, str(found), schema) == found
            continue
        assert type(found) is LanguageError
        assert found.text == text
        assert found.span is not None
        assert 0 <= found.span.start <= found.span.end <= len(text)
        assert found.problem in str(found)


soups = st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join) | st.lists(
    st.sampled_from(WORDS), max_size=10
).map("".join)
wheres = soups.map(lambda soup: f"SELECT * WHERE {soup} WITHIN 10 s")
parts = soups.map(lambda soup: f"SELECT A.x WHERE SEQ(A, {soup}) AND A.x > 1 WITHIN 10 s")


@st.composite
def mutants(draw: DrawFn) -> str:
    """Take a good text, and cut, double, replace or swap some of it."""
    text = draw(st.sampled_from(TEXTS) | patterns().map(str))
    for _ in range(draw(st.integers(1, 4))):
        start, middle, end = sorted(draw(st.integers(0, len(text))) for _ in range(3))
        before, one, other, after = (
            text[:start],
            text[start:middle],
            text[middle:end],
            text[end:],
        )
        text = draw(
            st.sampled_from(
                [
                    before + after,
                    before + other + after,
                    before + other + one + after,
                    before + one + one + other + after,
                    before + draw(st.sampled_from(WORDS)) + other + after,
                    f"{before} {draw(st.sampled_from(WORDS))} {after}",
                ]
            )
        )
    return text


ANY = {
    "text": st.text(max_size=60),
    "words": soups,
    "words where a pattern stands": wheres,
    "words where a part stands": parts,
    "good texts gone bad": mutants(),
}


@pytest.mark.parametrize("kind", ANY)
@settings(max_examples=300)
@given(st.data())
def test_a_text_is_read_or_refused(kind, data):
    """Fifteen hundred texts in all, each read in four ways."""
    require_value_or_error(data.draw(ANY[kind]))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ANY)
@settings(max_examples=20_000)
@given(st.data())
def test_a_hundred_thousand_texts_are_read_or_refused(kind, data):
    """The same for longer."""
    require_value_or_error(data.draw(ANY[kind]))


@pytest.mark.parametrize("text", TEXTS)
def test_every_beginning_of_a_text_is_read_or_refused(text):
    """As someone types it."""
    for end in range(len(text) + 1):
        require_value_or_error(text[:end])
