"""Channels: the topics of Kafka by which complex events get from node to node."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shedlight.graph.kafka import KAFKA, SERVERS, SUBSCRIPTIONS, TOPIC

Edge = tuple[str, str]
"""The node that finds complex events, and the one that reads them."""

PREFIX = "shedlight"
"""What the names of topics begin with, if the application does not say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    """How complex events get from node to node, where not through folders.

    Attributes:
        format: kafka.
        options: Where the brokers are, and what else Spark's connector takes.
        prefix: What the names of topics begin with: another one for each deployment.
        links: How many bytes per second get from one node to another, where that is limited.
    """

    format: str = KAFKA
    options: Mapping[str, str] = field(default_factory=dict)
    prefix: str = PREFIX
    links: Mapping[Edge, float] = field(default_factory=dict)


def link_name(edge: Edge) -> str:
    """Write a link as in an application file.

    Example:
        >>> link_name(("edge-2", "core"))
        'edge-2 -> core'
    """
    return " -> ".join(edge)


def format_data_rate(rate: float) -> str:
    """Write bytes per second.

    Example:
        >>> format_data_rate(2.5e6), format_data_rate(300)
        ('2.5 MB/s', '300 B/s')
    """
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if rate >= size:
            return f"{rate / size:.3g} {unit}/s"
    return f"{rate:.3g} B/s"


def channel_problems(options: Mapping[str, str]) -> Iterator[str]:
    """Say what is missing or too much of the options of channels."""
    given = {name.lower() for name in options}
    if SERVERS not in given:
        yield f"has no option {SERVERS!r}: where the brokers are, such as localhost:9092"
    for name in (TOPIC, *SUBSCRIPTIONS):
        if name.lower() in given:
            yield f"has the option {name!r}, and topics have names of ours; leave it out"
