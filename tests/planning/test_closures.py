"""Plans of protected closures: whole, off, or the same keys of all of it."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream, build_application
from shedlight.language import parse_pattern
from shedlight.model.build import build_model
from shedlight.model.latency import LatencyModel, Target
from shedlight.model.snapshot import Snapshot
from shedlight.planning.plan import PlanSettings, make_plan

P, Q, X = Stream("P", "w"), Stream("Q", "w"), Stream("X", "alarm")
SETTINGS = PlanSettings(target=Target(latency=LatencyModel.MM1))
RATES = st.tuples(*[st.floats(1, 100)] * 4)
LOADS = st.floats(1.05, 8)


def _model(rates, load, by=""):
    """Build an alarm if no Q follows a P, with P and Q at a node with this load."""
    edge = {
        "P": f"SELECT a.key AS key WHERE SEQ(a.type = 0, b.type = 1) WITHIN 1 s{by}",
        "Q": f"SELECT a.key AS key WHERE SEQ(a.type = 2, b.type = 3) WITHIN 1 s{by}",
    }
    alarm = f"SELECT a.key AS key WHERE SEQ(a.source = 'P', NOT(b.source = 'Q')) WITHIN 1 s{by}"
    application = build_application(
        "alarm",
        [Source(name="s", format="parquet", path="s", time="time", id=("id",))],
        [Node(name="edge", bound=3.0), Node(name="core")],
        [
            OperatorSpec(
                name="w",
                node="edge",
                inputs=(Stream("s"),),
                patterns={name: parse_pattern(text).pattern for name, text in edge.items()},
            ),
            OperatorSpec(
                name="alarm",
                node="core",
                inputs=(P, Q),
                patterns={"X": parse_pattern(alarm).pattern},
            ),
        ],
        [Sink(name="x", input=X, format="parquet", path="x")],
    )
    types = {f"type={number}": rate for number, rate in enumerate(rates)}
    each = load / sum(rates)
    snapshot = Snapshot(rates={Stream("s"): types}, processing_time={P: each, Q: each})
    return build_model(application, snapshot)


@settings(max_examples=60, deadline=None)
@given(RATES, LOADS)
@example(
    (67.19681908548708, 39.56262425447316, 81.11332007952286, 22.266401590457257),
    1.1844736280968116,
)
def test_what_an_alarm_watches_is_kept_whole_or_the_alarm_is_off(rates, load):
    """Exactly whole: a share that a solver rounded down would switch the alarm off."""
    plan = make_plan(_model(rates, load), SETTINGS)
    whole = bool((plan.keep[Q] == 1).all())
    assert whole == (plan.rates.outputs[X] > 0)
    assert plan.loads["edge"].fits
    # if Q leaves room for any of P, the alarm is on
    rest = plan.loads["edge"].limit / load * sum(rates) - rates[2] - rates[3]
    if rest > 1e-3 * sum(rates):
        assert whole


@settings(max_examples=60, deadline=None)
@given(RATES, LOADS)
def test_a_closure_with_a_common_key_keeps_the_keys_that_fit(rates, load):
    """The alarm is at a node that is not planned, and finds what both keep the keys of."""
    model = _model(rates, load, " PARTITION BY key")
    plan = make_plan(model, SETTINGS)
    fits = plan.loads["edge"].limit / load
    assert plan.objective >= min(rates[:2]) * fits * (1 - 1e-6)
    assert np.unique(plan.keep[P]).size == np.unique(plan.keep[Q]).size == 1
    assert plan.keep[P][0] == pytest.approx(plan.keep[Q][0])
