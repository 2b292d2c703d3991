"""How conditions across events are matched, for people: by which index, or by a scan."""

from collections.abc import Iterator, Mapping
from functools import partial

from shedlight.errors import CapError, join_words
from shedlight.graph.application import Application, Stream
from shedlight.graph.columns import Columns, operator_columns
from shedlight.language import Pattern
from shedlight.language.check.rules import data_type_in_schema
from shedlight.matching.compile.implicit_key import find_implicit_key
from shedlight.matching.compile.indexes import ElementIndex, choose_indexes
from shedlight.matching.compile.matcher import find_triggers
from shedlight.matching.compile.nfa import Automaton, build_automaton

Notes = Mapping[str, str]
"""Sentences about a pattern, by a word for what they are about."""


def note_indexes(application: Application) -> Mapping[Stream, Notes]:
    """Say of patterns with conditions across events how these are answered."""
    columns = operator_columns(application)
    notes = {}
    for stream in application.streams:
        if stream.operator and application.pattern(stream).conditions:
            try:
                notes[stream] = explain_indexes(
                    application.pattern(stream), columns[stream.operator]
                )
            except CapError:  # said where the automaton is shown
                continue
    return notes


def explain_indexes(pattern: Pattern, columns: Columns) -> Notes:
    """Say which conditions an index answers, which are checked on what it finds, and which not.

    Raises:
        CapError: The pattern needs more states than there may be.
    """
    notes: dict[str, str] = {}
    automaton = build_automaton(pattern)
    key = find_implicit_key(automaton, find_triggers(pattern, automaton.elements))
    if key is not None:
        implied = [str(pattern.conditions[i]) for i in sorted(key.conditions)]
        notes["implicit key"] = (
            f"{key.attribute}, by {join_words(implied, 'and')}: as fast as PARTITION BY "
            f"{key.attribute}, which would also let it be shed and spread by key, and would "
            "take null for a key"
        )
        pattern = key.without_conditions(pattern)
        automaton = build_automaton(pattern)
    triggers = find_triggers(pattern, automaton.elements)
    indexes = choose_indexes(
        pattern, automaton.elements, triggers, partial(data_type_in_schema, columns)
    )
    found = {"index": "; ".join(_indexed(automaton, indexes))}
    found["candidates"] = "; ".join(_checked(automaton, triggers, indexes))
    found["scan"] = "; ".join(_scanned(automaton, triggers, indexes))
    return notes | {label: note for label, note in found.items() if note}


Indexes = tuple[ElementIndex | None, ...]
Triggers = tuple[tuple[int, ...], ...]


def _indexed(automaton: Automaton, indexes: Indexes) -> Iterator[str]:
    for index in filter(None, indexes):
        new, source = (automaton.elements[i].variable for i in (index.element, index.source))
        conditions = join_words(_texts(automaton, index.conditions), "and")
        yield f"{new} finds {source} by {index} of {index.key}, for {conditions}"


def _checked(automaton: Automaton, triggers: Triggers, indexes: Indexes) -> Iterator[str]:
    for element, index, numbers in zip(automaton.elements, indexes, triggers, strict=True):
        rest = [i for i in numbers if index and i not in index.conditions]
        if rest:
            conditions = join_words(_texts(automaton, rest), "and")
            yield f"what {element.variable} finds is checked for {conditions}"


def _scanned(automaton: Automaton, triggers: Triggers, indexes: Indexes) -> Iterator[str]:
    for element, index, numbers in zip(automaton.elements, indexes, triggers, strict=True):
        if numbers and not index:
            conditions = join_words(_texts(automaton, numbers), "and")
            yield (
                f"{element.variable} is compared with each partial match that waits for it, "
                f"for no index answers {conditions}"
            )


def _texts(automaton: Automaton, numbers: tuple[int, ...] | list[int]) -> list[str]:
    return [str(automaton.pattern.conditions[i]) for i in numbers]
