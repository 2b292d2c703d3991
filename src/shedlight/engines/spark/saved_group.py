"""The state of a group as versioned bytes: what it was told, and each of its operators."""

from shedlight.engines.spark import saved
from shedlight.engines.spark.framing import framed, unframed
from shedlight.engines.spark.fused import Fused, FusedState
from shedlight.errors import StateError

VERSION = 2
_MARK = b"SHEDLIGHT-GROUP"


def to_bytes(fused: Fused, state: FusedState) -> bytes:
    """Save the state of a group."""
    operators = [
        saved.to_bytes(operator, one)
        for operator, one in zip(fused.operators, state.operators, strict=True)
    ]
    header = {
        "operators": _names(fused),
        "marks": [[*place, frontier] for place, frontier in state.marks.items()],
        "idle": sorted(state.idle),
    }
    return framed(_MARK, VERSION, header, operators)


def from_bytes(fused: Fused, data: bytes) -> FusedState:
    """Read the saved state of a group.

    Raises:
        StateError: It is damaged, of another version, or of other operators.
    """
    header, parts = unframed(_MARK, VERSION, data)
    if header["operators"] != _names(fused):
        raise StateError(
            f"the saved state is of the operators {', '.join(header['operators'])}, now they "
            f"are {', '.join(_names(fused))}; go on with the operators as they were, or start "
            "without the saved state"
        )
    states = [
        saved.from_bytes(operator, part)
        for operator, part in zip(fused.operators, parts, strict=True)
    ]
    marks = {(stream, origin): frontier for stream, origin, frontier in header["marks"]}
    idle = frozenset((stream, origin) for stream, origin in header["idle"])
    return FusedState(tuple(states), marks, idle)


def _names(fused: Fused) -> list[str]:
    return [spec.name for spec in fused.spec.part.operators]
