"""Labels of types, read back to what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedlight.language import parse_pattern
from shedlight.language.ast.pattern import Element, elements
from shedlight.matching.compile.type_labels import OTHER, Vocabulary, build_vocabulary
from tests.strategies import patterns


def words_of(where: str) -> Vocabulary:
    """Collect the words of a pattern."""
    return build_vocabulary(elements(parse_pattern(f"SELECT * WHERE {where}").pattern.where))


def read(where: str, label: str) -> str | None:
    """Read a label and write it again."""
    words = words_of(where)
    said = words.parse(label)
    return None if said is None else words.label(words.signature(said))


@pytest.mark.parametrize(
    ("label", "again"),
    [
        ("type=0", "type=0"),
        ("type=0 & cpu > 0.5", "type=0 & cpu > 0.5"),
        ("cpu > 0.5 & type=0", "type=0 & cpu > 0.5"),
        ("cpu > 0.5", "cpu > 0.5"),
        (OTHER, OTHER),
        ("", OTHER),
        ("type=1", None),
        ("type=0 & cpu > 0.6", None),
        ("type=0 &cpu > 0.5", None),
        ("type = 0", None),
    ],
)
def test_a_label_is_made_of_known_words_in_any_order(label, again):
    """A word that no condition has makes it no label."""
    assert read("E.type = 0 AND E.cpu > 0.5", label) == again


def test_constants_may_look_like_labels():
    """The longest word that is known counts."""
    where = "SEQ(A.x = 'a', B.x = 'a & y=b', C.y = 'b') WITHIN 1 s"

    assert words_of(where).parse("x=a & y=b") == {0: 1}
    assert words_of(where).parse("y=b & x=a") == {1: 0, 0: 0}


def test_a_label_cannot_say_two_things_of_one_column():
    """No event is of such a type."""
    assert words_of("SEQ(A.x = 1, B.x = 2) WITHIN 1 s").parse("x=1 & x=2") is None


def test_any_other_value_is_named_by_what_it_is_not():
    """One of the words is enough."""
    where = "SEQ(A.x <> 1, B.x NOT IN (2, 3), C.x = 4) WITHIN 1 s"

    assert read(where, "x <> 1") == "x <> 1 & x NOT IN (2, 3)"
    assert read(where, "x NOT IN (2, 3) & x <> 1") == "x <> 1 & x NOT IN (2, 3)"
    assert read(where, "x=4 & x <> 1") is None


@given(patterns(), st.data())
def test_a_label_that_was_written_is_understood(pattern, data):
    """What it is read as is accepted by the same elements."""
    found = elements(pattern.where)
    words = build_vocabulary(found)
    sizes = [one.codes for one in words.alphabet.closed] + [2] * len(words.alphabet.open)
    signature = tuple(data.draw(st.integers(0, size - 1)) for size in sizes)

    said = words.parse(words.label(signature))

    assert said is not None
    again = words.signature(said)
    for each in found:
        assert allows(words, each, again) == allows(words, each, signature)


def allows(words: Vocabulary, element: Element, signature: tuple[int, ...]) -> bool:
    """Whether an element accepts a signature, by what it asks."""
    return all(
        ask.allows(signature[ask.component], words.null_signature[ask.component])
        for ask in words.tests_of(element)
    )
