"""One pattern, ready to be matched: all that does not change while events go by."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from shedlight.language.ast import expression as ex
from shedlight.language.ast import pattern as ast
from shedlight.language.ast.data_type import DataType
from shedlight.language.ast.expression import Expression
from shedlight.language.ast.pattern import Element, Pattern
from shedlight.matching.compile.dfa import Symbol
from shedlight.matching.compile.guards import GuardPrograms, build_programs
from shedlight.matching.compile.implicit_key import ImplicitKey, find_implicit_key
from shedlight.matching.compile.indexes import ElementIndex, choose_indexes
from shedlight.matching.compile.nfa import Automaton, build_automaton
from shedlight.matching.compile.predicates import Signature
from shedlight.matching.compile.type_labels import PredicateTest, Vocabulary

MAX_PARTIAL_MATCHES = 10_000_000
"""How many partial matches a pattern may have; past it the oldest goes, and is counted."""


BEGAN = "#began"
"""The column of complex events in a protected closure that says when they began."""


@dataclass(frozen=True, slots=True, eq=False)
class Matcher:
    """A pattern over a stream of known columns."""

    name: str  # the pattern's name
    pattern: Pattern  # as it was written
    automaton: Automaton  # the pattern compiled, without the conditions of an implicit key
    predicates: tuple[tuple[PredicateTest, ...], ...]  # what each element asks of an event
    null_signature: Signature  # that of an event of which nothing holds
    programs: GuardPrograms  # the conditions across events
    triggers: tuple[tuple[int, ...], ...]  # by element, the conditions that its events decide
    indexes: tuple[ElementIndex | None, ...]  # by element, which of them an index answers
    store_schema: pa.Schema  # the columns that are kept of the events of partial matches
    cap: int  # how many partial matches there may be
    has_nots: bool  # whether it has elements under NOT
    timed_out: bool = False  # whether partial matches that time out are asked for too
    implicit_key: ImplicitKey | None = None  # what it is partitioned by if not as written

    @property
    def scans(self) -> bool:
        """Whether there are conditions across events to be checked."""
        return bool(self.automaton.pattern.conditions)

    @property
    def fingerprint(self) -> str:
        """What a saved state must have been saved for: the pattern and the stored columns."""
        return _fingerprint(self)

    def symbol(self, signature: Signature) -> Symbol:
        """Say which elements events of a signature satisfy."""
        null = self.null_signature
        return frozenset(
            i
            for i, tests in enumerate(self.predicates)
            if all(t.allows(signature[t.component], null[t.component]) for t in tests)
        )


@lru_cache(maxsize=256)  # a matcher is itself alone, and states are saved often
def _fingerprint(matcher: Matcher) -> str:
    columns = hashlib.sha256(str(matcher.store_schema).encode()).hexdigest()[:12]
    return f"{matcher.pattern} [{columns}]"


def build_matcher(  # noqa: PLR0913  # what a pattern needs to know of its stream
    name: str,
    pattern: Pattern,
    vocabulary: Vocabulary,
    schema: pa.Schema,
    *,
    ids: Sequence[str],
    data_type_of_row: Callable[[Expression], DataType],
    cap: int = MAX_PARTIAL_MATCHES,
    timed_out: bool = False,
) -> Matcher:
    """Prepare a pattern for a stream of these columns, of which `ids` identify an event.

    The vocabulary is that of all patterns of the operator; `cap` is how many partial matches
    there may be.
    """
    automaton, key = build_keyed_automaton(pattern)
    matched = automaton.pattern
    triggers = find_triggers(matched, automaton.elements)
    element_of = {element.variable: i for i, element in enumerate(automaton.elements)}
    programs = build_programs(matched.conditions, element_of, data_type_of_row)
    needed = {*ids, BEGAN, *_columns(pattern, schema.names, programs.cells)}
    stored = [field for field in schema if field.name in needed]
    return Matcher(
        name,
        pattern,
        automaton,
        tuple(map(vocabulary.tests_of, automaton.elements)),
        vocabulary.null_signature,
        programs,
        triggers,
        choose_indexes(matched, automaton.elements, triggers, data_type_of_row),
        pa.schema(stored),
        cap,
        bool(ast.negated_elements(pattern.where)),
        timed_out,
        key,
    )


def build_keyed_automaton(pattern: Pattern) -> tuple[Automaton, ImplicitKey | None]:
    """Compile a pattern without the conditions of its implicit key, if it has one."""
    automaton = build_automaton(pattern)
    key = find_implicit_key(automaton, find_triggers(pattern, automaton.elements))
    if key is None:
        return automaton, None
    return build_automaton(key.without_conditions(pattern)), key


def _columns(
    pattern: Pattern, names: Iterable[str], cells: tuple[Expression, ...]
) -> Iterable[str]:
    """List the columns that must be kept of an event."""
    expressions = [item.expression for item in pattern.select] + list(cells)
    nodes = [node for expression in expressions for node in ex.walk(expression)]
    if not pattern.select or any(isinstance(node, ex.WholeEvent) for node in nodes):
        yield from (name for name in names if not name.startswith("#"))  # those are our own
    yield from (
        n.path[0] for n in nodes if isinstance(n, ex.Attribute | ex.Aggregate) and n.path
    )


def find_triggers(
    pattern: Pattern, elements: tuple[Element, ...]
) -> tuple[tuple[int, ...], ...]:
    """Say for each element which conditions its events decide.

    An event of an element decides a condition unless another element of the condition comes
    after it in a SEQ. A condition that mentions an element under NOT belongs to that NOT alone.
    """
    nots = {element.variable for element in ast.negated_elements(pattern.where)}
    after = set(_orders(pattern.where)) if pattern.conditions else set()
    triggers: list[list[int]] = [[] for _ in elements]
    for number, condition in enumerate(pattern.conditions):
        names = ex.variables(condition)
        forbidden = names & nots
        for i, element in enumerate(elements):
            variable = element.variable
            if variable not in names or (forbidden and variable not in forbidden):
                continue
            if forbidden or not any((variable, other) in after for other in names):
                triggers[i].append(number)
    return tuple(map(tuple, triggers))


def _orders(part: ast.Part) -> Iterable[tuple[str, str]]:
    """List the pairs of ex.variables whose second comes after the first in a SEQ."""
    children = ast.child_parts(part)
    for i, child in enumerate(children):
        yield from _orders(child)
        if isinstance(part, ast.Seq):
            later = [name for other in children[i + 1 :] for name in _names(other)]
            yield from ((first, second) for first in _names(child) for second in later)


def _names(part: ast.Part) -> list[str]:
    if isinstance(part, Element):
        return [part.variable]
    if isinstance(part, ast.Not):
        return []
    return [name for inner in ast.child_parts(part) for name in _names(inner)]
