"""Checks that brokers of Kafka can be called, before Spark starts.

Spark would call them for minutes, again and again, and not say where.
"""

import socket
from collections.abc import Iterator, Mapping

from shedlight.engines.spark.session.preflight import CONNECT_TIMEOUT_S
from shedlight.errors import InputError
from shedlight.graph import Application
from shedlight.graph.kafka import KAFKA, SERVERS

_PORT = 9092  # Kafka's own, where none is given


def kafka_options(application: Application) -> Iterator[tuple[str, Mapping[str, str]]]:
    """List what reads or writes records of Kafka, with its options; their names are lower."""
    for name, source in application.sources.items():
        if source.is_kafka:
            yield f"source {name}", _lower_names(source.options)
        for side, output in source.side_outputs.items():
            if output.format.lower() == KAFKA:
                yield f"{side} of source {name}", _lower_names(output.options)
    for name, sink in application.sinks.items():
        if sink.format.lower() == KAFKA:
            yield f"sink {name}", _lower_names(sink.options)
    if application.channels is not None:
        yield "channels", _lower_names(application.channels.options)


def _lower_names(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in options.items()}


def check_brokers(application: Application) -> None:
    """See that a broker answers for each source, sink and side output of Kafka, and channels.

    Raises:
        InputError: None can be called where one of them says that brokers are.
    """
    reached: set[str] = set()
    for what, options in kafka_options(application):
        servers = options.get(SERVERS, "")
        if servers in reached:
            continue
        problems = [_problem(one.strip()) for one in servers.split(",") if one.strip()]
        if None not in problems:
            reasons = "; ".join(filter(None, problems)) or "no address is given"
            raise InputError(
                f"{what}: no broker of Kafka can be called ({reasons}); start it, or put the "
                f"option {SERVERS} right"
            )
        reached.add(servers)


def _problem(server: str) -> str | None:
    """Call a broker; say what went wrong, if anything did."""
    address = server.rpartition("://")[2]
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(_PORT)
    try:
        place = host.strip("[]"), int(port)
        socket.create_connection(place, CONNECT_TIMEOUT_S).close()
    except (OSError, ValueError, OverflowError) as error:
        return f"{server}: {getattr(error, 'strerror', None) or error}"
    return None
