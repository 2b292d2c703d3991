"""What was known of keys, on record."""

import numpy as np
import pytest

from shedlight.engines.spark.support.found_record import KNOWN, SEGMENT, FoundRecord
from shedlight.errors import StateError
from shedlight.shedding.found_keys import FoundKeys
from shedlight.shedding.key_bitmap import KeyBitmap
from shedlight.shedding.stratum_shares import StrataTable

RNG = np.random.default_rng(1)
KEYS = RNG.integers(-(1 << 63), 1 << 63, 120_000, dtype=np.int64)


def _found(number, open_keys=100):
    keys = KEYS[number * 3 : number * 3 + open_keys]
    table = StrataTable.of(np.sort(keys[: number % 4]), {"high-yield": keys[10:40]})
    return {"w": FoundKeys(table, {"P": KeyBitmap.of(keys)})}


def _same(one, other):
    mine, theirs = one["w"], other["w"]
    return (
        mine.table.names == theirs.table.names
        and np.array_equal(mine.table.find(KEYS), theirs.table.find(KEYS))
        and np.array_equal(mine.open["P"].words, theirs.open["P"].words)
    )


def test_what_was_known_is_read_again_by_its_number(tmp_path):
    """In this process and in one that knows nothing, whatever the order."""
    record = FoundRecord(tmp_path / "found")
    numbers = [record.append(_found(n), n) for n in range(SEGMENT + 5)]

    assert numbers == list(range(1, SEGMENT + 6))
    for number in (SEGMENT + 5, 1, 17, SEGMENT, SEGMENT + 1, SEGMENT + 5):
        assert _same(record.read(number), _found(number - 1))
        KNOWN.clear()
        assert _same(record.read(number), _found(number - 1))
    assert record.read(0) == {}


def test_a_frame_that_a_crash_cut_off_is_written_again(tmp_path):
    """Nobody has used it: it was not active."""
    record = FoundRecord(tmp_path / "found")
    for number in range(3):
        record.append(_found(number), number)
    (file,) = (tmp_path / "found").glob("*.keys")
    with file.open("ab") as opened:
        opened.write(b"\x07\x00\x00")
    KNOWN.clear()

    assert record.append(_found(9), 3) == 4
    KNOWN.clear()
    assert _same(record.read(4), _found(9))
    assert _same(record.read(3), _found(2))
    assert record.append(_found(5), 3) == 4  # what was not active is replaced
    assert _same(record.read(4), _found(5))
    file.unlink()
    with pytest.raises(StateError, match=r"does not have .* number 4; put the file back"):
        record.read(4)


def test_frames_that_nobody_needs_are_removed(tmp_path):
    """Those before the segment of the oldest that is needed."""
    record = FoundRecord(tmp_path / "found")
    for number in range(2 * SEGMENT + 1):
        record.append(_found(number), number)

    record.prune(2 * SEGMENT)

    assert len(list((tmp_path / "found").iterdir())) == 2
    assert _same(record.read(2 * SEGMENT + 1), _found(2 * SEGMENT))


def test_the_record_of_a_day_is_under_a_gigabyte(tmp_path):
    """At a micro-batch a second, with 100,000 open keys that stay open for half a minute."""
    record, batches, open_for = FoundRecord(tmp_path / "found"), 12, 30
    turned, found = 100_000 // open_for, dict[str, FoundKeys]()
    held = KEYS[:100_000].copy()
    for number in range(batches):
        fresh = RNG.integers(-(1 << 63), 1 << 63, turned, dtype=np.int64)
        held = np.concatenate([held[turned:], fresh])
        found = {
            "w": FoundKeys(StrataTable.of(np.sort(held[:20]), {}), {"P": KeyBitmap.of(held)})
        }
        record.append(found, number)

    (file,) = (tmp_path / "found").glob("*.keys")
    whole = 8 * len(found["w"].open["P"].words) + 10_000
    changes = (file.stat().st_size - whole) / (batches - 1)
    assert 86_400 * (changes + whole / SEGMENT) < 1e9
