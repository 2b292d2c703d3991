"""What a run leaves beside its log for others to plan with, and the wishes it is left.

Both are small files that appear whole. The situation is beside the log and replaced at every
decision. The wish is in the checkpoint; it is written by the page, read by the run, and stays
in force until somebody deletes it, over restarts too.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from shedlight.control.override import Override
from shedlight.engines.spark.support.atomic_file import replacing
from shedlight.errors import InputError

OVERRIDE = "wish.json"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class OverrideOutcome:
    """What a run made of a wish that it was left.

    Attributes:
        time: When it was looked at, in seconds since 1970.
        wish: All bounds and weights as they are from now on; none if it was refused.
        refused: Why it was; empty: it was not.
    """

    time: float
    wish: Override
    refused: str = ""


def planning_input_path(log: Path) -> Path:
    """Say where the situation of a run is.

    Example:
        >>> print(situation_beside(Path("state/log.jsonl")))
        state/log.situation.json
    """
    return log.with_name(f"{log.stem}.situation.json")


def write_atomically(path: Path, text: str) -> None:
    """Write a file that others see whole or not at all."""
    with replacing(path) as own:
        own.write_text(text, encoding="utf-8")


def store_override(checkpoint: Path, wish: Override) -> Override:
    """Leave a wish for a run, on top of those that were left before; give all together.

    Raises:
        InputError: It cannot be written.
    """
    try:
        before = read_override(checkpoint / OVERRIDE)
    except InputError:  # what cannot be read is in nobody's way
        before = Override()
    together = wish.over(before)
    row = {"bounds": dict(together.bounds), "weights": dict(together.weights)}
    try:
        write_atomically(checkpoint / OVERRIDE, json.dumps(row))
    except OSError as error:
        raise InputError("the wish cannot be written to the checkpoint of the run") from error
    return together


def read_override(path: Path) -> Override:
    """Read a wish; one that is not there is none.

    Raises:
        InputError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            row = json.loads(file.read(_MOST_BYTES))
        return Override(_numbers(row.get("bounds", {})), _numbers(row.get("weights", {})))
    except FileNotFoundError:
        return Override()
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(
            f"the file {path.name} in the checkpoint is no wish; delete it, or write "
            '{"bounds": {NODE: seconds}, "weights": {SINK: weight}}'
        ) from error


def _numbers(row: dict[str, object]) -> dict[str, float]:
    found = {}
    for name, value in row.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name} must be a number")  # noqa: TRY004
        found[name] = float(value)
        if not math.isfinite(found[name]):
            raise ValueError(f"{name} must be finite")
    return found


class OverrideWatcher:
    """Looks whether a run was left a wish.

    Args:
        checkpoint: Of the run.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._path = checkpoint / OVERRIDE
        self._known: tuple[int, int, int] | None = None

    def new(self) -> Override | None:
        """Give what is wished for if it is another than at the last look.

        Raises:
            InputError: What was left is no wish.
        """
        try:
            there = self._path.stat()
            mark = (there.st_ino, there.st_mtime_ns, there.st_size)
        except OSError:
            mark = None
        if mark == self._known:
            return None
        self._known = mark
        return read_override(self._path)
