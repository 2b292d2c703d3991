"""The values that an application is made of: what each refuses, and how it is written."""

import math
import pickle
from dataclasses import replace

import pytest

from shedlight.graph import (
    Application,
    Node,
    OperatorSpec,
    Sink,
    Source,
    Stream,
    build_application,
    load_application,
)
from tests.graph.applications import PAPER, graph, source, stream


def test_a_stream_is_written_as_in_the_file():
    """A reference in messages is one that can be copied."""
    assert str(Stream("s1")) == "s1"
    assert str(Stream("Q11", "w1")) == "w1.Q11"


def test_a_time_zone_is_one_that_there_is():
    """Its name is that of the database of time zones."""
    plain = Source(name="s", format="json", path="s", time="ts", id=("n",))
    assert replace(plain, time_zone="Europe/Berlin").time_zone == "Europe/Berlin"
    with pytest.raises(ValueError, match="unknown time zone 'Berlin'; name one such as Europe"):
        replace(plain, time_zone="Berlin")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: source("s", id=()), "source 's' needs at least one id column"),
        (lambda: source("s", lateness=-1), "lateness cannot be negative, got -1"),
        (lambda: source("s", idle=0), "idle must be longer than zero, got 0"),
        (lambda: Node(name="n", bound=0), "bound must be longer than zero, got 0"),
        (lambda: Node(name="n", bound=math.nan), "bound must be longer than zero, got nan"),
        (
            lambda: Node(name="n", bound=3.0, percentile=101),
            "percentile must be a whole number from 50 to 99, got 101; leave it out for",
        ),
        (lambda: Node(name="n", percentile=95), "percentile 95 has no bound; give one"),
        (
            lambda: Sink(name="x", input=stream("w.A"), format="console", weight=-1),
            "weight must be a number from 0 on, got -1",
        ),
        (
            lambda: Sink(name="x", input=stream("w.A"), format="console", min_rate=-1),
            "min_rate must be a number from 0 on, got -1",
        ),
        (
            lambda: Sink(name="x", input=stream("w.A"), format="console", min_share=1.5),
            r"min_share must be from 0 to 1, got 1\.5",
        ),
        (
            lambda: Sink(name="x", input=stream("w.A"), format="console", timed_out=True),
            "sink 'x' takes what timed out, which plans do not count; give it weight=0",
        ),
        (
            lambda: OperatorSpec(name="w", node="n", inputs=(), patterns={}),
            "operator 'w' needs at least one input",
        ),
        (
            lambda: OperatorSpec(name="w", node="n", inputs=(Stream("s"),), patterns={}),
            "operator 'w' needs at least one pattern",
        ),
        (
            lambda: build_application("a", [source("s"), source("s")], [], [], []),
            "two of the same name: 's'",
        ),
        (
            lambda: Application(
                name="a", sources={"t": source("s")}, nodes={}, operators={}, sinks={}
            ),
            "'s' is filed under the name 't'",
        ),
    ],
)
def test_a_part_that_makes_no_sense_is_not_made(make, message):
    """A value is checked when it is made."""
    with pytest.raises(ValueError, match=message):
        make()


def test_streams_are_the_sources_and_the_patterns():
    """All that can be read, in order of declaration."""
    application = graph("w1: s1 s2 -> A B", "w2: w1.A -> C")

    assert " ".join(map(str, application.streams)) == "s1 s2 w1.A w1.B w2.C"
    assert str(application.pattern(stream("w2.C"))) == "SELECT E WHERE E"
    with pytest.raises(ValueError, match="s1 is a source, not a pattern"):
        application.pattern(stream("s1"))


def test_an_application_can_be_sent_to_another_process():
    """Spark's workers get it so."""
    application = load_application(PAPER).application

    assert pickle.loads(pickle.dumps(application)) == application  # noqa: S301 - our own
