"""`shedlight new`: a small application that works, to start from."""

import runpy
import shlex
import shutil
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
import typer

from shedlight.engines.event_files import write_events
from shedlight.errors import InputError

_TEMPLATES = Path(__file__).parents[1] / "templates"
_EXAMPLES = Path(__file__).parents[3] / "examples"
"""Where the examples are in a checkout; an installed package has them among its templates."""

_EVENTS, _SECONDS, _USERS, _SEED = 40_000, 40, 2_000, 1
_START_MS = 1_767_603_600_000  # 2026-01-05T09:00:00Z
_TYPE_SHARES = {"view": 0.5, "login": 0.1, "login failed": 0.2, "order": 0.2}
_EXAMPLE_EVENTS = 20_000
_LEFT_OUT = shutil.ignore_patterns("data", "out", "matches.csv", "__pycache__", ".*")

Example = Literal["start", "cluster", "fraud", "kafka", "sensors"]


def new(
    folder: Annotated[Path, typer.Argument(help="A folder that is empty or does not exist.")],
    *,
    example: Annotated[
        Example, typer.Option(help="What to start from; start is the smallest.")
    ] = "start",
) -> None:
    """Write a small application that works, with events to try it on."""
    _check_unused(folder)
    try:
        shutil.copytree(_template(example), folder, ignore=_LEFT_OUT, dirs_exist_ok=True)
        if example == "start":
            (folder / "data").mkdir()
            write_events(sample_events(), folder / "data" / "events.csv")
        else:
            write = runpy.run_path(str(folder / "generate.py"))["write"]
            write(folder / "data", _EXAMPLE_EVENTS, _SEED)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error}") from error
    print(_next_steps(folder))


def sample_events() -> pa.Table:
    """Make the events of the smallest application; always the same."""
    rng = np.random.default_rng(_SEED)
    types = rng.choice(list(_TYPE_SHARES), _EVENTS, p=list(_TYPE_SHARES.values()))
    amounts = rng.lognormal(np.log(30), 1.0, _EVENTS).round(2)
    return pa.table(
        {
            "n": np.arange(1, _EVENTS + 1),
            "time_ms": _START_MS + np.sort(rng.integers(0, _SECONDS * 1_000, _EVENTS)),
            "user": rng.integers(1, _USERS + 1, _EVENTS),
            "type": types,
            "amount": pa.array(amounts, mask=types != "order"),
        }
    )


def _check_unused(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder that is empty or does not exist")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder} is not empty; name a folder that is, or that does not exist"
        )


def _template(example: Example) -> Path:
    packaged = _TEMPLATES / example
    return packaged if packaged.is_dir() else _EXAMPLES / example


def _next_steps(folder: Path) -> str:
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    option = " --snapshot snapshot.json" if "snapshot.json" in files else ""
    # events that are for a topic are in no file that the application names
    events = " --input events=data/events.jsonl" if "data/events.jsonl" in files else ""
    steps = (
        f"{folder}: {', '.join(files)}",
        "next:",
        f"  cd {shlex.quote(str(folder))}",
        "  shedlight check app.yaml",
        f"  shedlight match app.yaml --limit 5{events}",
        f"  shedlight simulate app.yaml --load 2{option}{events}",
    )
    return "\n".join(steps)
