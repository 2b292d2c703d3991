"""The selectivity functions of an application, as far as its text alone tells them."""

from collections.abc import Mapping

from shedlight.graph.application import Application, OperatorSpec, Stream
from shedlight.language.ast.pattern import Element, elements
from shedlight.model.selectivity.formula import Selectivity, selectivity
from shedlight.model.selectivity.needs_builder import OrAs
from shedlight.model.snapshot import vocabulary_of
from shedlight.model.type_index import accepted_types, constants


def selectivities(
    application: Application, or_as: OrAs = "sum"
) -> Mapping[Stream, Selectivity]:
    """Write the selectivity function of each pattern over the types that its text names."""
    return {
        stream: selectivity(spec.patterns[stream.name].where, labels.__getitem__, or_as)
        for spec in application.operators.values()
        for labels in [_labels(spec)]
        for stream in spec.outputs
    }


def _labels(spec: OperatorSpec) -> Mapping[Element, list[str]]:
    """Find the labels that each element of an operator accepts."""
    words = vocabulary_of(spec)
    asks = {
        each: words.asks(each) for one in spec.patterns.values() for each in elements(one.where)
    }
    known = set(constants(words))
    signatures, accepted = accepted_types(words, known, tuple(dict.fromkeys(asks.values())))
    labels = [words.label(signature) for signature in signatures]
    return {each: [labels[place] for place in accepted[ask]] for each, ask in asks.items()}
