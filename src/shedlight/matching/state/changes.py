"""Changes of a saved state: how its sections are made of those of the state before.

A change is a container itself, versioned and checksummed: a section that is as it was is named
by its number, one that is not has the difference of its body, a new one is whole.
"""

from collections.abc import Iterator, Sequence

from shedlight.errors import StateError
from shedlight.matching.state.container import Section, read_container, write_container
from shedlight.matching.state.difference import apply_difference, difference

_SAME, _CHANGED, _NEW = "same", "changed", "new"


def write_change(old: Sequence[Section], new: Sequence[Section]) -> bytes:
    """Say how new sections are made of old ones."""
    return write_container(_changes(old, new))


def _changes(old: Sequence[Section], new: Sequence[Section]) -> Iterator[Section]:
    numbers: dict[tuple[str, str, str], list[int]] = {}
    for number, section in enumerate(old):
        numbers.setdefault(_key(section), []).append(number)
    for section in new:
        of_key = numbers.get(_key(section))
        if not of_key:
            facts = {"kind": section.kind, "facts": section.facts}
            yield Section(_NEW, section.operator, section.name, facts, section.body)
            continue
        number = of_key.pop(0)
        if section is old[number] or section == old[number]:
            yield Section(_SAME, facts={"number": number})
            continue
        body = difference(old[number].body, section.body)
        yield Section(_CHANGED, facts={"number": number, "facts": section.facts}, body=body)


def _key(section: Section) -> tuple[str, str, str]:
    return section.kind, section.operator, section.name


def apply_change(old: Sequence[Section], change: bytes) -> list[Section]:
    """Make the new sections of the old ones.

    Raises:
        StateError: The change is damaged, of another version, or of other sections.
    """
    return [_apply(old, section) for section in read_container(change)]


def _apply(old: Sequence[Section], change: Section) -> Section:
    facts = change.facts
    if change.kind == _NEW:
        return Section(facts["kind"], change.operator, change.name, facts["facts"], change.body)
    if facts["number"] >= len(old):
        raise StateError(
            "a change to a saved state is of another state; take an older copy of the "
            "checkpoint, or start with a new one"
        )
    before = old[facts["number"]]
    if change.kind == _SAME:
        return before
    body = apply_difference(before.body, change.body)
    return Section(before.kind, before.operator, before.name, facts["facts"], body)
