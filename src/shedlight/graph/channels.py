"""Channels: the topics of Kafka by which complex events get from node to node."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shedlight.graph.kafka import KAFKA, SERVERS, SUBSCRIPTIONS, TOPIC

PREFIX = "shedlight"
"""What the names of topics begin with, if the application does not say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    """How complex events get from node to node, where not through folders.

    Attributes:
        format: kafka.
        options: Where the brokers are, and what else Spark's connector takes.
        prefix: What the names of topics begin with: another one for each deployment.
    """

    format: str = KAFKA
    options: Mapping[str, str] = field(default_factory=dict)
    prefix: str = PREFIX


def channel_problems(options: Mapping[str, str]) -> Iterator[str]:
    """Say what is missing or too much of the options of channels."""
    given = {name.lower() for name in options}
    if SERVERS not in given:
        yield f"has no option {SERVERS!r}: where the brokers are, such as localhost:9092"
    for name in (TOPIC, *SUBSCRIPTIONS):
        if name.lower() in given:
            yield f"has the option {name!r}, and topics have names of ours; leave it out"
