"""Applications and snapshots for the tests of the model."""

import json
from collections.abc import Mapping
from pathlib import Path

from shedlight.graph import (
    Application,
    Node,
    OperatorSpec,
    Stream,
    build_application,
    load_application,
)
from shedlight.language import parse_pattern
from shedlight.model.snapshot import Snapshot
from tests.graph.applications import PAPER, source, stream

PAPERS: Mapping[str, Mapping[str, object]] = {
    "rates": {
        "s1": {"type=0": 40, "type=1": 20, "type=2": 10, "type=3": 10},
        "s2": {"type=0": 60, "type=1": 30, "type=2": 40, "type=3": 40},
    },
    "output_rates": {"w1.Q11": 19.9, "w1.Q12": 6.0},
    "processing_time": {"w2.Q21": 0.002, "w2.Q22": 0.004},
}
"""The snapshot of the design."""


def paper() -> Application:
    """Load the paper's running example."""
    return load_application(PAPER).application


def written(folder: Path, value: object) -> Path:
    """Write a snapshot: text as it is, anything else as JSON."""
    path = folder / "snapshot.json"
    text = value if isinstance(value, str) else json.dumps(value)
    path.write_text(text, encoding="utf-8")
    return path


def operators(**texts: str | Mapping[str, object]) -> Application:
    """Make an application of operators `w1="s1: SELECT ..."` or of their settings.

    Each operator has one pattern of its own name in upper case, and a node of its own.
    """
    specs = []
    for name, text in texts.items():
        settings = {"text": text} if isinstance(text, str) else dict(text)
        inputs, _, pattern = str(settings.pop("text")).partition(": ")
        specs.append(
            OperatorSpec(
                name=name,
                node=f"on-{name}",
                inputs=tuple(map(stream, inputs.split())),
                patterns={name.upper(): parse_pattern(pattern).pattern},
                **settings,
            )
        )
    names = {one.name for spec in specs for one in spec.inputs if one.operator is None}
    nodes = [Node(name=spec.node) for spec in specs]
    return build_application("test", map(source, sorted(names)), nodes, specs, [])


def snapshot(rates: Mapping[str, Mapping[str, float]], **more: object) -> Snapshot:
    """Make a snapshot with streams by their text."""
    sections = {
        name: {stream(key): value for key, value in section.items()}
        for name, section in {"rates": rates, **more}.items()
        if isinstance(section, Mapping)
    }
    return Snapshot(**sections)  # type: ignore[arg-type]


S1 = Stream("s1")
