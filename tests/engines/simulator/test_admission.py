"""Admission: events are shed by the queue in front of them, and nothing is invented."""

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.simulator import (
    ServedEvents,
    Service,
    ServiceDistribution,
    simulate,
)
from shedlight.engines.simulator.admission import serve_admitted
from shedlight.engines.simulator.policies import ControllerPolicy
from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream, build_application
from shedlight.graph.closures import exempt_patterns
from shedlight.language import parse_pattern
from tests.drawn_graphs import DrawnPlans, draw_application, draw_events
from tests.law import Kept, Run

PLAIN = "SELECT a.type WHERE SEQ(a.type = 0, b.type = 1) WITHIN 2 s"
ABSENT = "SELECT a.type WHERE SEQ(a.type = 0, NOT(x.type = 1), c.type = 2) WITHIN 2 s"
P, Q = Stream("P", "w"), Stream("Q", "w")

seconds = st.floats(0, 2)
events = st.lists(st.tuples(seconds, seconds, seconds, seconds, st.booleans()), max_size=30)


def application(*texts, bound=0.5, percentile=95, never_shed=()):
    """Build a node with patterns P, Q, ... on one source."""
    patterns = {n: parse_pattern(t).pattern for n, t in zip("PQ", texts, strict=False)}
    spec = OperatorSpec(
        name="w", node="n", inputs=(Stream("s"),), patterns=patterns, never_shed=never_shed
    )
    return build_application(
        "admission",
        [Source(name="s", format="parquet", path="s", time="time", id=("id",))],
        [Node(name="n", bound=bound, percentile=percentile)],
        [spec],
        [Sink(name=n, input=Stream(n, "w"), format="parquet", path=n) for n in patterns],
    )


def stream(rate, duration=20.0, seed=0):
    """Draw events of four types, evenly spread."""
    rng, number = np.random.default_rng(seed), round(rate * duration)
    time = np.sort(rng.integers(0, round(duration * 1e6), number))
    return pa.table({"time": time, "id": np.arange(number), "type": rng.integers(0, 4, number)})


def latencies(batches):
    """Give how long events took that were not exempt."""
    return np.concatenate([(b.queueing + b.processing)[~b.exempt] for b in batches])


@given(events, st.floats(0.1, 5), st.floats(0, 5))
def test_an_event_is_admitted_by_the_queue_in_front_of_it(drawn, bound, free):
    """As if the queue were worked off step by step."""
    arrivals = np.cumsum([gap for gap, *_ in drawn])
    certain, asked, expected = (np.array([row[i] for row in drawn], float) for i in (1, 2, 3))
    columns = (certain, asked, expected, np.array([row[4] for row in drawn], bool))
    leave, admitted, at = serve_admitted(arrivals, columns, bound, free)

    for arrival, (_, always, others, longest, asks), left, admits in zip(
        arrivals, drawn, leave, admitted, strict=True
    ):
        start = max(free, arrival)
        assert admits == (not asks or start - arrival + longest <= bound)
        free = start + always + (others if admits else 0.0)
        assert left == pytest.approx(free)
    assert at == pytest.approx(free)


@given(
    load=st.floats(1.2, 5),
    percentile=st.sampled_from([50, 75, 90, 95, 99]),
    services=st.floats(1, 300),
    distribution=st.sampled_from(
        [ServiceDistribution.EXPONENTIAL, ServiceDistribution.CONSTANT]
    ),
    seed=st.integers(0, 99),
)
@settings(max_examples=15)
def test_no_more_than_a_percentile_says_take_longer(
    load, percentile, services, distribution, seed
):
    """Whatever the load is, and however many services the bound is; less what is chance."""
    app, served = application(PLAIN, percentile=percentile), list[ServedEvents]()
    mean = max(0.5 / services, load / 250)  # of half of the types, at most 500 events/s
    simulate(
        app,
        {"s": stream(2 * load / mean, seed=seed)},
        Service(seconds={P: mean}, distribution=distribution),
        policy=ControllerPolicy(app),
        seed=seed,
        on_served=served.append,
    )

    times, allowed = latencies(served), 1 - percentile / 100
    chance = 4 * np.sqrt(allowed / max(1, len(times)))
    assert (times > 0.5 + 1e-6).mean() <= allowed + chance if len(times) else True


def test_a_bound_of_the_mean_admits_everything():
    """What exceeds it is shed by plans and pressure, not one by one."""
    app, service = application(PLAIN, percentile=None), Service(seconds={P: 0.004})
    done = simulate(app, {"s": stream(1000)}, service)

    assert all(interval.not_admitted == {"n": 0} for interval in done.intervals)
    assert done.counts["w"].shed == 0


def test_what_is_not_admitted_is_counted_as_shed():
    """Each event is one of processed, shed or unused, interval by interval too."""
    app, service = application(PLAIN), Service(seconds={P: 0.004})
    done = simulate(app, {"s": stream(1000)}, service)

    counts = done.counts["w"]
    not_admitted = sum(interval.not_admitted["n"] for interval in done.intervals)
    assert not_admitted == counts.shed > 1000
    assert counts.processed + counts.shed + counts.unused == counts.arrived
    assert sum(interval.processed["n"] for interval in done.intervals) == counts.processed
    busy = sum(interval.busy["n"] for interval in done.intervals)
    assert busy == pytest.approx(sum(i.spent[P][0] for i in done.intervals))
    assert busy / 20 == pytest.approx(1.0, abs=0.05)


def test_a_replay_admits_the_same_events():
    """It depends on the queue alone: the recorded shares bring the same queue again."""
    app, table = application(PLAIN, PLAIN.replace("1", "2")), stream(900)
    service = Service(seconds={P: 0.003, Q: 0.002})
    first = simulate(
        app, {"s": table}, service, policy=ControllerPolicy(app), with_outputs=True
    )

    class Replay:
        def __init__(self):
            self.left = list(first.shares[1:])

        def decide(self, _):
            return self.left.pop(0)

    again = simulate(app, {"s": table}, service, policy=Replay(), with_outputs=True)

    assert any(interval.not_admitted["n"] for interval in first.intervals)
    assert first.intervals == again.intervals
    assert first.outputs == again.outputs


def test_patterns_of_protected_closures_are_exempt():
    """A single event that is shed would be taken for absent; others are shed in its place."""
    app = application(ABSENT, PLAIN)
    service, served = Service(seconds={P: 0.002, Q: 0.002}), list[ServedEvents]()
    done = simulate(app, {"s": stream(1000)}, service, on_served=served.append)
    whole = simulate(app, {"s": stream(1000)}, service, with_admission=False)

    assert exempt_patterns(app) == {"n": (P,)}
    assert len(done.sinks["P"]) == len(whole.sinks["P"])
    assert len(done.sinks["Q"]) < len(whole.sinks["Q"])
    for one, other in zip(done.intervals, whole.intervals, strict=True):
        assert one.kept[P] == other.kept[P]
    assert sum(batch.exempt.sum() for batch in served) == sum(
        number for interval in done.intervals for number in interval.kept[P].values()
    )


def test_types_that_are_never_shed_are_admitted():
    """As plans and pressure leave them alone."""
    app = application(PLAIN, never_shed=("type=1",))
    done = simulate(app, {"s": stream(1000)}, Service(seconds={P: 0.003}))

    for interval in done.intervals:
        arrived = interval.arrivals["w"][Stream("s")]
        assert interval.kept[P].get("type=1", 0) == arrived.get("type=1", 0)
    kept, arrived = (
        sum(counts(interval).get("type=0", 0) for interval in done.intervals)
        for counts in (lambda i: i.kept[P], lambda i: i.arrivals["w"][Stream("s")])
    )
    assert kept < arrived / 2


def _check_law(seed):
    """Run a random application with admission; give how many events were not admitted."""
    rng = random.Random(seed)
    drawn, table = draw_application(rng), draw_events(rng)
    nodes = {
        name: replace(node, bound=0.05, percentile=90) for name, node in drawn.nodes.items()
    }
    app = replace(drawn, nodes=nodes)
    span = (table["time"].to_numpy().max() - table["time"].to_numpy().min()) / 1e6
    each = rng.uniform(0.5, 3) * span / len(table)
    done = simulate(
        app,
        {"s": table},
        Service(seconds=dict.fromkeys([s for s in app.streams if s.operator], each)),
        interval=rng.choice([0.05, 0.2, 1.0]),
        policy=DrawnPlans(app, rng),
        with_outputs=True,
    )
    record = [Kept(*row) for row in done.thresholds]
    Run(app, {"s": table}, record, done.outputs).check()
    return sum(sum(interval.not_admitted.values()) for interval in done.intervals)


def test_admission_invents_nothing():
    """The law holds: random graphs, plans and loads, judged by the checker."""
    assert sum(map(_check_law, range(8))) > 10


@pytest.mark.soak
def test_admission_invents_nothing_in_many_runs():
    """The long version."""
    assert sum(map(_check_law, range(1_000, 3_000))) > 1_000
