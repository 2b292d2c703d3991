"""The event types of an operator: what arrives there, and which elements accept it.

Types come from the labels that a snapshot has for the inputs of the operator, and from the
constants that its patterns ask for. Complex events are of the type that the text of their
pattern tells; where it does not, the snapshot says how they are spread. What no element accepts
is not relevant, and so is not a type.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from shedlight.errors import SnapshotError
from shedlight.graph.application import Application, OperatorSpec, Stream
from shedlight.graph.columns import Columns, output_columns
from shedlight.language.ast.pattern import Element
from shedlight.matching.compile.predicates import Signature
from shedlight.matching.compile.type_labels import Vocabulary
from shedlight.model.arrays import Floats, Ints
from shedlight.model.output_types import known_attributes
from shedlight.model.quantity import format_keys
from shedlight.model.snapshot import ByType, Snapshot
from shedlight.model.type_index import ElementTests, accepted_types, element_tests

_Amounts = Mapping[Signature, float]


@dataclass(frozen=True, slots=True, eq=False)
class OperatorTypes:
    """The types of an operator; they are numbered in the order of `labels`."""

    vocabulary: Vocabulary  # the words of their labels
    labels: tuple[str, ...]  # the types, in order of their signatures
    signatures: tuple[Signature, ...]  # what holds of each
    sources: Mapping[str, Floats]  # events per second of each type from each source
    # the share of the complex events of each pattern upstream that is of each type
    feeds: Mapping[Stream, Floats]
    unused: Mapping[str, float]  # events per second from each source that no element accepts
    accepted: Mapping[Element, Ints]  # the types that each element accepts, ascending

    def types_with(self, label: str) -> Ints:
        """Find the types of which all words of a label hold."""
        codes = self.vocabulary.parse(label)
        if codes is None:
            return np.zeros(0, np.int64)
        required = codes or dict(enumerate(self.vocabulary.null_signature))
        numbers = (
            number
            for number, signature in enumerate(self.signatures)
            if all(signature[component] == code for component, code in required.items())
        )
        return np.fromiter(numbers, np.int64)


def operator_types(
    application: Application,
    snapshot: Snapshot,
    spec: OperatorSpec,
    columns: Mapping[str, Columns],
    vocabulary: Vocabulary,
) -> OperatorTypes:
    """Find the types of an operator, given the columns that each operator sees.

    SnapshotError if neither text nor snapshot says of what type complex events are.
    """
    tests = element_tests(spec, vocabulary)
    upstream = _Upstream(application, snapshot, spec, vocabulary, dict.fromkeys(tests.values()))
    sources: dict[str, _Amounts] = {}
    feeds: dict[Stream, _Amounts] = {}
    for stream in spec.inputs:
        if stream.operator is None:
            sources[stream.name] = _source_amounts(vocabulary, snapshot.rates[stream])
        else:
            feeds[stream] = upstream.shares(stream, columns[stream.operator])
    known = {s for amounts in (*sources.values(), *feeds.values()) for s in amounts}
    signatures, accepted = accepted_types(vocabulary, known, tests)
    numbers = {signature: number for number, signature in enumerate(signatures)}
    return OperatorTypes(
        vocabulary,
        tuple(map(vocabulary.label, signatures)),
        signatures,
        {name: _by_number(amounts, numbers) for name, amounts in sources.items()},
        {stream: _by_number(amounts, numbers) for stream, amounts in feeds.items()},
        {name: _unused(vocabulary, snapshot.rates[Stream(name)], numbers) for name in sources},
        accepted,
    )


def _source_amounts(vocabulary: Vocabulary, rates: ByType) -> _Amounts:
    """Read rates by label; a label that is another operator's says nothing here."""
    amounts: dict[Signature, float] = {}
    for label, rate in rates.items():
        codes = vocabulary.parse(label)
        if codes is not None:
            signature = vocabulary.signature(codes)
            amounts[signature] = amounts.get(signature, 0.0) + rate
    return amounts


def _by_number(amounts: _Amounts, numbers: Mapping[Signature, int]) -> Floats:
    array = np.zeros(len(numbers))
    for signature, amount in amounts.items():
        if signature in numbers:
            array[numbers[signature]] += amount
    return array


def _unused(vocabulary: Vocabulary, rates: ByType, numbers: Mapping[Signature, int]) -> float:
    """Add up what is of no type here: what no element accepts, what only others know."""
    by_codes = ((vocabulary.parse(label), rate) for label, rate in rates.items())
    return sum(
        rate
        for codes, rate in by_codes
        if codes is None or vocabulary.signature(codes) not in numbers
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Upstream:
    """How complex events from upstream are spread over the types of an operator."""

    application: Application
    snapshot: Snapshot
    spec: OperatorSpec
    vocabulary: Vocabulary
    tests: Iterable[ElementTests]

    def shares(self, stream: Stream, columns: Columns) -> _Amounts:
        """Find the share of each type, given the columns that the pattern upstream sees."""
        pattern = self.application.pattern(stream)
        output = known_attributes(stream, pattern, output_columns(stream, pattern, columns))
        known = output.codes(self.vocabulary)
        undecided = self._undecided(known)
        if undecided is None:
            return {self.vocabulary.signature(known): 1.0}
        return self._measured(stream, known, undecided)

    def _undecided(self, known: Mapping[int, int]) -> int | None:
        """Find a component that matters to an element and is not known."""
        nothing = self.vocabulary.null_signature
        for tests in self.tests:
            unknown = [test.component for test in tests if test.component not in known]
            if unknown and all(
                test.allows(known[test.component], nothing[test.component])
                for test in tests
                if test.component in known
            ):
                return unknown[0]
        return None

    def _measured(self, stream: Stream, known: Mapping[int, int], undecided: int) -> _Amounts:
        """Take the shares from the snapshot; what is known need not be said there."""
        amounts: dict[Signature, float] = {}
        for label, rate in self.snapshot.rates.get(stream, {}).items():
            codes = self.vocabulary.parse(label)
            if codes is None:
                continue
            if any(known.get(component, code) != code for component, code in codes.items()):
                raise self._contradiction(stream, label, known)
            signature = self.vocabulary.signature({**known, **codes})
            amounts[signature] = amounts.get(signature, 0.0) + rate
        total = sum(amounts.values())
        if not total:
            raise self._missing(stream, known, undecided)
        return {signature: rate / total for signature, rate in amounts.items()}

    def _label(self, codes: Mapping[int, int]) -> str:
        return self.vocabulary.label(self.vocabulary.signature(codes))

    def _contradiction(
        self, stream: Stream, label: str, known: Mapping[int, int]
    ) -> SnapshotError:
        path, actual = format_keys("rates", str(stream), label), self._label(known)
        problem = f"{path} cannot be: by its text, a complex event of {stream} is {actual!r}"
        return self.snapshot.error(f"{problem}; write a label that agrees with that")

    def _missing(
        self, stream: Stream, known: Mapping[int, int], undecided: int
    ) -> SnapshotError:
        code = {undecided: 0 if undecided < len(self.vocabulary.closed) else 1}
        problem = (
            f"{self.spec.name} asks complex events of {stream} for {self._label(code)!r}, and "
            f"neither the text of {stream.name} nor the snapshot tells how many are"
        )
        label = self._label({**known, **code})
        hint = f'{{"{label}": events per second, "other": events per second}}'
        path = format_keys("rates", str(stream))
        return self.snapshot.error(f"{problem}; add {path}: {hint}")
