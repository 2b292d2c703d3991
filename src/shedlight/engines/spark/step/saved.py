"""The state of an operator as versioned bytes: its intake and all its patterns' machines.

The form is that of `framing.py`; the first part is the intake (remembered ids and waiting
events), compressed, and then comes each pattern's state in the form of `automaton/saved.py`.
The types are not saved: a number means nothing beyond the process that gave it.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from shedlight.engines.spark.codec.decode import decode_table, plain_bytes
from shedlight.errors import StateError
from shedlight.matching.jit import Array
from shedlight.matching.operators.cep_operator import Operator, OperatorState
from shedlight.matching.operators.classify import EventTypes
from shedlight.matching.operators.reorder import DedupState, ReorderBuffer, new_reorder_buffer
from shedlight.matching.state import saved
from shedlight.matching.state.frame import read_frame, write_frame

VERSION = 2
"""Since version 2 an id of several columns has another hash."""
_MARK = b"SHEDLIGHT-OPERATOR"


def to_bytes(operator: Operator, state: OperatorState) -> bytes:
    """Save the state of an operator."""
    reorder_buffer = state.reorder_buffer
    intake = [
        part
        for one in reorder_buffer.dedup
        for part in (one.ids.tobytes(), one.times.tobytes())
    ]
    intake.append(plain_bytes(reorder_buffer.buffer))
    body = b"".join(intake)
    states = [
        saved.to_bytes(matcher, one)
        for matcher, one in zip(operator.matchers, state.states, strict=True)
    ]
    packed = pa.compress(body, codec="zstd", asbytes=True)
    header = {
        "inputs": _inputs(operator),
        "watermark": reorder_buffer.watermark,
        "watermarks": [one.watermark for one in reorder_buffer.dedup],
        "remembered": [len(one.times) for one in reorder_buffer.dedup],
        "late": reorder_buffer.late,
        "duplicates": reorder_buffer.duplicates,
        "size": len(body),
    }
    return write_frame(_MARK, VERSION, header, [packed, *states])


def from_bytes(operator: Operator, data: bytes) -> OperatorState:
    """Read the saved state of an operator.

    Raises:
        StateError: It is damaged, of another version, or of other inputs or patterns.
    """
    header, (packed, *states) = read_frame(_MARK, VERSION, data)
    if header["inputs"] != _inputs(operator):
        raise StateError(
            f"the saved state is of other inputs:\n  saved: {header['inputs']}\n"
            f"  now:   {_inputs(operator)}\n"
            "go on with the inputs as they were, or start without the saved state"
        )
    if len(states) != len(operator.matchers):
        raise StateError(
            f"the saved state is of {len(states)} patterns, now there are "
            f"{len(operator.matchers)}; go on with the patterns as they were, or start without "
            "the saved state"
        )
    return OperatorState(
        _waiting(operator, header, packed),
        EventTypes(operator.alphabet),
        tuple(
            saved.from_bytes(matcher, one)
            for matcher, one in zip(operator.matchers, states, strict=True)
        ),
    )


def _inputs(operator: Operator) -> list[list[Any]]:
    return [[one.name, list(one.ids), one.time, one.lateness] for one in operator.inputs]


def _waiting(operator: Operator, header: dict[str, Any], packed: bytes) -> ReorderBuffer:
    body = pa.decompress(packed, header["size"], codec="zstd", asbytes=True)
    dedup, at = [], 0
    for watermark, number in zip(header["watermarks"], header["remembered"], strict=True):
        ids = _numbers(body, at, 2 * number).reshape(number, 2)
        times = _numbers(body, at + ids.nbytes, number)
        dedup.append(DedupState(watermark, ids, times))
        at += ids.nbytes + times.nbytes
    buffer = decode_table(body[at:])
    schema = new_reorder_buffer(operator.schema, len(operator.inputs)).buffer.schema
    if not buffer.schema.equals(schema):
        raise StateError(
            f"the saved state has other columns:\n  saved: {', '.join(buffer.schema.names)}\n"
            f"  now:   {', '.join(schema.names)}\n"
            "go on with the columns as they were, or start without the saved state"
        )
    return ReorderBuffer(
        buffer,
        tuple(dedup),
        header["watermark"],
        tuple(header["late"]),
        tuple(header["duplicates"]),
    )


def _numbers(data: bytes, at: int, count: int) -> Array:
    return np.frombuffer(data, np.int64, count, at).copy()
