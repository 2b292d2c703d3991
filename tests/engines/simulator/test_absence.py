"""What is shed is not taken for absent: no plan and no pressure invents a match of a NOT."""

import numpy as np
import pyarrow as pa
import pytest

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.simulator.policies import ControllerPolicy
from shedlight.graph import Node, OperatorSpec, Sink, Source, Stream, build_application
from shedlight.language import parse_pattern

ABSENT = (
    "SELECT a.key AS key WHERE SEQ(a.type = 0, NOT(b.type = 1)) WITHIN 1 s PARTITION BY key"
)
BETWEEN = (
    "SELECT a.key AS key WHERE SEQ(a.type = 0, NOT(x.type = 1), c.type = 2) "
    "WITHIN 2 s PARTITION BY key"
)
BUSY = "SELECT a.key AS key WHERE SEQ(a.type = 2, b.type = 3) WITHIN 1 s PARTITION BY key"

READS = parse_pattern("SELECT a.key WHERE a.key >= 0").pattern


def _application(text):
    patterns = {"P": parse_pattern(text).pattern, "Q": parse_pattern(BUSY).pattern}
    return build_application(
        "absence",
        [Source(name="s", format="parquet", path="s", time="time", id=("id",))],
        [Node(name="n", bound=1.0), Node(name="reader")],
        [
            OperatorSpec(name="w", node="n", inputs=(Stream("s"),), patterns=patterns),
            OperatorSpec(  # a simulation leaves out what nobody reads
                name="v", node="reader", inputs=(Stream("P", "w"),), patterns={"R": READS}
            ),
        ],
        [
            Sink(name=name, input=Stream(name, "w"), format="parquet", path=name)
            for name in patterns
        ],
    )


def _events(seed, rates=(300, 900, 200, 1200, 400, 1500)):
    """Draw events whose rate goes up and down, so that plans follow each other."""
    rng = np.random.default_rng(seed)
    times, start = [], 0
    for rate in rates:
        times.append(start + np.sort(rng.integers(0, 15_000_000, rate * 15)))
        start += 15_000_000
    time = np.concatenate(times)
    return pa.table(
        {
            "time": time,
            "id": np.arange(len(time)),
            "key": rng.integers(0, 40, len(time)),
            "type": rng.choice(4, len(time), p=[0.1, 0.3, 0.3, 0.3]),
        }
    )


def _is_absent(events, row):
    """Whether nothing of type 1 is in the second after an event of type 0."""
    key = events["key"] == row["key"]
    first = row["time"] - 1_000_000
    opened = key & (events["type"] == 0) & (events["time"] == first)
    later = (events["time"] >= first) & (events["time"] <= row["time"])
    return opened.any() and not (key & (events["type"] == 1) & later).any()


def _is_between(events, row):
    """Whether nothing of type 1 is between this event and one of type 0 before it."""
    key = events["key"] == row["key"]
    recent = (events["time"] >= row["time"] - 2_000_000) & (events["time"] <= row["time"])
    opened = events["time"][key & recent & (events["type"] == 0)]
    watched = events["time"][key & recent & (events["type"] == 1)]
    return len(opened) and (not len(watched) or opened.max() >= watched.max())


@pytest.mark.parametrize(("text", "is_one"), [(ABSENT, _is_absent), (BETWEEN, _is_between)])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_absence_that_is_found_is_one(text, is_one, seed):
    """Also for partial matches that are open when their key comes to be shed."""
    application, table = _application(text), _events(seed)
    service = Service(seconds={Stream("P", "w"): 0.002, Stream("Q", "w"): 0.002})
    policy = ControllerPolicy(application, every=2)
    done = simulate(application, {"s": table}, service, policy=policy, seed=seed)

    assert sum(decision.plan is not None for decision in policy.log) >= 3
    events = {name: table[name].to_numpy() for name in table.column_names}
    found = done.sinks["P"].to_pylist()
    assert found
    assert all(is_one(events, row) for row in found)
