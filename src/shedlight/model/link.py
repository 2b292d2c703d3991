"""The load of links: bytes per second against their capacity.

All that other nodes read of a node is in one topic, and whoever reads it gets all of that. So
what goes over a link is what its node emits for others, whoever asks for which of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shedlight.graph.application import Stream
from shedlight.model.model import LinkModel, Model
from shedlight.model.rates import Rates


@dataclass(frozen=True, slots=True)
class LinkLoad:
    """What goes over a link."""

    rate: float  # bytes per second
    limit: float  # how many there may be: the capacity times the aim

    @property
    def fits(self) -> bool:
        """Whether the limit is kept."""
        return self.rate <= self.limit * (1 + 1e-9)


def sent_over(model: Model, link: LinkModel) -> Iterator[tuple[Stream, float]]:
    """List the patterns that go over a link, with the bytes of a complex event."""
    for operator in model.operators_on(link.node):
        for pattern in operator.patterns:
            if pattern.event_bytes:
                yield pattern.stream, pattern.event_bytes


def link_loads(model: Model, rates: Rates, aim: float) -> Mapping[str, LinkLoad]:
    """Find out what goes over each link."""
    return {
        link.name: LinkLoad(
            sum(rates.outputs[stream] * size for stream, size in sent_over(model, link)),
            aim * link.capacity,
        )
        for link in model.links
    }
