"""Match states as versioned bytes.

The form: a mark, the version, the length of a JSON header and a checksum of these two and of
all that follows; the header; and then the arrays and the stored events, compressed. The header
says which pattern the state is of, and lists the symbols and sets of states in the order in
which the arrays number them.
"""

import json
import struct
import zlib
from typing import Any

import numpy as np
import pyarrow as pa

from shedlight.errors import StateError
from shedlight.matching.compile.dfa import Symbol, build_tables, explored_subsets
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array
from shedlight.matching.kernel.match_state import MatchState, compact, with_rows
from shedlight.matching.kernel.partial_queue import Queues
from shedlight.matching.kernel.records import PARTIAL_MATCH, PartialMatchRecords
from shedlight.matching.kernel.scan_bindings import Bindings

VERSION = 3
"""Since version 2 partial matches of a key form a list, and their fields are in another order;
since version 3 a key of several columns has another hash, and the checksum is of the version
and the length too."""
_MARK = b"SHEDLIGHT"
_FRONT = struct.Struct("<HII")
_NUMBERS = struct.Struct("<HI")


def to_bytes(matcher: Matcher, state: MatchState) -> bytes:
    """Save a state."""
    small = compact(state)
    arrays = _arrays(small)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, small.store.schema) as stream:
        stream.write_table(small.store)
    body = b"".join(array.tobytes() for array in arrays) + sink.getvalue().to_pybytes()
    header = {
        "pattern": matcher.fingerprint,
        "symbols": [sorted(symbol) for symbol in small.tables.symbols],
        "known": explored_subsets(small.tables),
        "subsets": [[region, sorted(members)] for region, members in small.tables.subsets],
        "arrays": [[_form(array.dtype), list(array.shape)] for array in arrays],
        "size": len(body),
    }
    front = json.dumps(header, separators=(",", ":")).encode()
    rest = front + pa.compress(body, codec="zstd", asbytes=True)
    checksum = _checksum(VERSION, len(front), rest)
    return _MARK + _FRONT.pack(VERSION, len(front), checksum) + rest


def from_bytes(matcher: Matcher, data: bytes) -> MatchState:
    """Read a saved state.

    Raises:
        StateError: It is damaged, of another version, or of another pattern.
    """
    version, header, packed = _split(data)
    if header["pattern"] != matcher.fingerprint:
        raise StateError(
            f"the saved state is of another pattern:\n  saved: {header['pattern']}\n"
            f"  now:   {matcher.fingerprint}\n"
            "go on with the pattern as it was, or start without the saved state"
        )
    if version < 3 and len(matcher.pattern.partition_by) > 1:  # noqa: PLR2004  # see above
        raise StateError(
            f"the saved state has version {version}, in which keys of several columns were "
            "told apart in another way; read it with the Shedlight that wrote it, "
            "or start without the saved state"
        )
    try:
        state = _state(matcher, header, packed)
    except (ValueError, KeyError, TypeError, IndexError, OSError, pa.ArrowException) as error:
        raise _damaged() from error
    return (
        with_rows(state) if version == 1 and matcher.automaton.single_event_regions else state
    )


def _split(data: bytes) -> tuple[int, dict[str, Any], bytes]:
    start = len(_MARK) + _FRONT.size
    if not data.startswith(_MARK) or len(data) < start:
        raise _damaged()
    version, length, checksum = _FRONT.unpack_from(data, len(_MARK))
    if not 1 <= version <= VERSION:
        raise StateError(
            f"the saved state has version {version}, this Shedlight reads version {VERSION} "
            "and older ones; "
            "read it with the Shedlight that wrote it, or start without the saved state"
        )
    if _checksum(version, length, data[start:]) != checksum:
        raise _damaged()
    try:
        header = json.loads(data[start : start + length])
    except ValueError as error:
        raise _damaged() from error
    return version, header, data[start + length :]


def _checksum(version: int, length: int, rest: bytes) -> int:
    numbers = _NUMBERS.pack(version, length) if version >= 3 else b""  # noqa: PLR2004
    return zlib.crc32(rest, zlib.crc32(numbers))


def _state(matcher: Matcher, header: dict[str, Any], packed: bytes) -> MatchState:
    body = pa.decompress(packed, header["size"], codec="zstd", asbytes=True)
    arrays, offset = [], 0
    for form, shape in header["arrays"]:
        dtype = np.dtype(
            [tuple(f) for f in form] if isinstance(form, list) else form, align=True
        )
        count = int(np.prod(shape))
        array = np.frombuffer(body, dtype, count, offset).reshape(shape).copy()
        arrays.append(array)
        offset += array.nbytes
    store = pa.ipc.open_stream(pa.py_buffer(body[offset:])).read_all()
    tables = build_tables(
        matcher.automaton,
        map(Symbol, header["symbols"]),
        [(region, frozenset(members)) for region, members in header["subsets"]],
        header["known"],
    )
    arrays[1] = _with_fields(arrays[1], PARTIAL_MATCH)
    records, queues, bindings = (
        PartialMatchRecords(*arrays[:5]),
        Queues(*arrays[5:9]),
        Bindings(*arrays[9:]),
    )
    return MatchState(tables, records, queues, bindings, store)


def _with_fields(array: Array, dtype: np.dtype[Any]) -> Array:
    """Copy records into fields of the same names, in the order of today."""
    if array.dtype == dtype:
        return array
    records = np.zeros(array.shape, dtype)
    for name in dtype.names or ():
        records[name] = array[name]
    return records


def _arrays(state: MatchState) -> list[Array]:
    return [*state.records, *state.queues, *state.bindings]


def _form(dtype: np.dtype[Any]) -> Any:  # noqa: ANN401  # a name or a list of fields
    fields = dtype.fields
    return [[name, fields[name][0].str] for name in fields] if fields else dtype.str


def _damaged() -> StateError:
    return StateError(
        "the saved state is damaged or is no state of Shedlight; "
        "take an older copy of it, or start without it"
    )
