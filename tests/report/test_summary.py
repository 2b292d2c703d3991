"""The summary of a run: its nodes, matches, late events and malformed records."""

from shedlight.report.summary import summary_json, summary_text
from shedlight.runlog.aggregate import run_totals
from tests.runlog.logs import batch, decision, header, run


def test_a_summary_is_for_people_and_for_programs():
    """Late events are counted by the shards themselves, from the beginning on."""
    log = run(
        header(99.0, 3.0, bounds={"edge": 3.0, "core": None}, operators={}),
        batch(102.0, events=10, kept=4, mean=2.5, matches=3, late={"w": 2}),
        batch(104.0, events=10, kept=4, mean=2.5, matches=3, late={"w": 5}, malformed={"s": 1}),
        decision(105.0, "the load grew", replanned=True),
    )
    totals = run_totals(log.records)

    assert summary_text(totals) == (
        "node edge: 20 events in 2 micro-batches, 40% relevant and kept, "
        "mean latency 2.50 s, bound 3 s on average; OK\n"
        "node core: 0 events in 0 micro-batches; OK\n"
        "found 6 of flows.P\n"
        "late at w: 5 events\n"
        "malformed in source s: 1 record\n"
        "1 plan; last decision: the load grew"
    )
    summary = summary_json(totals)
    assert summary["nodes"]["edge"] == {
        "batches": 2,
        "events": 20,
        "kept": 8,
        "mean_latency": 2.5,
        "bound": 3.0,
        "percentile": None,
        "over_share": 0.41,
        "status": "OK",
        "advice": "",
    }
    assert (summary["late"], summary["malformed"]) == ({"w": 5}, {"s": 1})
    assert (summary["matches"], summary["plans"]) == ({"flows.P": 6}, 1)


def test_advice_stands_below_its_node():
    """As the controller gives it; latency says nothing where all events were there before."""
    log = run(
        header(99.0, timed=False),
        batch(102.0, events=10, kept=4),
        decision(103.0, status="INFEASIBLE", advice={"edge": "ask for 2 s\nor less"}),
    )

    assert summary_text(run_totals(log.records)).splitlines()[:3] == [
        "node edge: 10 events in 1 micro-batch, 40% relevant and kept; INFEASIBLE",
        "  ask for 2 s",
        "  or less",
    ]


def test_nothing_late_or_malformed_is_not_mentioned():
    """A count of nothing is no news."""
    log = run(header(99.0), batch(102.0, late={"w": 0}, malformed={"s": 0}))

    totals = run_totals(log.records)
    assert "late at" not in summary_text(totals)
    assert "malformed" not in summary_text(totals)
    assert summary_json(totals)["late"] == {}


def test_a_summary_says_what_was_lost_or_that_it_is_not_known():
    """By what the unshed sample said last; a new start begins anew."""
    known = {"keys": 80, "heavy_hitters": 2, "heavy_work": 0.25, "heavy_results": 7}
    known |= {"recall": 0.5, "recall_low": 0.4, "recall_high": 0.625}
    known |= {"rate": 1234.5, "rate_low": 1000.0, "rate_high": 1500.0}
    unknown = {"keys": 3, "unknown": "3 of the sample's keys have results, 50 are needed"}
    rows = [
        header(99.0),
        batch(102.0, unshed_sample={"out": unknown, "rest": unknown}),
        batch(103.0, unshed_sample={"out": known}),
        batch(104.0),
    ]
    totals = run_totals(run(*rows).records)

    assert [line for line in summary_text(totals).splitlines() if "sink" in line] == [
        (
            "sink out: 50% of the results without shedding (40% to 62%), which are 1,234 per "
            "second (1,000 to 1,500); by 80 keys of the unshed sample; without 2 heavy hitters "
            "with 25% of the work and 7 results"
        ),
        (
            "sink rest: results without shedding not known; "
            "3 of the sample's keys have results, 50 are needed"
        ),
    ]
    assert summary_json(totals)["unshed_sample"]["out"]["recall"] == 0.5
    assert run_totals(run(*rows, header(105.0)).records).unshed_sample == {}
