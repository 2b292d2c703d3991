"""The state of a shard as versioned bytes: watermarks, operators and event tables."""

import numpy as np
import pyarrow as pa

from shedlight.engines.spark.codec.decode import decode_table
from shedlight.engines.spark.codec.encode import encode_table
from shedlight.engines.spark.codec.event_refs import EventTable
from shedlight.engines.spark.step import saved
from shedlight.engines.spark.step.chain import ChainRuntime, ChainState
from shedlight.errors import StateError
from shedlight.matching.state.frame import read_frame, write_frame

VERSION = 3
"""Since version 3 whole events are in event tables."""
_MARK = b"SHEDLIGHT-SHARD"


def to_bytes(chain: ChainRuntime, state: ChainState) -> bytes:
    """Save the state of a shard."""
    operators = [
        saved.to_bytes(operator, one)
        for operator, one in zip(chain.operators, state.operators, strict=True)
    ]
    bodies = [
        one.old.tobytes() + encode_table(one.events).to_pybytes()
        for one in state.event_tables.values()
    ]
    header = {
        "operators": _names(chain),
        "watermarks": [[*place, watermark] for place, watermark in state.watermarks.items()],
        "idle": sorted(state.idle),
        "event_tables": [
            [name, one.start, len(one.old), len(body)]
            for (name, one), body in zip(state.event_tables.items(), bodies, strict=True)
        ],
    }
    event_tables = [pa.compress(body, codec="zstd", asbytes=True) for body in bodies]
    return write_frame(_MARK, VERSION, header, [*operators, *event_tables])


def from_bytes(chain: ChainRuntime, data: bytes) -> ChainState:
    """Read the saved state of a shard.

    Raises:
        StateError: It is damaged, of another version, or of other operators.
    """
    header, parts = read_frame(_MARK, VERSION, data)
    if header["operators"] != _names(chain):
        raise StateError(
            f"the saved state is of the operators {', '.join(header['operators'])}, now they "
            f"are {', '.join(_names(chain))}; go on with the operators as they were, or start "
            "without the saved state"
        )
    number = len(chain.operators)
    states = [
        saved.from_bytes(operator, part)
        for operator, part in zip(chain.operators, parts[:number], strict=True)
    ]
    event_tables = {
        name: _event_table(start, old, pa.decompress(part, size, codec="zstd", asbytes=True))
        for (name, start, old, size), part in zip(
            header["event_tables"], parts[number:], strict=True
        )
    }
    watermarks = {
        (stream, origin): watermark for stream, origin, watermark in header["watermarks"]
    }
    idle = frozenset((stream, origin) for stream, origin in header["idle"])
    return ChainState(tuple(states), watermarks, idle, event_tables)


def _event_table(start: int, number: int, data: bytes) -> EventTable:
    old = np.frombuffer(data, np.int64, number).copy()
    return EventTable(decode_table(data[old.nbytes :]), old, start)


def _names(chain: ChainRuntime) -> list[str]:
    return [spec.name for spec in chain.spec.placement.operators]
