"""Keys shed in strata in the JVM: the very events that Python and the simulator keep."""

import random
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.simulator.closure_state import ClosureState
from shedlight.engines.simulator.decide import Decider
from shedlight.engines.spark.shed.cell_limits import with_head
from shedlight.engines.spark.shed.keep_sql import (
    add_keep_flags_and_filter,
    shed_patterns,
)
from shedlight.engines.spark.shed.plan_column import found_name, heavy_name, open_name
from shedlight.engines.spark.shed.strata_limits import (
    cell_limits,
    cell_shares,
    open_numbers,
    table_numbers,
)
from shedlight.engines.spark.shed.strata_sql import HISTORIES, LOOKED
from shedlight.engines.spark.shed.type_catalog import type_catalogs
from shedlight.engines.spark.source.arrival import arrivals_name, read_arrival_stats
from shedlight.engines.spark.step.chain import define_chain
from shedlight.engines.spark.step.keep_flags import HashPlan, flag_names, keep_masks
from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.engines.spark.support.placement import ChainSpec, NodeContext, OperatorChain
from shedlight.engines.spark.support.sample_spec import SampleSpec
from shedlight.graph import (
    Node,
    OperatorSpec,
    Sink,
    Source,
    Stream,
    build_application,
)
from shedlight.graph.closures import find_closures
from shedlight.language import parse_pattern
from shedlight.matching.operators.cep_operator import ingest, new_operator_state
from shedlight.matching.operators.classify import gather
from shedlight.matching.operators.reorder import StreamInput
from shedlight.model.model import SheddingWay
from shedlight.shedding.found_keys import FoundKeys
from shedlight.shedding.guard import relevant_types
from shedlight.shedding.key_bitmap import KeyBitmap
from shedlight.shedding.shares import PatternShares, Shares
from shedlight.shedding.stratum_shares import StrataTable, StratumShares
from shedlight.shedding.unshed_sample import choose_keys

pytestmark = pytest.mark.spark

PATTERNS = {
    "A": "SELECT a.type WHERE SEQ(a.type = 0, b.type = 1) WITHIN 3 ms PARTITION BY key, name",
    "B": "SELECT a.type WHERE AND(a.type = 2, b.type = 1, c.name = 'x') WITHIN 2 ms "
    "PARTITION BY key, name",
}
LABELS = ("type=0 & name=x", "type=0", "type=1 & name=x", "type=1", "type=2")
READ, EVENTS = Stream("s"), 1200


@dataclass(frozen=True, slots=True)
class Case:
    """What the patterns keep, what is known of keys, and of which share a sample is."""

    shares: Shares
    found: FoundKeys
    sample: float = 0.0


def _events(seed: int = 3) -> pa.Table:
    rng = random.Random(seed)
    return pa.table(
        {
            "#at": pa.array(sorted(rng.randint(-50_000, 50_000) for _ in range(EVENTS))),
            "n": pa.array(range(EVENTS)),
            "type": pa.array([rng.choice([0, 0, 1, 2, 9, None]) for _ in range(EVENTS)]),
            "name": pa.array([rng.choice(["x", "y's", "", None]) for _ in range(EVENTS)]),
            "key": pa.array([rng.choice([*range(12), None]) for _ in range(EVENTS)]),
            ARRIVAL: pa.array([5] * EVENTS),
        }
    )


def _spec() -> OperatorSpec:
    patterns = {name: parse_pattern(text).pattern for name, text in PATTERNS.items()}
    return OperatorSpec(name="w", node="n", inputs=(READ,), patterns=patterns)


TABLE, SPEC = _events(), _spec()
STREAMS = SPEC.outputs
SEEN = TABLE.drop_columns([ARRIVAL])


def _chain(case):
    groups = dict.fromkeys(STREAMS[:1], "keys") if case.sample else {}
    context = NodeContext(
        shares=case.shares,
        windows={"key, name": 3000},
        sample=SampleSpec(share=case.sample, groups=groups),
    )
    return define_chain(
        ChainSpec(
            placement=OperatorChain((SPEC,), (), range(1)),
            inputs={READ: (StreamInput("s", ("n",), "#at", 1 << 40), SEEN.schema)},
            origins={READ: (0,)},
            context=context,
        )
    )


def _ready(chain):
    operator = chain.operators[0]
    arrivals, ended = {0: SEEN}, frozenset({0})
    return ingest(operator, new_operator_state(operator), arrivals, ended, unique=True)[1]


EVERYTHING = Case(dict.fromkeys(STREAMS, PatternShares({})), FoundKeys())
READY = _ready(_chain(EVERYTHING))
HASHES = next(iter(READY.keys.values()))[0]
KEYS = np.unique(HASHES)


def _python_masks(case):
    """Ask the shedder of shards."""
    chain = _chain(case)
    operator, plan = chain.operators[0], HashPlan(case.shares, case.found)
    kept = keep_masks(chain.spec, SPEC, operator, _ready(chain), plan).kept
    masks = {}
    for matcher in operator.matchers:
        uses = gather(relevant_types(matcher, READY.types.signatures), READY.numbers)
        masks[matcher.name] = uses & kept.get(matcher.name, uses)
    return masks


def _simulated_masks(case):
    """Ask the shedder of simulations."""
    application = build_application(
        "strata",
        [Source(name="s", format="parquet", path="s", time="#at", id=("n",))],
        [Node(name="n", bound=1.0)],
        [SPEC],
        [Sink(name=s.name, input=s, format="parquet", path=s.name) for s in STREAMS],
    )
    closures = ClosureState(application, find_closures(application))
    decider = Decider(SPEC, _chain(case).operators[0], {"key, name": 3000}, closures)
    decider.table = case.found.table
    decider.open_keys = {stream.name: case.found.opened(stream.name) for stream in STREAMS}
    return decider.decide(READY, 0, case.shares).masks


def _flagged(spark, case, frame, history=0.0):
    """Add flags to events in the JVM, and name their column."""
    chain = _chain(case)
    catalogs = type_catalogs([chain], {"w"})
    patterns = shed_patterns([chain], catalogs)["w"]
    kept = [
        cell_shares(case.shares.get(stream), case.found.table.names, patterns.labels, relevant)
        for stream, relevant in zip(patterns.streams, patterns.relevant, strict=True)
    ]
    by_key = patterns.sampled.by_key if patterns.sampled else ()
    rows = {
        "w": with_head(cell_limits(kept, patterns.layout, by_key), 0.5, history),
        heavy_name("w"): KEYS[:2],
        found_name("w"): table_numbers(case.found),
        open_name("w"): open_numbers(case.found, list(PATTERNS)),
    }
    plan = {n: spark.createDataFrame(pa.table({"": [row]})) for n, row in rows.items()}
    (flags,) = flag_names("w", len(PATTERNS))
    return add_keep_flags_and_filter(chain, catalogs, READ, frame, plan), flags


def _in_the_jvm(spark, path, case):
    """Give the flags of each event that is left."""
    flagged, flags = _flagged(spark, case, spark.read.parquet(str(path)))
    left = flagged.select("n", f"`{flags}`").toArrow()
    return dict(zip(*(column.to_pylist() for column in left.columns), strict=True))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Write the events once."""
    file = tmp_path_factory.mktemp("strata") / "events.parquet"
    pq.write_table(TABLE, file)
    return file


shares_of_types = st.dictionaries(
    st.sampled_from(LABELS),
    st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0)),
    max_size=4,
)
strata_of_keys = st.builds(
    StratumShares,
    st.sampled_from(SheddingWay),
    shares_of_types,
    shares_of_types,
    shares_of_types,
)
some_keys = st.sets(st.sampled_from(KEYS.tolist()), max_size=6)


@st.composite
def cases(draw):
    """Draw strata, what is kept of them in any way, and open keys."""
    heavy = np.array(sorted(draw(some_keys)), np.int64)
    classes = {
        name: np.array(sorted(draw(some_keys)), np.int64)
        for name in draw(st.sets(st.sampled_from(["high-yield", "low-yield"])))
    }
    table = StrataTable.of(heavy, classes)
    shares = {}
    for stream in STREAMS:
        names = draw(st.sets(st.sampled_from(table.names))) | {"rest"}
        strata = {name: draw(strata_of_keys) for name in sorted(names)}
        if draw(st.booleans()):
            strata = {}
        drawn = PatternShares(draw(shares_of_types), draw(st.booleans()), strata=strata)
        shares[stream] = drawn.lower_by(draw(st.sampled_from([1.0, 1.0, 0.6, 0.0])))
    opened = {
        stream.name: KeyBitmap.of(np.array(sorted(draw(some_keys)), np.int64))
        for stream in STREAMS
        if draw(st.booleans())
    }
    return Case(shares, FoundKeys(table, opened))


@settings(max_examples=5, deadline=None)
@given(case=cases())
def test_jvm_shards_and_simulator_keep_the_same_events(spark, path, case):
    """By any strata, in any way, under any pressure, whatever is known of keys."""
    _check_all(spark, path, case)


@pytest.mark.soak
@settings(max_examples=80, deadline=None)
@given(case=cases())
def test_jvm_shards_and_simulator_keep_the_same_events_many_times(spark, path, case):
    """As above."""
    _check_all(spark, path, case)


def _check_all(spark, path, case):
    flags = _in_the_jvm(spark, path, case)

    numbers = READY.table.column("n").to_pylist()
    python, simulated = _python_masks(case), _simulated_masks(case)
    for bit, name in enumerate(PATTERNS):
        in_jvm = [bool(flags.get(number, 0) >> bit & 1) for number in numbers]
        assert in_jvm == python[name].tolist() == simulated[name].tolist()


@settings(max_examples=100, deadline=None)
@given(case=cases())
def test_shards_and_simulator_keep_the_same_events(case):
    """The same without the JVM, many times."""
    python, simulated = _python_masks(case), _simulated_masks(case)

    for name in PATTERNS:
        assert python[name].tolist() == simulated[name].tolist()


OPENERS = StratumShares(
    SheddingWay.OPENERS, {"type=0": 0.5}, dict.fromkeys(LABELS, 1.0), dict.fromkeys(LABELS, 0.2)
)
WHOLE = StratumShares(SheddingWay.WHOLE_KEYS, dict.fromkeys(LABELS, 0.5))
SHED = Case(
    dict.fromkeys(STREAMS, PatternShares({}, strata={"rest": OPENERS, "high-yield": WHOLE})),
    FoundKeys(
        StrataTable.of(KEYS[:2], {"high-yield": KEYS[2:9]}), {"A": KeyBitmap.of(KEYS[9:30])}
    ),
    sample=0.4,
)


def test_the_unshed_sample_is_kept_in_strata_too(spark, path):
    """All of its keys, but for the heavy hitters; an event says what the plan alone keeps."""
    flags, planned = _in_the_jvm(spark, path, SHED), _python_masks(SHED)["A"]
    chosen = choose_keys(HASHES, SHED.sample) & ~np.isin(HASHES, KEYS[:2])
    relevant = _python_masks(EVERYTHING)["A"]

    numbers = READY.table.column("n").to_pylist()
    kept = [bool(flags.get(number, 0) & 1) for number in numbers]
    by_plan = [bool(flags.get(number, 0) >> len(PATTERNS) & 1) for number in numbers]
    assert kept == (planned | chosen & relevant).tolist()
    assert by_plan == planned.tolist()
    assert kept != by_plan


@pytest.fixture(scope="module")
def observed(spark, path, tmp_path_factory):
    """Give what is observed of all events as a stream."""
    folder = tmp_path_factory.mktemp("observed")
    (folder / "in").mkdir()
    pq.write_table(TABLE, folder / "in" / "0.parquet")
    schema = spark.read.parquet(str(path)).schema
    flagged, _ = _flagged(
        spark, SHED, spark.readStream.schema(schema).parquet(f"{folder}/in"), 0.4
    )
    writer = flagged.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "state")).start()
    query.awaitTermination()
    rows = [row for each in query.recentProgress for row in each.observedMetrics.items()]
    return {name: row.asDict(recursive=True) for name, row in rows}[arrivals_name("w", READ)]


def test_what_arrives_of_strata_is_counted(observed):
    """Each event in its cell."""
    table, labels = SHED.found.table, type_catalogs([_chain(SHED)], {"w"})["w"].labels
    strata = table.find(HASHES)
    there = [
        (table.names[stratum], READY.types.label(number))
        for stratum, number in zip(strata.tolist(), READY.numbers.tolist(), strict=True)
    ]

    counted = Counter[tuple[str, str]]()
    stats = read_arrival_stats(observed)
    for cell, count in stats.cells.items():
        counted[table.names[cell // len(labels)], labels[cell % len(labels)]] += count
    apart = Counter(dict.fromkeys(stats.types, 0))
    for cell, count in stats.cells.items():
        apart[cell % len(labels)] += count
    for number, count in stats.types.items():
        counted["rest", labels[number]] += count - apart[number]
    assert counted == Counter(there)


def test_all_events_of_some_keys_are_looked_at_and_the_keys_of_some_events(observed):
    """Before anything is shed; of relevant events alone."""
    relevant = np.any(list(_python_masks(EVERYTHING).values()), axis=0)
    chosen = relevant & choose_keys(HASHES, 0.4)

    histories = sorted((at, key) for at, key, _, _ in observed[f"{HISTORIES}w"])
    assert histories == sorted(
        zip(READY.time[chosen].tolist(), HASHES[chosen].tolist(), strict=True)
    )
    looked = observed[f"{LOOKED}w"]
    assert 0.3 * relevant.sum() < len(looked) < 0.7 * relevant.sum()
    assert set(looked) <= set(HASHES[relevant].tolist())
