"""Regular expressions that two engines read alike, paths and formats: what is refused."""

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.language.ast.data_type import DataType
from shedlight.language.eval.column import Column, constant_column, to_column
from shedlight.language.eval.texts import is_matched
from shedlight.language.json_path import parse_json_path
from shedlight.language.regex import common_regex
from shedlight.language.time_format import rewrite_format
from tests.language.expressions import REGEXES


@given(st.sampled_from(REGEXES), st.text("aAbcé ß09_$.-\n\t\v{", max_size=6))
def test_a_text_matches_as_pythons_own_engine_says(regex, text):
    """It is a third engine."""
    column = to_column(pa.array([text]))

    found = is_matched(column, constant_column(regex))

    expected = re.search(common_regex(regex).replace(r"\z", r"\Z"), text) is not None
    assert found.values.tolist() == [expected]


def test_the_ends_of_a_text_are_its_very_ends():
    """For Java alone, a line may end the text before its last character."""
    text = Column(
        DataType.STRING,
        pa.array(["a\n", "a"], pa.large_string()),
        to_column(pa.array([1, 1])).valid,
    )

    assert is_matched(text, constant_column("a$")).values.tolist() == [False, True]


@pytest.mark.parametrize(
    ("regex", "problem"),
    [
        ("(?i)a", "flags or look-around"),
        ("(?=a)", "flags or look-around"),
        ("a++", "after a repetition"),
        ("a{2}{3}", "after a repetition"),
        (r"\bx", "is not known"),
        (r"\p{L}", "is not known"),
        (r"(a)\1", "is not known"),
        ("[a[b]]", "a set in a set"),
        ("[a&&b]", "a set in a set"),
        ("[z-a]", "no range"),
        (r"[\W]", "cannot stand in a set"),
        ("a{3,2}", "out of order"),
        ("a{1001}", "over 1000"),
        ("(a{40}){40}", "over 1000"),
        ("(a", "not closed"),
        ("a)", "too much"),
        ("[a", "ends too early"),
        ("\\", "ends too early"),
        ("*a", "repeats nothing"),
    ],
)
def test_what_engines_read_differently_is_refused(regex, problem):
    """With what is wrong."""
    with pytest.raises(ValueError, match=problem):
        common_regex(regex)


@pytest.mark.parametrize(
    "path", ["", "$", "a.b", "$.", "$.a[*]", "$..a", "$.a[-1]", "$['']", "$[1"]
)
def test_a_path_without_plain_steps_is_refused(path):
    """And the forms of steps are told."""
    with pytest.raises(ValueError, match="a path is"):
        parse_json_path(path)


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ("dd.MM", "no year"),
        ("yy", "it has 'yy'"),
        ("yyyy yyyy", "'yyyy' twice"),
        ("E yyyy", "'E'"),
    ],
)
def test_a_format_that_cannot_be_read_is_refused(form, problem):
    """With the letters that are not known."""
    with pytest.raises(ValueError, match=problem):
        rewrite_format(form)
