"""Whatever text comes in, an application or an ApplicationError comes out."""

from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from shedlight.errors import ApplicationError
from shedlight.graph import check_application, explain, load_application
from shedlight.graph.file.yaml_lines import read_document
from tests.graph.applications import PAPER, SMALL

_MARKS = """
name sources nodes operators sinks s1 w1 w1.A w2.C edge core path time id columns schema format
input patterns node bound weight options lateness idle time_unit << *a &a !!str ? | > - : , [ ]
never_shed shed_by min_rate min_share 50% event type=0
{ } ' " # % @ ` ~ null on 3 s 10 min 3 -1 nan .inf 1e9 A B bigint double string type key ts
PARTITION BY SELECT WHERE SEQ( AND( ) = E1 E1.type X.source 'A' WITHIN EVENTS % 4 \\ é 😀
"""
WORDS = (
    *_MARKS.split(),
    " ",
    "\n",
    "\n  ",
    "\n    ",
    "\t",
    "\0",
    "\r",
    "\u2028",
    "\x85",
    ": ",
    "---",
)
"""What a file may be made of, well or badly."""
TEXTS = (SMALL, PAPER.read_text(encoding="utf-8"))

scalars = st.one_of(
    st.sampled_from(WORDS),
    st.text(max_size=8),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.dates(),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(scalars, inner, max_size=3),
    max_leaves=8,
)


def require_application_or_error(text: str) -> None:
    """Load a text; any other exception than the one for users is let through."""
    try:
        found = load_application(text)
    except ApplicationError:
        return
    check_application(found.application)
    assert explain(found.application, found.warnings)


@st.composite
def edited_texts(draw: DrawFn) -> str:
    """Put words into the place of others, anywhere in a file."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = (
            text[:start]
            + "".join(draw(st.lists(st.sampled_from(WORDS), max_size=3)))
            + text[end:]
        )
    return text


@st.composite
def changed_values(draw: DrawFn) -> Any:
    """Put any values into the place of others."""
    root = yaml.safe_load(draw(st.sampled_from(TEXTS)))
    for _ in range(draw(st.integers(1, 3))):
        part = root
        while isinstance(part, dict) and part:
            key = draw(st.sampled_from(sorted(part, key=str)))
            inner = part[key]
            if not isinstance(inner, dict) or draw(st.booleans()):
                change = draw(st.integers(0, 2))
                if change == 0:
                    del part[key]
                else:
                    part[key if change == 1 else draw(scalars)] = draw(values)
                break
            part = inner
    return root


@given(st.lists(st.sampled_from(WORDS), max_size=40).map("".join))
@example("? ? a")
@example("a: &a\n  <<: *a")
@example("<<: [*a]")
@example("&a a: *a")
@example('"\\uD800": 1')
@example("a: !<tag:yaml.org,2002:int> x")
def test_any_words(text):
    """Mostly this is not even YAML."""
    require_application_or_error(text)


@given(edited_texts())
def test_a_file_with_words_in_the_wrong_place(text):
    """Mostly this is YAML with something wrong in it."""
    require_application_or_error(text)


@given(values)
def test_any_value(value):
    """This is YAML, but hardly ever an application."""
    require_application_or_error(yaml.safe_dump(value, allow_unicode=True))


@given(changed_values())
def test_an_application_with_other_values(value):
    """This is nearly an application."""
    require_application_or_error(yaml.safe_dump(value, allow_unicode=True, sort_keys=False))


@given(st.text())
def test_any_text(text):
    """Also characters that no file should have."""
    require_application_or_error(text)


@given(values)
def test_a_document_says_what_yaml_says(value):
    """Scalars are compared as text; all else has the same form."""
    text = yaml.safe_dump(value, allow_unicode=True)
    document = read_document(text)
    if document.problems:
        return

    assert _form(document.value) == _form(yaml.load(text, Loader=yaml.BaseLoader))  # noqa: S506


def _form(value: Any) -> Any:
    """Forget the difference between nothing and empty text."""
    if isinstance(value, dict):
        return {key: _form(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_form(inner) for inner in value]
    return "" if value in (None, "null", "~") else value
