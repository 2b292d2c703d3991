"""Patterns with their automata and matches, as text: one file each in fixtures/patterns."""

from pathlib import Path

import pytest

from shedlight.language import parse_pattern
from shedlight.matching.compile.nfa import build_automaton
from shedlight.testing import matches

FILES = sorted((Path(__file__).parent.parent / "fixtures" / "patterns").glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_pattern_has_this_automaton_and_these_matches(file):
    """The parts of a file are separated by blank lines: pattern, automaton, then histories."""
    text, automaton, *histories = file.read_text(encoding="utf-8").strip().split("\n\n")

    assert str(build_automaton(parse_pattern(text).pattern)) == automaton
    assert histories
    for history in histories:
        events, *expected = history.split("\n")
        assert matches(text, events) == [one for one in expected if one != "no match"]
