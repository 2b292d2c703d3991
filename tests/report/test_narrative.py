"""A run in sentences: what is said, and that nothing is claimed that the log does not say."""

import pytest

from shedlight.report.narrative import sentences
from tests.runlog.logs import batch, decision, header, run


@pytest.fixture
def overloaded():
    """Have a run that sheds once it is given too much."""
    shares = {"flows.P": {"type=a": 0.25, "type=b": 1.0}}
    return run(
        header(100.0),
        batch(101.0),
        decision(101.0),
        batch(105.0, events=400, kept=400, mean=3.0),
        decision(
            105.0,
            "node 'edge': too busy",
            status="BOUND-AT-RISK",
            advice={"edge": "give it more cores"},
            replanned=True,
            shares=shares,
        ),
        batch(109.0, events=1000, kept=300),
        decision(109.0, "all is well", status="SHEDDING", shares=shares),
    )


def test_a_run_is_described_in_sentences(overloaded):
    """Was the bound kept, what was shed, when and why did plans change."""
    assert sentences(overloaded) == [
        (
            "The run of demo took 9.0 s from 1970-01-01 00:01:40 UTC: 3 micro-batches on "
            "1 node, 3 complex events found, 3 decisions."
        ),
        (
            "Node edge kept its bound: the mean latency was 2.0 s, the bound is 2.0 s on "
            "average; 1 of 3 micro-batches had a mean above it, at worst 3.0 s at 0:05."
        ),
        "Node edge kept 53% of 1,500 events; 700 were shed or relevant to no pattern.",
        "The plan changed once.",
        "At 0:05 the plan changed: node 'edge': too busy.",
        "The last plan keeps least of: flows.P 25% of type=a.",
    ]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([header(9.0, bound=0.5), batch(10.0)], "did not keep its bound"),
        ([header(9.0, bound=None), batch(10.0)], "has no bound"),
        ([batch(10.0)], "the log does not say its bound"),
        ([header(9.0, timed=False), batch(10.0)], "its latency says nothing"),
        ([batch(10.0, kept=0)], "kept no event"),
        ([batch(10.0, kept=40, relevant_events=70)], "; 30 were shed."),
        ([batch(10.0, malformed={"s": 1})], "Source s: 1 malformed record."),
        ([batch(10.0, late={"flows": 2})], "At flows, 2 events came too late."),
        ([batch(10.0)], "The plan never changed."),
    ],
)
def test_each_outcome_has_its_words(rows, says):
    """Nothing is claimed that the log does not say."""
    assert says in "\n".join(sentences(run(*rows)))
