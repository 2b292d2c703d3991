"""The state of a run, for the commands that read it."""

from pathlib import Path

from shedlight.engines.spark.run.fingerprint import check_patterns
from shedlight.engines.spark.session.paths import is_local, local_folder
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.errors import InputError, StateError
from shedlight.graph import Application


def open_run_state(given: str | None, own: Path, application: Application) -> CheckpointPaths:
    """Find the folder of a run's state, `own` if none is given.

    Raises:
        InputError: It is in no local folder.
        StateError: There is no run of this application in it.
    """
    paths = CheckpointPaths(_local(given) if given else own.absolute())
    if not paths.fingerprint.exists():
        raise StateError(
            f"{paths.root} has no run in it; name the folder of its state by --checkpoint"
        )
    check_patterns(paths.fingerprint, application)
    return paths


def _local(given: str) -> Path:
    if not is_local(given):
        raise InputError(
            f"--checkpoint {given} is in no local folder; copy what is in it, but for the "
            "folders `query` and `outbox`, and name the copy"
        )
    return local_folder(given)
