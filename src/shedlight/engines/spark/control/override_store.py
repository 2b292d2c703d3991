"""Files that a run shares with the web UI: its planning input, and overrides.

Both are small and replaced as a whole. The planning input is next to the log and written at
every decision. The override is in the checkpoint; the web UI writes it, the run reads it, and
it stays active until somebody deletes it, over restarts too.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from shedlight.control.override import Override, apply_override, current_values
from shedlight.engines.spark.support.storage import StoredPath, replace_file
from shedlight.errors import InputError, ShedlightError
from shedlight.graph import Application

OVERRIDE = "override.json"
_MAX_BYTES = 1 << 20
_REMOTE_INTERVAL_S = 1.0  # between two looks over the network
_Numbers = dict[str, Annotated[float, Field(strict=True, allow_inf_nan=False)]]


class _OverrideFile(BaseModel):
    bounds: _Numbers = {}
    weights: _Numbers = {}


@dataclass(frozen=True, slots=True)
class OverrideOutcome:
    """What a run made of an override.

    Attributes:
        time: When it was read, in seconds since 1970.
        active: All bounds and weights as they are from now on; none if it was rejected.
        rejected: Why it was rejected; empty: it was not.
    """

    time: float
    active: Override
    rejected: str = ""


def store_override(checkpoint: StoredPath, override: Override) -> Override:
    """Store an override for a run, on top of what is stored; give all together.

    Raises:
        InputError: The file cannot be written, or what is stored cannot be read: what it
            overrides would be lost.
    """
    path = checkpoint / OVERRIDE
    merged = override.over(read_override(path))
    row = {"bounds": dict(merged.bounds), "weights": dict(merged.weights)}
    try:
        replace_file(path, json.dumps(row))
    except OSError as error:
        raise InputError(
            "the override cannot be written to the checkpoint of the run"
        ) from error
    return merged


def read_override(path: StoredPath) -> Override:
    """Read an override; a file that is missing overrides nothing.

    Raises:
        InputError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            stored = _OverrideFile.model_validate_json(file.read(_MAX_BYTES))
        return Override(stored.bounds, stored.weights)
    except FileNotFoundError:
        return Override()
    except (OSError, ValueError) as error:
        raise InputError(
            f"the file {path.name} in the checkpoint cannot be read as an override; delete it, "
            'or write {"bounds": {NODE: seconds}, "weights": {SINK: weight}}'
        ) from error


class OverrideWatcher:
    """Finds new overrides of a run in its checkpoint.

    It looks when it is asked, but over the network from time to time alone.
    """

    def __init__(self, checkpoint: StoredPath) -> None:
        self._path = checkpoint / OVERRIDE
        self._version: tuple[int, int, int] | None = None
        self._interval = 0.0 if isinstance(checkpoint, Path) else _REMOTE_INTERVAL_S
        self._next = 0.0

    def new(self) -> Override | None:
        """Give the override if its file is another than at the last call.

        Raises:
            InputError: It cannot be read.
        """
        if time.monotonic() < self._next:
            return None
        self._next = time.monotonic() + self._interval
        try:
            stat = self._path.stat()
            version = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        except OSError:
            version = None
        if version == self._version:
            return None
        self._version = version
        return read_override(self._path)


@dataclass(frozen=True, slots=True)
class TakenOverride:
    """A new override, and what becomes of it."""

    outcome: OverrideOutcome
    application: Application | None = None  # with its bounds and weights; None: it was rejected
    reason: str = ""  # why there is to be a new plan


def next_override(
    watcher: OverrideWatcher, application: Application, now: float
) -> TakenOverride | None:
    """Apply an override to an application as its file has it, if there is a new one."""
    try:
        override = watcher.new()
        if override is None:
            return None
        changed = apply_override(application, override)
    except ShedlightError as error:
        return TakenOverride(OverrideOutcome(now, Override(), str(error)))
    kinds = {name: node.percentile for name, node in changed.nodes.items()}
    asked = override.describe(kinds) or "all is as in the file"
    outcome = OverrideOutcome(now, current_values(changed))
    return TakenOverride(outcome, changed, f"as was asked for, {asked}")
