"""What a run shed is read off its record: the micro-batch, the plan, and how sure that is."""

import json

import numpy as np
import pyarrow as pa
import pytest

from shedlight.engines.spark.support.batch_plan import shares_to_rows
from shedlight.engines.spark.support.batch_record import BatchRecord
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.engines.spark.support.found_record import FoundRecord
from shedlight.engines.spark.support.read_spans import read_spans
from shedlight.engines.tables import prepare_operator
from shedlight.errors import StateError
from shedlight.graph import Source, Stream, load_application
from shedlight.language import DataType
from shedlight.language.eval.column import Column
from shedlight.matching.hashing import hash_keys
from shedlight.matching.operators.classify import classify
from shedlight.matching.permuted import row_column
from shedlight.model.model import SheddingWay
from shedlight.shedding.found_keys import FoundKeys
from shedlight.shedding.key_bitmap import KeyBitmap
from shedlight.shedding.shares import PatternShares
from shedlight.shedding.shedder import event_hashes, threshold
from shedlight.shedding.strata import EventHashes, kept_by_strata
from shedlight.shedding.stratum_shares import StrataTable, StratumShares
from shedlight.why.run_record import shed_rows

APPLICATION = """
name: shedding
sources:
  s: {{format: parquet, path: none, time: at, id: [n], lateness: {lateness} us}}
nodes: {{edge: {{}}}}
operators:
  w:
    node: edge
    input: [s]
    patterns: {{P: "SELECT a.n WHERE SEQ(a.type = 0, b.type = 1) WITHIN 1 s"}}
sinks: {{k: {{input: w.P, format: parquet, path: out}}}}
"""
P = Stream("P", "w")
EVENTS = pa.table({"n": range(300), "at": range(0, 3000, 10), "type": [0, 1, 2] * 100})
SHARES = {1: 1.0, 2: 0.5, 3: 0.2}
"""What each plan keeps of events of type 1, and all of type 0."""


def written(folder, rows, active):
    """Write the record of a run: what each micro-batch used, and what was decided last."""
    paths = CheckpointPaths(folder)
    plan = folder / "edge" / "plan"
    assert plan == paths.plan("edge")
    (plan / "plans").mkdir(parents=True)
    for number, share in SHARES.items():
        exempt = frozenset({"type=0"})
        kept = PatternShares({"type=0": 1.0, "type=1": share}, pressure_exempt=exempt)
        text = json.dumps(shares_to_rows({P: kept}), default=sorted)
        (plan / "plans" / f"{number}.json").write_text(text)
    for number, row in enumerate(rows):
        BatchRecord(plan / "record").append(number, row)
    (plan / "active").write_text(json.dumps(active))
    return paths


def row(plan, after=-1, latest=None, pressure=1.0):
    """Say what a micro-batch used, and how far the source had been read before it."""
    told = {} if latest is None else {"s": latest}
    return {"plan": plan, "pressure": pressure, "after": after, "latest": told}


ROWS = (row(1), row(2, 0, 990), row(3, 1, 1990, 0.5))
"""A hundred events each: all are kept, then a half, then a tenth."""
LAST = row(3, 2, 2990)


def shed(paths, lateness=0):
    """Give the shedding of each event, or None."""
    application = load_application(APPLICATION.format(lateness=lateness)).application
    operator, tables = prepare_operator(application, {"s": EVENTS}, "w")
    found = shed_rows(application, paths, P, operator, tables)
    if not found:
        return [None] * len(EVENTS)
    return [None if n < 0 else found[0].sheddings[n] for n in found[0].of_row.tolist()]


def is_shed(number, share):
    """Say whether the hash of an event is not below a share."""
    hashes = event_hashes(EVENTS, ["n"])
    return bool(number % 3 == 1 and share < 1 and hashes[number] >= threshold(share))


def test_each_event_is_shed_by_the_micro_batch_that_read_it(tmp_path):
    """And by its plan under its pressure; what the pattern cannot use is not shed for it."""
    found = shed(written(tmp_path, ROWS, LAST))
    for number, by in enumerate(found):
        batch = number // 100
        assert (by is not None) == is_shed(number, (1.0, 0.5, 0.1)[batch])
        if by is not None:
            assert (by.micro_batch, by.plan, by.is_certain) == (batch, batch + 1, True)
            assert (by.share, by.pressure) == (SHARES[batch + 1], (1, 1, 0.5)[batch])


def test_what_came_out_of_order_may_have_been_read_later(tmp_path):
    """Whether it was shed is certain only where all that may have read it agree."""
    found = shed(written(tmp_path, ROWS, LAST), lateness=2000)
    for number, by in enumerate(found):
        assert (by is not None) == is_shed(number, (1.0, 0.5, 0.1)[number // 100])
        if by is not None:
            later = [is_shed(number, share) for share in (1.0, 0.5, 0.1)[number // 100 :]]
            assert by.is_certain == all(later)
            assert (by.micro_batch is None) == (number < 200)


def test_one_plan_for_all_needs_no_times(tmp_path):
    """With fixed shares it is on record what was used, and not how far was read."""
    found = shed(written(tmp_path, [row(2), row(2)], row(2)))
    for number, by in enumerate(found):
        assert (by is not None) == is_shed(number, 0.5)
        assert by is None or (by.micro_batch, by.is_certain) == (None, True)


def test_what_was_not_read_was_not_shed(tmp_path):
    """It is later than all that is on record."""
    found = shed(written(tmp_path, ROWS[:2], row(2, 1, 1990)))
    assert any(found[100:200])
    assert not any(found[200:])


def test_a_run_that_shed_nothing_says_so(tmp_path):
    """No plan has the pattern."""
    paths = written(tmp_path, [row(1)], row(1))
    (paths.plan("edge") / "plans" / "1.json").write_text("[]")
    assert not any(shed(paths))


def test_damage_is_told(tmp_path):
    """A plan that is gone."""
    paths = written(tmp_path / "gone", ROWS, LAST)
    (paths.plan("edge") / "plans" / "2.json").unlink()
    with pytest.raises(StateError, match=r"2\.json is missing; put it back as it was"):
        shed(paths)


def test_a_decision_that_comes_late_leaves_more_open():
    """The third used what was decided after the first: how far the second read is not known."""
    source = Source(name="s", time="at", id=("n",))
    rows = [
        {"batch": number, **each}
        for number, each in enumerate((row(1), row(2, 0, 990), row(2, 0, 990)))
    ]
    spans = read_spans(rows, row(2, 2, 2990), source)
    first, end = spans.batches(np.array([500, 991, 2990, 2991]))
    assert list(zip(first.tolist(), end.tolist(), strict=True)) == [
        (0, 1),
        (1, 3),
        (1, 3),
        (3, 3),
    ]


def test_strata_are_decided_again_by_what_was_known_of_keys(tmp_path):
    """Of which of them a key was, and whether it was open, by the micro-batch."""
    by_key = APPLICATION.replace("WITHIN 1 s", "WITHIN 1 s PARTITION BY key")
    application = load_application(by_key.format(lateness=0)).application
    events = EVENTS.append_column("key", pa.array([number % 7 for number in range(300)]))
    operator, tables = prepare_operator(application, {"s": events}, "w")
    column = Column(DataType.BIGINT, np.arange(300) % 7, np.ones(300, np.bool_))
    keys = hash_keys([column], 300)[0]
    table = StrataTable(np.sort(np.unique(keys)[:2]))
    known = [
        FoundKeys(table, {"P": KeyBitmap.of(keys[:4])}),
        FoundKeys(StrataTable(), {"P": KeyBitmap.of(keys[4:7])}),
    ]
    paths = written(
        tmp_path,
        [
            {**row(1), "found": 1},
            {**row(1, 0, 990), "found": 1},
            {**row(1, 1, 1990), "found": 2},
        ],
        row(1, 2, 2990),
    )
    record, some = FoundRecord(paths.plan("edge") / "found"), {"type=0": 0.5, "type=1": 0.7}
    for number, found in enumerate(known):
        record.append({"w": found}, number)
    openers = StratumShares(SheddingWay.OPENERS, some, dict.fromkeys(some, 1.0), some)
    heavy = {name: StratumShares(SheddingWay.EVENTS, some) for name in table.names[:-1]}
    kept = PatternShares(some, by_key=True, strata={**heavy, "rest": openers})
    text = json.dumps(shares_to_rows({P: kept}), default=sorted)
    (paths.plan("edge") / "plans" / "1.json").write_text(text)

    shed = shed_rows(application, paths, P, operator, tables)[0].of_row >= 0

    types, numbers = classify(operator.no_types, 300, lambda node: row_column(tables[0], node))
    expected = np.zeros(300, np.bool_)
    for part, found in ((slice(0, 200), known[0]), (slice(200, 300), known[1])):
        ids = event_hashes(events, ["n"])[part]
        hashes = EventHashes(keys[part], keys[part], ids, found.opened("P"))
        mask = kept_by_strata(kept, found.table, types, numbers[part], hashes).mask
        expected[part] = ~mask & (np.arange(300)[part] % 3 < 2)
    assert shed.tolist() == expected.tolist()
    assert 20 < shed.sum() < 180
