"""Ids of matches: as they are defined, and read back from their digits."""

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shedlight.language.ast.data_type import DataType
from shedlight.language.eval.column import Column
from shedlight.matching.hashing import hash_rows
from shedlight.matching.output.match_id import DIGITS, match_ids, unhex_ids

BIGINT = st.integers(-(2**63), 2**63 - 1)
MATCHES = st.lists(st.lists(st.tuples(BIGINT, BIGINT), min_size=1, max_size=4), max_size=20)


def _hash(values, seed):
    columns = [Column(DataType.BIGINT, np.array([v]), np.ones(1, np.bool_)) for v in values]
    return int(hash_rows(columns, 1, seed)[0]) % 2**64


def _id(name, events):
    """Write an id down by its definition, event by event."""
    digest = hashlib.sha256(name.encode()).digest()
    salts = [int.from_bytes(digest[start : start + 4], "little") for start in (0, 4)]
    halves = [
        sum(_hash((*key, place), salt) for place, key in enumerate(events)) % 2**64
        for salt in salts
    ]
    return "".join(f"{half:016x}" for half in halves)


@given(st.text(max_size=5), MATCHES)
def test_an_id_is_as_defined(name, matches):
    """For all names and events, what is compiled gives what the definition does."""
    ends = np.cumsum([len(events) for events in matches], dtype=np.int64)
    keys = [key for events in matches for key in events]
    first, second = (np.array([key[half] for key in keys], np.int64) for half in range(2))
    assert match_ids(name, ends, (first, second)).to_pylist() == [
        _id(name, one) for one in matches
    ]


def _rows(texts):
    return np.frombuffer("".join(texts).encode("latin-1"), np.uint8).reshape(-1, DIGITS)


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=20))
def test_digits_stand_for_bytes(octets):
    """All ids are read back as what they were written from."""
    found = unhex_ids(_rows([one.hex() for one in octets]))
    assert found is not None
    assert found.tobytes() == b"".join(octets)


def test_ids_are_read_wherever_they_lie_in_memory():
    """Digits need not begin at a multiple of eight bytes."""
    for shift in range(9):
        data = b"." * shift + bytes(range(16)).hex().encode()
        found = unhex_ids(np.frombuffer(data, np.uint8)[shift:].reshape(1, DIGITS))
        assert found is not None
        assert found.tobytes() == bytes(range(16))


def test_what_is_no_digit_is_noticed_at_every_place():
    """One wrong letter among the digits is enough, upper case included."""
    good = "0123456789abcdef" * 2
    digits = set("0123456789abcdef")
    for place in range(DIGITS):
        for other in map(chr, range(256)):
            text = good[:place] + other + good[place + 1 :]
            assert (unhex_ids(_rows([text])) is None) == (other not in digits), text
