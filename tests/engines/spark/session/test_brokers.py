"""Brokers that cannot be called are named before Spark starts."""

import socket

import pytest

from shedlight.engines.spark.session.brokers import check_brokers
from shedlight.errors import InputError
from shedlight.graph import (
    Node,
    OperatorSpec,
    SideOutput,
    Sink,
    Source,
    Stream,
    build_application,
)
from shedlight.language import parse_pattern


@pytest.fixture
def listening():
    """Have something that can be called."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed():
    """Have an address where nothing listens any more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"127.0.0.1:{port}"


def _application(source, malformed, sink):
    def options(servers, **more):
        return {"kafka.bootstrap.servers": servers, **more}

    parsed = parse_pattern("SELECT a.key WHERE a.key = 'x'").pattern
    side = SideOutput(format="kafka", options=options(malformed, topic="bad"))
    read = Source(
        name="s",
        format="kafka",
        time="timestamp",
        options=options(source, subscribe="in"),
        malformed=side,
    )
    spec = OperatorSpec(name="w", node="n", inputs=(Stream("s"),), patterns={"P": parsed})
    written = Sink(
        name="k", input=Stream("P", "w"), format="Kafka", options=options(sink, topic="out")
    )
    return build_application("a", [read], [Node(name="n")], [spec], [written])


def test_one_broker_of_several_is_enough(listening, closed):
    """As it is for Kafka's own clients; a protocol may stand before the address."""
    check_brokers(_application(f"{closed}, {listening}", listening, f"PLAIN://{listening}"))


@pytest.mark.parametrize("part", ["source s", "malformed of source s", "sink k"])
def test_who_has_no_broker_is_named(listening, closed, part):
    """With the address, the reason, and what to do."""
    places = ("source s", "malformed of source s", "sink k")
    servers = [closed if place == part else listening for place in places]
    with pytest.raises(InputError) as error:
        check_brokers(_application(*servers))
    assert str(error.value) == (
        f"{part}: no broker of Kafka can be called ({closed}: Connection refused); start it, "
        "or put the option kafka.bootstrap.servers right"
    )


@pytest.mark.parametrize(
    ("servers", "reason"),
    [
        ("localhost:none", "localhost:none: invalid literal for int"),
        ("no.such.host.invalid:1", "no.such.host.invalid:1: "),
        (" , ", "no address is given"),
        ("localhost:99999", "localhost:99999: "),
    ],
)
def test_what_is_no_address(listening, servers, reason):
    """It is shown as it is written."""
    with pytest.raises(InputError) as error:
        check_brokers(_application(servers, listening, listening))
    assert f"can be called ({reason}" in str(error.value)
