"""What a pattern looks for: its text, as the log has it, and its automaton."""

from functools import lru_cache

from shedlight.errors import ShedlightError, known_names
from shedlight.language import parse_pattern
from shedlight.matching.compile.nfa import Automaton, State, build_automaton
from shedlight.page import schemas
from shedlight.page.errors import RequestError
from shedlight.page.run_view import RunView
from shedlight.report.format import sanitize

MAX_STATES = 24
"""An automaton with more states is not drawn."""
_MAX_TEXT = 4_000


def pattern_answer(view: RunView, stream: str) -> schemas.PatternAnswer:
    """Answer what a pattern looks for; it is named by its operator and its name.

    Raises:
        RequestError: There is no such pattern, or the log does not say what it looks for.
    """
    view.refresh()
    header = view.totals.header
    texts = header.pattern_texts if header else {}
    if stream not in texts:
        hint = known_names(stream, list(texts)) if texts else "the log has no patterns"
        raise RequestError(404, f"there is no pattern {stream[:60]!r}; {hint}")
    text = texts[stream]
    regions = _regions(text) if len(text) <= _MAX_TEXT else ()
    return schemas.PatternAnswer(text=sanitize(text, _MAX_TEXT), regions=list(regions))


@lru_cache(maxsize=256)
def _regions(text: str) -> tuple[list[schemas.StateAnswer], ...]:
    """List the states of each region; none if there are too many, or it cannot be read alone.

    A pattern that calls functions of the user is read where these are.
    """
    try:
        automaton = build_automaton(parse_pattern(text).pattern)
    except ShedlightError:
        return ()
    if sum(map(len, automaton.regions)) > MAX_STATES:
        return ()
    return tuple(
        [_state(automaton, region, state) for state in region] for region in automaton.regions
    )


def _state(
    automaton: Automaton, region: tuple[State, ...], state: State
) -> schemas.StateAnswer:
    """Describe a state; an element under NOT may only take it back to another one."""
    names = [element.variable for element in automaton.elements]
    takes = [
        schemas.TakeAnswer(
            element=names[element],
            to=None if region[to].accepting and not automaton.absence else to,
        )
        for element, to in state.edges
    ]
    takes += [
        schemas.TakeAnswer(element=f"NOT {names[element]}", to=to)
        for element, left in state.nots
        for to in left
    ]
    return schemas.StateAnswer(
        takes=takes,
        closed_by=[names[element] for element, left in state.nots if not left],
        ends=automaton.absence and state.accepting,
    )
