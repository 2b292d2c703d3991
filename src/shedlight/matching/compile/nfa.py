"""The automaton of one pattern: the definition, immutable and shared.

States are numbered in the order in which they are found; 0 is the start. An edge takes an event
for one element. A state with several places to wait at has several edges, also for one and the
same event: which of them a partial match is on is settled later (`dfa.py`), or never has to be.

An AND whose parts have no type in common is kept as *regions*, one per part (the orthogonal
regions of a statechart): a partial match is in one state of every region, and 20 parts cost
20 times two states, not two to the power of 20.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shedlight.errors import CapError
from shedlight.language.ast import pattern as ast
from shedlight.language.ast.pattern import Element, Part, Pattern
from shedlight.matching.compile import derivatives as derive
from shedlight.matching.compile.predicates import exclusive, same_predicate

MAX_STATES = 16_384  # how many states a pattern may have


@dataclass(frozen=True, slots=True)
class State:
    """One state."""

    edges: tuple[tuple[int, int], ...]  # who can take the next event, and the state after it
    # for a NOT (by element) whose event changes something: the states left; none: it closes
    nots: tuple[tuple[int, tuple[int, ...]], ...]
    accepting: bool  # whether what was taken so far is enough


@dataclass(frozen=True, slots=True)
class Automaton:
    """A pattern compiled."""

    pattern: Pattern  # where it comes from
    elements: tuple[Element, ...]  # those under NOT included; edges name them by number
    regions: tuple[tuple[State, ...], ...]  # the states of each; nearly always there is one
    forbidden: frozenset[int]  # with several regions: the NOTs that close any partial match
    absence: bool  # whether a match comes at the end of the window, by what did not happen

    @property
    def single_event_regions(self) -> bool:
        """Whether there are several regions and each is over with its first event."""
        return len(self.regions) > 1 and all(
            [bool(state.edges) for state in region] == [True, False] for region in self.regions
        )

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def build_automaton(pattern: Pattern) -> Automaton:
    """Compile a pattern.

    Raises:
        CapError: It needs more than `MAX_STATES` states.
    """
    compiler = _Compiler(pattern)
    term = compiler.term(pattern.where)
    regions, forbidden = [term], frozenset[int]()
    if isinstance(term, derive.Interleaving) and not pattern.conditions:
        groups = _groups(term.terms, compiler.elements)
        if len(groups) > 1 and all(map(_ends_for_good, term.terms)):
            regions = [derive.interleaving(group, frozenset(), begun=False) for group in groups]
            forbidden = term.forbidden
    try:
        tables = tuple(_states(region) for region in regions)
    except RecursionError as error:
        raise CapError("the pattern is nested too deeply; split it into two") from error
    last = term.terms[-1] if isinstance(term, derive.Chain) else term
    return Automaton(
        pattern, compiler.elements, tables, forbidden, absence=isinstance(last, derive.Gap)
    )


class _Compiler:
    """Turns parts into terms; elements are numbered as written."""

    def __init__(self, pattern: Pattern) -> None:
        self.elements = ast.elements(pattern.where)
        self._number = {element.variable: i for i, element in enumerate(self.elements)}
        self._keeps_apart = bool(pattern.conditions)

    def term(self, part: Part) -> derive.Term:
        match part:
            case Element(variable, _):
                return derive.Leaf(self._number[variable])
            case ast.Not(element):
                return derive.Gap(self._number[element.variable])
            case ast.Seq(parts):
                return derive.chain(map(self.term, parts))
            case ast.Or(parts):
                return derive.Choice(tuple(map(self.term, parts)))
            case ast.Repeat(inner, least, most):
                return derive.loop(self.term(inner), least, most)
            case ast.And(parts):
                return self._both(parts)
        raise TypeError(f"not a part of a pattern: {part!r}")

    def _both(self, parts: tuple[Part, ...]) -> derive.Term:
        terms = [self.term(part) for part in parts]
        forbidden = frozenset(term.element for term in terms if isinstance(term, derive.Gap))
        terms = [term for term in terms if not isinstance(term, derive.Gap)]
        if not self._keeps_apart:
            terms = self._in_turn(terms)
        return derive.interleaving(tuple(terms), forbidden, begun=False)

    def _in_turn(self, terms: list[derive.Term]) -> list[derive.Term]:
        """Put single elements that ask the same one after the other.

        Which of them takes an event first makes no difference but to the number of states,
        and the first as written counts.
        """
        turns: list[list[derive.Term]] = []
        for term in terms:
            turn = next((turn for turn in turns if self._alike(turn[0], term)), None)
            if turn is None:
                turns.append([term])
            else:
                turn.append(term)
        return [derive.chain(turn) for turn in turns]

    def _alike(self, one: derive.Term, other: derive.Term) -> bool:
        if not (isinstance(one, derive.Leaf) and isinstance(other, derive.Leaf)):
            return False
        return same_predicate(self.elements[one.element], self.elements[other.element])


def _groups(
    terms: tuple[derive.Term, ...], elements: tuple[Element, ...]
) -> list[tuple[derive.Term, ...]]:
    """Group terms so that no event can be taken in two groups."""
    groups: list[tuple[list[derive.Term], set[int]]] = []
    for term in terms:
        leaves = {t.element for t in _inside(term) if isinstance(t, derive.Leaf | derive.Gap)}
        joined: tuple[list[derive.Term], set[int]] = ([term], leaves)
        apart = []
        for group in groups:
            if all(exclusive(elements[a], elements[b]) for a in group[1] for b in leaves):
                apart.append(group)
            else:
                joined = (group[0] + joined[0], group[1] | joined[1])
        groups = [*apart, joined]
    return [tuple(members) for members, _ in groups]


def _ends_for_good(term: derive.Term) -> bool:
    """Whether a part of an AND is over as soon as it may be, and has no NOT in it."""
    if any(isinstance(inner, derive.Gap) for inner in _inside(term)) or derive.can_end(term):
        return False
    return all(not (state.accepting and state.edges) for state in _states(term))


def _inside(term: derive.Term) -> Iterator[derive.Term]:
    yield term
    match term:
        case derive.Chain(terms) | derive.Choice(terms):
            for inner in terms:
                yield from _inside(inner)
        case derive.Interleaving(terms, forbidden, _):
            yield from (derive.Gap(x) for x in forbidden)
            for inner in terms:
                yield from _inside(inner)
        case derive.Loop(inner, _, _) | derive.NotEmpty(inner):
            yield from _inside(inner)


def _states(start: derive.Term) -> tuple[State, ...]:
    """Find all states that can be reached, in the order of their finding."""
    numbers: dict[derive.Term, int] = {start: 0}
    terms = [start]

    def number(term: derive.Term) -> int:
        if term not in numbers:
            numbers[term] = len(terms)
            terms.append(term)
            if len(terms) > MAX_STATES:
                raise CapError(
                    f"the pattern needs more than {MAX_STATES:,} states; an AND doubles them "
                    "with every part unless no event fits two parts, it is the whole pattern "
                    "and there are no conditions across events; make it of fewer parts, or "
                    "repetitions shorter"
                )
        return numbers[term]

    states = []
    for term in terms:  # grows while we go
        edges = tuple((element, number(left)) for element, left in derive.steps(term))
        nots = tuple(
            (x, tuple(number(left) for left in derive.after_not(term, x)))
            for x in sorted(derive.forbidden_now(term))
        )
        states.append(State(edges, nots, derive.can_end(term)))
    return tuple(states)


def _lines(automaton: Automaton) -> Iterable[str]:
    names = [element.variable for element in automaton.elements]
    several = len(automaton.regions) > 1
    for region_number, region in enumerate(automaton.regions):
        if several:
            yield f"region {region_number + 1}"
        for number, state in enumerate(region):
            if number and state.accepting and not state.edges and not automaton.absence:
                continue
            yield (
                "  " * several
                + f"state {number}: "
                + ", ".join(_words(state, region, names, absence=automaton.absence))
            )
    if automaton.forbidden:
        yield f"NOT {', '.join(names[x] for x in sorted(automaton.forbidden))} closes"


def _words(
    state: State, region: tuple[State, ...], names: list[str], *, absence: bool
) -> Iterator[str]:
    for element, target in state.edges:
        ends = region[target].accepting and not absence
        yield f"{names[element]} -> {'match' if ends else target}"
    for element, left in state.nots:
        yield f"NOT {names[element]} -> {' or '.join(map(str, left)) if left else 'closes'}"
    if absence and state.accepting:
        yield "end of window -> match"
