"""The types of an operator: what arrives there, and which elements accept it.

Types come from the labels that a snapshot has for the inputs of the operator, and from the
constants that its patterns ask for. Complex events are of the type that the text of their
pattern tells; where it does not, the snapshot says how they are spread. What no element accepts
is of no use, and so is not a type.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shedlight.errors import SnapshotError
from shedlight.graph.application import Application, OperatorSpec, Stream
from shedlight.graph.columns import Columns, output_columns
from shedlight.language.ast.pattern import Element, elements
from shedlight.matching.compile.predicates import Signature
from shedlight.matching.compile.type_labels import Vocabulary
from shedlight.model.arrays import Floats, Ints
from shedlight.model.output_types import known_attributes
from shedlight.model.quantity import dotted
from shedlight.model.snapshot import Snapshot, vocabulary_of
from shedlight.model.type_index import Asks, accepted_types, constants

_Amounts = Mapping[Signature, float]


@dataclass(frozen=True, slots=True, eq=False)
class OperatorTypes:
    """The types of an operator.

    Attributes:
        vocabulary: Its words.
        labels: The types, in order of their signatures.
        signatures: What holds of each.
        sources: Events per second of each type from each source.
        feeds: The share of the complex events of each pattern upstream that is of each type.
        unused: Events per second from each source that no element accepts.
        accepted: The types that each element accepts, as places in `labels`, ascending.
    """

    vocabulary: Vocabulary
    labels: tuple[str, ...]
    signatures: tuple[Signature, ...]
    sources: Mapping[str, Floats]
    feeds: Mapping[Stream, Floats]
    unused: Mapping[str, float]
    accepted: Mapping[Element, Ints]

    def accepts(self, element: Element) -> Ints:
        """Find the types that an element of this operator accepts."""
        return self.accepted[element]

    def holding(self, label: str) -> Ints:
        """Find the types of which all words of a label hold."""
        said = self.vocabulary.parse(label)
        if said is None:
            return np.zeros(0, np.int64)
        wanted = said or dict(enumerate(self.vocabulary.null_signature))
        found = (
            place
            for place, signature in enumerate(self.signatures)
            if all(signature[part] == code for part, code in wanted.items())
        )
        return np.fromiter(found, np.int64)


def operator_types(
    application: Application,
    snapshot: Snapshot,
    spec: OperatorSpec,
    columns: Mapping[str, Columns],
    vocabulary: Vocabulary | None = None,
) -> OperatorTypes:
    """Find the types of an operator.

    Args:
        application: A checked application.
        snapshot: A checked snapshot of it.
        spec: The operator.
        columns: The columns that each operator sees.
        vocabulary: The words of the operator, if they are known already.

    Raises:
        SnapshotError: Of what type complex events are cannot be told, neither from the text
            nor from the snapshot.
    """
    words = vocabulary or vocabulary_of(spec)
    asks = {
        each: words.tests_of(each)
        for one in spec.patterns.values()
        for each in elements(one.where)
    }
    distinct = tuple(dict.fromkeys(asks.values()))
    sources = {
        one.name: _source_amounts(words, snapshot.rates[one])
        for one in spec.inputs
        if one.operator is None
    }
    feeding = _Feeding(application, snapshot, spec, words, distinct)
    feeds = {
        one: feeding.shares(one, columns[one.operator])
        for one in spec.inputs
        if one.operator is not None
    }
    amounts = (*sources.values(), *feeds.values())
    known = {signature for each in amounts for signature in each} | set(constants(words))
    signatures, accepted = accepted_types(words, known, distinct)
    places = {signature: place for place, signature in enumerate(signatures)}
    return OperatorTypes(
        words,
        tuple(map(words.label, signatures)),
        signatures,
        {name: _spread(each, places) for name, each in sources.items()},
        {stream: _spread(each, places) for stream, each in feeds.items()},
        {name: _unused(words, snapshot.rates[Stream(name)], places) for name in sources},
        {each: accepted[ask] for each, ask in asks.items()},
    )


def _source_amounts(words: Vocabulary, rates: Mapping[str, float]) -> _Amounts:
    """Read rates by label; a label that is another operator's says nothing here."""
    found: dict[Signature, float] = {}
    for label, rate in rates.items():
        said = words.parse(label)
        if said is not None:
            signature = words.signature(said)
            found[signature] = found.get(signature, 0.0) + rate
    return found


def _spread(amounts: _Amounts, places: Mapping[Signature, int]) -> Floats:
    found = np.zeros(len(places))
    for signature, amount in amounts.items():
        if signature in places:
            found[places[signature]] += amount
    return found


def _unused(
    words: Vocabulary, rates: Mapping[str, float], places: Mapping[Signature, int]
) -> float:
    """Add up what is of no type here; what only others know is of no use here."""
    said = ((words.parse(label), rate) for label, rate in rates.items())
    return sum(rate for s, rate in said if s is None or words.signature(s) not in places)


@dataclass(frozen=True, slots=True, eq=False)
class _Feeding:
    """How complex events from upstream are spread over the types of an operator."""

    application: Application
    snapshot: Snapshot
    spec: OperatorSpec
    words: Vocabulary
    asked: tuple[Asks, ...]

    def shares(self, stream: Stream, columns: Columns) -> _Amounts:
        """Find the share of each type, given the columns that the pattern upstream sees."""
        pattern = self.application.pattern(stream)
        facts = known_attributes(stream, pattern, output_columns(stream, pattern, columns))
        known = facts.codes(self.words)
        undecided = self._undecided(known)
        if undecided is None:
            return {self.words.signature(known): 1.0}
        return self._measured(stream, known, undecided)

    def _undecided(self, known: Mapping[int, int]) -> int | None:
        """Find a component that matters to an element and is not known."""
        nothing = self.words.null_signature
        for asks in self.asked:
            if all(
                ask.allows(known[ask.component], nothing[ask.component])
                for ask in asks
                if ask.component in known
            ):
                for ask in asks:
                    if ask.component not in known:
                        return ask.component
        return None

    def _measured(self, stream: Stream, known: Mapping[int, int], undecided: int) -> _Amounts:
        """Take the shares from the snapshot; what is known need not be said there."""
        rates = self.snapshot.rates.get(stream, {})
        found: dict[Signature, float] = {}
        for label, rate in rates.items():
            said = self.words.parse(label)
            if said is None:
                continue
            if any(known.get(place, code) != code for place, code in said.items()):
                raise self._contradiction(stream, label, known)
            signature = self.words.signature({**known, **said})
            found[signature] = found.get(signature, 0.0) + rate
        total = sum(found.values())
        if not total:
            raise self._missing(stream, known, undecided)
        return {signature: rate / total for signature, rate in found.items()}

    def _contradiction(
        self, stream: Stream, label: str, known: Mapping[int, int]
    ) -> SnapshotError:
        place = dotted("rates", str(stream), label)
        actual = self.words.label(self.words.signature(known))
        problem = f"{place} cannot be: by its text, a complex event of {stream} is {actual!r}"
        return self.snapshot.error(f"{problem}; write a label that agrees with that")

    def _missing(self, stream: Stream, known: Mapping[int, int], place: int) -> SnapshotError:
        code = 0 if place < len(self.words.closed) else 1
        word = self.words.label(self.words.signature({place: code}))
        label = self.words.label(self.words.signature({**known, place: code}))
        problem = (
            f"{self.spec.name} asks complex events of {stream} for {word!r}, and neither the "
            f"text of {stream.name} nor the snapshot tells how many are"
        )
        hint = f'{{"{label}": events per second, "other": events per second}}'
        return self.snapshot.error(f"{problem}; add {dotted('rates', str(stream))}: {hint}")
