"""The shedder in the JVM keeps the very events that the shedder in Python keeps."""

import random
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedlight.engines.spark.shed.cell_limits import with_head
from shedlight.engines.spark.shed.keep_sql import (
    add_keep_flags_and_filter,
    shed_patterns,
    tabulate_plan,
)
from shedlight.engines.spark.shed.plan_column import heavy_name, keep_limits
from shedlight.engines.spark.shed.type_catalog import type_catalogs
from shedlight.engines.spark.shed.type_sql import type_sql
from shedlight.engines.spark.step.chain import define_chain
from shedlight.engines.spark.step.keep_flags import flag_names, flag_streams
from shedlight.engines.spark.support.placement import ChainSpec, NodeContext, OperatorChain
from shedlight.engines.spark.support.plan_store import WORD
from shedlight.engines.spark.support.sample_spec import SampleSpec
from shedlight.graph import OperatorSpec, Stream
from shedlight.language import parse_pattern
from shedlight.matching.compile.predicates import all_signatures
from shedlight.matching.operators.cep_operator import ingest, new_operator_state
from shedlight.matching.operators.reorder import StreamInput
from shedlight.shedding.guard import GuardSpec
from shedlight.shedding.shares import PatternShares
from shedlight.shedding.shedder import event_hashes, kept_events, key_hashes
from shedlight.shedding.thresholds import salted_hashes
from tests.language.expressions import BIGINTS, TEXTS

pytestmark = pytest.mark.spark

PATTERNS = {
    "A": "SELECT a.type WHERE SEQ(a.type = 0, b.type = 7, c.name = 'x') WITHIN 2 ms",
    "B": "SELECT a.type WHERE SEQ(a.type = 0 AND a.y > 0.5, b.type != 9) WITHIN 3 ms "
    "PARTITION BY key, name",
    "C": "SELECT a.type WHERE AND(a.name = 'y''s', b.y = 2) WITHIN 1 ms",
    "D": "SELECT a.type WHERE SEQ(a.type = 0, NOT(b.type = 7)) WITHIN 3 ms PARTITION BY key",
    "E": "SELECT a.type WHERE SEQ(a.type = 0, NOT(b.type = 7)) WITHIN 3 ms PARTITION BY name",
    "F": "SELECT a.type WHERE SEQ(a.type = 0, NOT(b.type = 7)) WITHIN 3 ms PARTITION BY y",
}
EPOCH, SAMPLE = 700, 0.3
READ = Stream("s")
NOBODY = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Case:
    """Ids, and shares for the patterns."""

    ids: tuple[str, ...]
    shares: dict[Stream, PatternShares]
    guards: tuple[str, ...] = ()  # the patterns in a protected closure
    sampled: tuple[str, ...] = ()  # the patterns that keep the unshed sample


def _events(number, seed):
    rng = random.Random(seed)
    names = ["x", "y's", "z", "", None, *TEXTS]
    return pa.table(
        {
            "#at": pa.array(sorted(rng.randint(-50_000, 50_000) for _ in range(number))),
            "n": pa.array([rng.choice([*BIGINTS, i, i]) for i in range(number)]),
            "small": pa.array(range(number), pa.int32()),
            "s": pa.array([rng.choice([*TEXTS, f"id {i}" * (i % 9)]) for i in range(number)]),
            "type": pa.array([rng.choice([0, 0, 7, 7, 8, 9, -3, None]) for _ in range(number)]),
            "name": pa.array([rng.choice(names) for _ in range(number)]),
            "y": pa.array([rng.choice([0.0, 2.0, 0.7, -0.0, None]) for _ in range(number)]),
            "key": pa.array([rng.choice([1, 2, 3, None]) for _ in range(number)]),
        }
    )


def _built(table, case, patterns=PATTERNS):
    spec = OperatorSpec(
        name="w",
        node="n",
        inputs=(READ,),
        patterns={name: parse_pattern(text).pattern for name, text in patterns.items()},
    )
    given = ChainSpec(
        placement=OperatorChain((spec,), (), range(1)),
        inputs={READ: (StreamInput("s", case.ids, "#at", 1 << 40), table.schema)},
        origins={READ: (0,)},
        context=NodeContext(
            shares=case.shares,
            windows=dict.fromkeys(("key, name", "key", "name", "y"), 3000),
            guards={
                Stream(name, "w"): GuardSpec(streams=(Stream(name, "w"),), epoch=EPOCH)
                for name in case.guards
            },
            sample=SampleSpec(
                share=SAMPLE, groups={Stream(name, "w"): "keys" for name in case.sampled}
            ),
        ),
    )
    return define_chain(given)


def _ready(chain, table):
    operator = chain.operators[0]
    state = new_operator_state(operator)
    return ingest(operator, state, {0: table}, frozenset({0}), unique=True)[1]


def _expected(chain, ready):
    """Ask the shedder in Python."""
    operator, masks = chain.operators[0], {}
    for matcher in operator.matchers:
        uses = np.array([bool(matcher.symbol(one)) for one in ready.types.signatures])
        mask = uses[ready.numbers]
        shares = chain.spec.context.shares.get(Stream(matcher.name, "w"))
        if shares is not None:
            key = matcher.pattern.partition_by
            hashes = event_hashes(ready.table, operator.ids)
            if shares.by_key:
                hashes = key_hashes(ready.table, key, ready.time, 3000)
            if Stream(matcher.name, "w") in chain.spec.context.guards:
                hashes = salted_hashes(ready.keys[key][0], ready.time // EPOCH)
            mask = mask & kept_events(shares, ready.types, ready.numbers, hashes).mask
        masks[matcher.name] = mask
    return masks


SOME = PatternShares({"type=0": 0.4, "type=7": 1.0, "name=x": 0.0}, default_share=0.3)
CASES = [
    Case(("n", "small"), {Stream("A", "w"): SOME}),
    Case(
        ("s", "n"),
        {Stream("A", "w"): SOME, Stream("C", "w"): PatternShares({}, default_share=0.5)},
    ),
    Case(("small",), {Stream("B", "w"): PatternShares({}, by_key=True, default_share=0.5)}),
    Case(("s",), {Stream(name, "w"): PatternShares({}, default_share=0.0) for name in "AB"}),
    Case(("n",), {Stream(name, "w"): PatternShares({}, default_share=1.0) for name in "ABC"}),
    Case(
        ("small", "s"), {Stream("B", "w"): PatternShares({}, by_key=True, default_share=0.01)}
    ),
    *(
        Case(
            ("n",),
            {Stream(name, "w"): PatternShares({}, by_key=True, default_share=0.4)},
            (name,),
        )
        for name in "BDEF"
    ),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_jvm_keeps_the_events_that_python_keeps(spark, tmp_path, number):
    """By ids of any data type and by keys, at shares of nothing, everything and in between."""
    case, table = CASES[number], _events(2000, number)
    pq.write_table(table, tmp_path / "events.parquet")
    chain = _built(table, case)
    ready = _ready(chain, table)
    expected = _expected(chain, ready)

    words = _shed_in_the_jvm(spark, chain, tmp_path / "events.parquet", case)
    assert len(words) == 1
    for place, small in enumerate(ready.table.column("small").to_pylist()):
        flags = words[0].get(small, 0)
        ours = {name: bool(flags >> i & 1) for i, name in enumerate(PATTERNS)}
        assert ours == {name: bool(mask[place]) for name, mask in expected.items()}
    assert all(flags for flags in words[0].values())


def _shed_in_the_jvm(spark, chain, path, case, heavy=()):
    """Give the words of flags of what is left, by `small`."""
    catalogs = type_catalogs([chain])
    tables = tabulate_plan(chain, catalogs, case.shares)
    patterns = shed_patterns([chain], catalogs)["w"]
    cells = keep_limits(tables["w"], 1.0, patterns.layout, patterns.sampled)
    limits = {"w": with_head(cells, 0.1), heavy_name("w"): np.array(heavy, np.int64)}
    plan = {name: spark.createDataFrame(pa.table({"": [row]})) for name, row in limits.items()}
    rows = add_keep_flags_and_filter(
        chain, catalogs, READ, spark.read.parquet(str(path)), plan
    ).toArrow()
    smalls = rows["small"].to_pylist()
    (spec,) = chain.spec.placement.operators
    names = flag_names("w", len(flag_streams(chain.spec, spec)))
    words = [rows[name].to_pylist() for name in names]
    return [dict(zip(smalls, flags, strict=True)) for flags in words]


@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_the_jvm_keeps_the_sample_that_python_keeps(spark, tmp_path, share, by_key):
    """Of keys of any data type; an event says too what the plan alone keeps."""
    sampled = ("B", "D", "E", "F")
    shares = {
        Stream(name, "w"): PatternShares({}, by_key=by_key, default_share=share)
        for name in sampled
    }
    case, table = Case(("small",), shares, sampled=sampled), _events(1500, 5)
    pq.write_table(table, tmp_path / "events.parquet")
    chain = _built(table, case)
    ready, sample = _ready(chain, table), chain.spec.context.sample
    planned, operator = _expected(chain, ready), chain.operators[0]
    keys = {m.name: ready.keys[m.pattern.partition_by][0] for m in operator.matchers[1:2]}
    chosen = np.unique(keys["B"][sample.choose(keys["B"], NOBODY)])
    heavy = chosen[:: max(1, len(chosen) // 3)]

    words = _shed_in_the_jvm(spark, chain, tmp_path / "events.parquet", case, heavy.tolist())

    spared = dict.fromkeys(sampled, 0)
    for place, small in enumerate(ready.table.column("small").to_pylist()):
        flags = words[0].get(small, 0)
        for number, matcher in enumerate(operator.matchers):
            is_kept = is_planned = bool(planned[matcher.name][place])
            if matcher.name in sampled:
                key = ready.keys[matcher.pattern.partition_by][0][place : place + 1]
                can_take = bool(matcher.symbol(ready.types.signatures[ready.numbers[place]]))
                is_kept |= can_take and bool(sample.choose(key, heavy)[0])
                spared[matcher.name] += is_kept and not is_planned
                again = len(operator.matchers) + sampled.index(matcher.name)
                assert bool(flags >> again & 1) == is_planned
            assert bool(flags >> number & 1) == is_kept
    assert any(spared.values()) == (share < 1)


def test_more_patterns_than_a_word_has_flags_are_told_apart(spark, tmp_path):
    """Each with its own share, of nothing, everything and in between."""
    number = WORD + 3
    patterns = {f"P{i}": PATTERNS["A"] for i in range(number)}
    shares = {
        Stream(name, "w"): PatternShares({}, default_share=(0.0, 1.0, i / number)[i % 3])
        for i, name in enumerate(patterns)
    }
    case, table = Case(("n", "small"), shares), _events(500, 7)
    pq.write_table(table, tmp_path / "events.parquet")
    chain = _built(table, case, patterns)
    ready = _ready(chain, table)
    expected = _expected(chain, ready)

    words = _shed_in_the_jvm(spark, chain, tmp_path / "events.parquet", case)

    assert len(words) == 2
    for place, small in enumerate(ready.table.column("small").to_pylist()):
        for i, name in enumerate(patterns):
            kept = bool(words[i // WORD].get(small, 0) >> i % WORD & 1)
            assert kept == bool(expected[name][place])


def test_types_in_the_jvm_are_types_in_python(spark, tmp_path):
    """Closed sets of numbers, texts and doubles, nulls, and other conditions."""
    table = _events(2000, 99)
    pq.write_table(table, tmp_path / "events.parquet")
    operator = _built(table, CASES[0]).operators[0]
    ready = _ready(_built(table, CASES[0]), table)

    frame = spark.read.parquet(str(tmp_path / "events.parquet"))
    rows = frame.selectExpr("small", f"{type_sql(operator)} AS number").toArrow()

    signatures = all_signatures(operator.alphabet)
    assert signatures is not None
    found = dict(zip(rows["small"].to_pylist(), rows["number"].to_pylist(), strict=True))
    for small, number in zip(
        ready.table.column("small").to_pylist(), ready.numbers, strict=True
    ):
        assert signatures[found[small]] == ready.types.signatures[number]


_LABELS = ("type=0", "type=7", "name=x")


@settings(max_examples=100)
@given(
    st.dictionaries(st.sampled_from(_LABELS), st.floats(0, 1)),
    st.sets(st.sampled_from(_LABELS)),
    st.sets(st.sampled_from(_LABELS)),
    st.booleans(),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_pressure_in_the_jvm_is_pressure_in_python(known, exempt, spared, unknown, pressure):
    """For shares that it lowers, leaves, or takes all at once, and for unknown types."""
    shares = PatternShares(
        known,
        pressure_exempt=frozenset(exempt & known.keys()),
        spared=frozenset((spared - exempt) & known.keys()),
        spares_unknown=unknown,
        default_share=0.7,
    )
    chain = _built(_events(3, 0), Case(("n",), {Stream("A", "w"): shares}), _PATTERN_A)
    catalogs = type_catalogs([chain])
    table = tabulate_plan(chain, catalogs, {Stream("A", "w"): shares})["w"]
    lowered = shares.lower_by(pressure)
    relevant = catalogs["w"].relevant[Stream("A", "w")]
    for number, label in enumerate(catalogs["w"].labels):
        if relevant[number]:
            expected = lowered.shares.get(label, lowered.mean)
            assert table.under(pressure)[0, number] == pytest.approx(expected, abs=1e-12)


_PATTERN_A = {"A": PATTERNS["A"]}
