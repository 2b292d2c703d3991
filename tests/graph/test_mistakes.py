"""What is wrong with applications, and what the messages say: always the whole message."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shedlight.errors import ApplicationError
from shedlight.graph import check_application, load_application
from tests.graph.applications import edited, graph, loaded

MARKS = ("- ", "+ ", "")


def mistakes() -> Iterator[tuple[str, ...]]:
    """Read what to replace, by what, and the message."""
    text = Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8")
    for block in text.strip().split("\n\n"):
        if not block.startswith("#"):
            lines = block.split("\n")
            marks = [line[:2] if line[:2] in MARKS else "" for line in lines]
            yield tuple(
                "\n".join(
                    line[len(mark) :]
                    for line, its in zip(lines, marks, strict=True)
                    if its == mark
                )
                for mark in MARKS
            )


@pytest.mark.parametrize(("old", "new", "message"), list(mistakes()))
def test_a_mistake_is_explained(old, new, message):
    """See `mistakes.txt`."""
    with pytest.raises(ApplicationError) as error:
        load_application(edited((old, new)))

    assert str(error.value) == message


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{this}: &{this} [{', '.join([f'*{last}'] * 9)}]\n"
    for last, this in zip("abcdefg", "bcdefgh", strict=True)
)
"""Each alias stands for nine of the one before; all together they are a billion."""
NO_APPLICATIONS = {
    "": "the file is empty; it describes no application",
    "# nothing\n": "the file is empty; it describes no application",
    "- a": "line 1: an application is a mapping, got a list; write `name: ...` and so on",
    "hi": "line 1: an application is a mapping, got 'hi'; write `name: ...` and so on",
    "~": "line 1: an application is a mapping, got nothing; write `name: ...` and so on",
    "#" * 10_000_001: "the file has 10,000,001 characters; 10,000,000 are allowed",
    "a: " + "[" * 51: "line 1: more than 50 mappings or lists stand inside each other",
    "["
    + "1," * 200_001: "line 1: the file has more than 200,000 values, with those of aliases",
    LAUGHS: "line 6: the file has more than 200,000 values, with those of aliases",
    "a: 'b\0'": "line 1: the character '\\x00' cannot be in a file of text",
    "a:\n\tb: 1": """\
line 2: this is not YAML: a tab stands where spaces belong
     b: 1
    ^
    indent with spaces""",
}


@pytest.mark.parametrize("text", NO_APPLICATIONS, ids=lambda text: repr(text[:20]))
def test_what_is_no_application_is_refused(text):
    """Nor is a file read that would need all memory."""
    with pytest.raises(ApplicationError) as error:
        load_application(text)

    assert str(error.value) == NO_APPLICATIONS[text]


def test_all_that_is_wrong_at_one_stage_is_reported_together():
    """A pattern that is not understood hides nothing of what is wrong elsewhere."""
    text = edited(
        ("input: s1", "input: s2"),
        ("node: core", "node: x"),
        ("SELECT E1.key WHERE E1.type = 2", "SELECT E1.key WHERE E1.type ="),
    )

    with pytest.raises(ApplicationError) as error:
        load_application(text)

    assert (
        str(error.value)
        == """\
line 14: operators.w1.input names the unknown input 's2'; known: s1, w1.A, w1.B, w2.C
line 17: operators.w1.patterns.B, in the text of this pattern:
    line 1, column 30: the text ends too early
    SELECT E1.key WHERE E1.type =
                                 ^
    expected a value
line 19: operators.w2.node names the unknown node 'x'; known: core, edge"""
    )


def test_of_very_many_mistakes_the_first_are_reported():
    """Nobody reads more than a screen of them."""
    with pytest.raises(ApplicationError) as error:
        load_application("\n".join(f"x{i}: 1" for i in range(100)))

    lines = str(error.value).split("\n")
    assert len(lines) == 21
    assert lines[-1] == "... and more; these first"


def test_a_long_name_is_cut_where_it_is_shown():
    """The message stays readable."""
    with pytest.raises(ApplicationError) as error:
        load_application(edited(("  core: {}", f"  core: {{{'x' * 900}: 1}}")))

    assert str(error.value) == (
        f"line 10: nodes.core has no setting {'x' * 57 + '...'!r}; known: bound"
    )


BY_KEY = (
    ("E2.type = 1) WITHIN 10 s", "E2.type = 1) WITHIN 10 s PARTITION BY key"),
    ("WHERE E1.type = 2", "WHERE E1.type = 2 PARTITION BY key"),
    ("WITHIN 1 min", "WITHIN 1 min PARTITION BY key"),
    ("node: core", "node: edge"),
)


@pytest.mark.parametrize(
    "select", ["E1", "*", "E1.type AS key", "E1.key AS other", "COUNT(E1) AS key"]
)
def test_complex_events_that_stay_on_a_node_keep_their_key(select):
    """On Spark the events of a key are together; those of a changed key would not be."""
    with pytest.raises(ApplicationError) as error:
        load_application(
            edited(*BY_KEY, ("SELECT E1.key WHERE E1", f"SELECT {select} WHERE E1"))
        )

    assert str(error.value) == (
        "line 20: operators.w2.input[1] is w1.B, which does not select its key key; "
        "select it, as in SELECT E1.key, or put w2 on another node"
    )


def test_an_application_made_in_python_is_checked_as_one_from_a_file():
    """Warnings are values there too."""
    assert check_application(loaded()) == ()
    assert check_application(loaded(("  core: {}", "  core: {}\n  far: {}"))) == (
        "nodes.far has no operators",
    )


def test_an_application_made_in_python_is_told_what_is_wrong():
    """There are no lines, but there is the path."""
    dangling = graph("w1: s1 -> A B", "w2: w1.A w3.C -> C", sinks="w2.C")

    with pytest.raises(ApplicationError) as error:
        check_application(dangling)

    assert str(error.value) == (
        "operators.w2.input[1] names the unknown input 'w3.C'; did you mean 'w2.C'?"
    )


def test_without_a_text_a_pattern_is_still_explained():
    """There is nothing to point at, but the problem and the hint are the same."""
    text = "SELECT E.x AS y WHERE E"
    application = graph("w1: s1 -> A", "w2: w1.A -> B", sinks="w2.B", text=text)

    with pytest.raises(ApplicationError) as error:
        check_application(application)

    assert str(error.value) == (
        "operators.w2.patterns.B, in the text of this pattern:\n"
        "    unknown attribute 'x'; known: id, source, time, y"
    )


def test_a_long_circle_is_cut_where_it_is_shown():
    """Its beginning and its end are enough to find it."""
    lines = [f"w{i}: w{(i - 1) % 30}.P{(i - 1) % 30} -> P{i}" for i in range(30)]

    with pytest.raises(ApplicationError) as error:
        check_application(graph(*lines, sinks="w1.P1"))

    assert str(error.value) == (
        "operators feed each other in a cycle: w0 -> w1 -> w2 -> w3 -> w4 -> ... -> "
        "w26 -> w27 -> w28 -> w29 -> w0; take one of these inputs away"
    )
